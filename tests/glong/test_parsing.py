import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.parsing import (
    OBJECT_CHARS,
    RELATION_CHARS,
    RELATION_PATTERN,
    SUBJECT_CHARS,
    answer_text,
    parse_answer,
)
from glong.relations import denial_of, relations
from glong.types import Triplet, Turn

TURNS = (
    Turn(10, "Mira", "I adopted a greyhound named Pixel."),
    Turn(12, "Jonas", "I bake sourdough on Sundays."),
)
PET = Triplet("Mira", "adopted", "a greyhound", 10)
BREAD = Triplet("Jonas", "bakes", "sourdough", 12)
ITEMS = [
    {"turn": 1, "subject": "Mira", "relation": "adopted", "object": "a greyhound"},
    {"turn": 2, "subject": "Jonas", "relation": "bakes", "object": "sourdough"},
]
NO_TURN = [{k: v for k, v in item.items() if k != "turn"} for item in ITEMS]


def kinds(failures):
    return [failure.kind for failure in failures]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ITEMS),
        "\n".join(map(json.dumps, ITEMS)),
        ", ".join(map(json.dumps, ITEMS)),
        json.dumps({"triplets": ITEMS}),
        json.dumps({"items": ITEMS}),
        f"```json\n{json.dumps(ITEMS, indent=2)}\n```",
        f"Here are [2] facts:\n{json.dumps(ITEMS)}\nDone.",
        f"<think>\nTurn [1] says {{...}}\n</think>\n\n{json.dumps(ITEMS)}",
        json.dumps([["Mira", "adopted", "a greyhound"], ["Jonas", "bakes", "sourdough"]]),
        json.dumps([[1, "Mira", "adopted", "a greyhound"], ["2", "Jonas", "bakes", "sourdough"]]),
        json.dumps(NO_TURN),
        json.dumps(
            [{"turn": i["turn"], "triplets": [n]} for i, n in zip(ITEMS, NO_TURN, strict=True)]
        ),
        json.dumps([{k.title(): v for k, v in item.items()} for item in ITEMS]),
        '[{"turn": "Turn 1", "head": "Mira", "predicate": "adopted", "tail": "a greyhound"}, '
        '{"t": 2.0, "s": "Jonas", "r": "bakes", "o": ["sourdough"]}]',
        json.dumps(ITEMS + ITEMS[:1]),
    ],
)
def test_accepted_forms_give_the_same_triplets(text):
    assert parse_answer(text, TURNS) == ((PET, BREAD), ())


def test_an_empty_list_is_no_failure():
    assert parse_answer("[]", TURNS) == ((), ())
    assert parse_answer('{"triplets": []}', TURNS) == ((), ())


@pytest.mark.parametrize("text", ["", "no facts", "[1]", "{", "<think>never ends [{", '["a", "b"]'])
def test_an_answer_without_json_is_unparsable(text):
    triplets, failures = parse_answer(text, TURNS)
    assert triplets == ()
    assert kinds(failures) == ["unparsable_output"]
    assert failures[0].raw == text
    assert failures[0].turn_index == 10


@pytest.mark.parametrize("around", ["{}", '{{"triplets": {}'])
@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_truncated_list_keeps_its_complete_items(around, cut):
    text = around.format(
        json.dumps([*ITEMS, ITEMS[0] | {"object": "a second greyhound"}])[: -1 - cut]
    )
    triplets, failures = parse_answer(text, TURNS)
    assert triplets == (PET, BREAD)
    assert kinds(failures) == ["truncated_output"]


@pytest.mark.parametrize("number", [0, 3, -1, "-1", 7.5, True, "none", 10**40])
def test_a_turn_that_was_not_shown_is_a_failure(number):
    triplets, failures = parse_answer(json.dumps([ITEMS[0] | {"turn": number}, ITEMS[1]]), TURNS)
    assert triplets == (BREAD,)
    assert kinds(failures) == ["unknown_turn"]
    assert "1 to 2" in failures[0].message


@pytest.mark.parametrize(
    "item",
    [3, "text", {}, [], ["a", "b"], {"subject": "Mira"}, ITEMS[0] | {"object": "..."},
     ITEMS[0] | {"object": None}, ITEMS[0] | {"subject": {"name": "Mira"}}],
)  # fmt: skip
def test_an_item_that_is_no_triplet_is_a_failure_and_the_rest_is_kept(item):
    triplets, failures = parse_answer(json.dumps([item, ITEMS[1]]), TURNS)
    assert triplets == (BREAD,)
    assert kinds(failures) == ["malformed_triplet"]


def test_a_copy_of_the_prompts_example_is_a_failure_unless_a_turn_says_it():
    text = '[{"turn": 1, "subject": "Mira", "relation": "prefers", "object": "cats"}]'
    assert kinds(parse_answer(text, TURNS)[1]) == ["copied_example"]
    told = (Turn(0, "Mira", "Cats are better than dogs."),)
    assert parse_answer(text, told) == ((Triplet("Mira", "prefers", "cats", 0),), ())


def test_without_a_number_the_only_turn_or_the_first_counts():
    text = '[{"subject": "Zoe", "relation": "likes", "object": "tea"}]'
    assert parse_answer(text, TURNS[1:])[0][0].turn_index == 12
    assert parse_answer(text, TURNS)[0][0].turn_index == 10


def test_long_fields_are_cut_at_a_word():
    item = {"turn": 1, "subject": "s" * 500, "relation": "r" * 500, "object": "word " * 500}
    (triplet,), _ = parse_answer(json.dumps([item]), TURNS)
    assert len(triplet.subject) == SUBJECT_CHARS
    assert len(triplet.relation) == RELATION_CHARS
    assert triplet.object == ("word " * (OBJECT_CHARS // 5)).strip()


@pytest.mark.parametrize("text", ["[" * 60_000, '{"a":' * 30_000, "[" + "9" * 6_000 + "]"])
def test_hostile_answers_are_failures_and_quick(text):
    triplets, failures = parse_answer(text, TURNS)
    assert triplets == ()
    assert len(failures) == 1


def test_half_a_surrogate_pair_cannot_reach_the_store():
    text = '[{"turn": 1, "subject": "Mira\\ud83d", "relation": "r", "object": {"x": "\\ud83d"}}]'
    _, failures = parse_answer(text, TURNS)
    failures[0].raw.encode("utf-8")
    text = '[{"turn": 1, "subject": "Mira\\ud83d", "relation": "r", "object": "x"}]'
    assert parse_answer(text, TURNS)[0][0].subject == "Mira"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["turn", "subject", "relation", "object", "triplets"]), inner
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.text() | JSON_VALUES.map(json.dumps) | st.text(alphabet='[]{}",:1aturnsobjec \\'))
def test_any_text_gives_bounded_triplets_of_shown_turns_and_never_raises(text):
    triplets, failures = parse_answer(text, TURNS)
    assert len(set(triplets)) == len(triplets)
    for triplet in triplets:
        assert triplet.turn_index in (10, 12)
        assert 0 < len(triplet.subject) <= SUBJECT_CHARS
        assert 0 < len(triplet.relation) <= RELATION_CHARS
        assert 0 < len(triplet.object) <= OBJECT_CHARS
    assert all(failure.stage == "extract" for failure in failures)


NAMES = st.from_regex(r"[A-Za-z'äß][A-Za-z0-9 'äß]{0,30}[A-Za-z0-9]", fullmatch=True).map(
    lambda name: " ".join(name.split())
)
TRIPLETS = st.builds(Triplet, NAMES, NAMES, NAMES, st.sampled_from([10, 12]))


@settings(deadline=None)
@given(st.lists(TRIPLETS, unique=True))
def test_what_answer_text_writes_is_read_back(triplets):
    assert parse_answer(answer_text(triplets, TURNS), TURNS) == (tuple(triplets), ())


@pytest.mark.parametrize("name", sorted(relations()))
def test_constrained_decoding_can_write_every_listed_relation_and_its_denial(name):
    for relation in (name, denial_of(name)):
        assert re.fullmatch(RELATION_PATTERN, relation)
        assert len(relation) < RELATION_CHARS


def test_a_relation_of_a_denied_verb_with_four_words_can_be_written():
    assert re.fullmatch(RELATION_PATTERN, "not_be_fond_of_the")
