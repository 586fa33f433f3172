import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.config import DECODER_MODELS, FAKE_MODELS
from glong.extraction import (
    CONTEXT_CHARS,
    TOKENS_PER_TRIPLET,
    LLMExtractor,
    answer_schema,
    chat,
    extraction_fingerprint,
    plan_windows,
)
from glong.models.fake import FakeGenerator
from glong.prompts import clean
from glong.types import Failure, Generation, Session, Triplet, Turn, Usage

SPEC = replace(FAKE_MODELS.extractor, window_turns=2, context_turns=1, window_chars=200)


def session(*texts, name="s1"):
    speakers = ("Mira", "Jonas")
    turns = tuple(Turn(2 * i, speakers[i % 2], text) for i, text in enumerate(texts))
    return Session("d1", name, None, turns)


def answer(*facts):
    keys = ("turn", "subject", "relation", "object")
    return json.dumps([dict(zip(keys, fact, strict=True)) for fact in facts])


def test_windows_hold_so_many_turns_and_the_context_before_them():
    first, second = plan_windows(session("one", "two", "three"), SPEC)
    assert [turn.text for turn in first.turns] == ["one", "two"]
    assert first.context == ()
    assert [turn.text for turn in second.turns] == ["three"]
    assert [turn.text for turn in second.context] == ["two"]


def test_a_long_turn_is_split_into_pieces_of_the_same_turn():
    text = "word " * 100
    windows = plan_windows(session("hi", text.strip()), SPEC)
    pieces = [turn for window in windows for turn in window.turns if turn.index == 2]
    assert len(pieces) == 3
    assert " ".join(piece.text for piece in pieces) == text.strip()
    assert max(len(piece.text) for piece in pieces) <= 200


def test_blank_turns_are_in_no_window():
    assert plan_windows(session(" ", "\n"), SPEC) == ()
    (window,) = plan_windows(session("one", " ", "three"), SPEC)
    assert [turn.index for turn in window.turns] == [0, 4]


def test_context_is_the_bounded_end_of_a_turn():
    _, last = plan_windows(session("x", "a" * 390 + "end", "y"), replace(SPEC, window_chars=400))[
        -2:
    ]
    assert len(last.context[0].text) <= CONTEXT_CHARS
    assert last.context[0].text.endswith("end")


@settings(deadline=None)
@given(
    st.lists(st.text(alphabet="ab \n<|é", max_size=500), max_size=12),
    st.integers(1, 5),
    st.integers(0, 3),
)
def test_windows_cover_every_turn_once_in_order_within_bounds(texts, window_turns, context_turns):
    spec = replace(SPEC, window_turns=window_turns, context_turns=context_turns)
    whole = session(*texts)
    windows = plan_windows(whole, spec)
    lines = [turn for window in windows for turn in window.turns]
    for turn in whole.turns:
        pieces = "".join(line.text for line in lines if line.index == turn.index)
        assert pieces.replace(" ", "") == clean(turn.text).replace(" ", "")
    assert [line.index for line in lines] == sorted(line.index for line in lines)
    for window in windows:
        assert 1 <= len(window.turns) <= window_turns
        assert sum(len(turn.text) for turn in window.turns) <= spec.window_chars
        assert len(window.context) <= context_turns


def test_the_request_bounds_the_answer():
    (window,) = plan_windows(session("one", "two"), SPEC)
    request = chat(window, SPEC)
    assert request.max_tokens == SPEC.max_tokens
    schema = json.loads(request.json_schema)
    assert schema["items"]["properties"]["turn"]["enum"] == [1, 2]
    assert schema["maxItems"] == 2 * SPEC.max_triplets_per_turn
    assert json.loads(answer_schema(8, 8, 96))["maxItems"] == 2


def test_triplets_of_all_windows_come_in_order_of_turns_with_usage_and_failures():
    talk = session("one", "two", "three")
    first, second = (chat(window, SPEC) for window in plan_windows(talk, SPEC))
    generator = FakeGenerator(
        {
            first: Generation(
                answer((2, "J", "r", "x"), (1, "M", "r", "y"), (9, "M", "r", "z")), Usage(7, 3)
            ),
            second: Generation("nothing", Usage(5, 1)),
        }
    )
    (extraction,) = LLMExtractor(generator, SPEC).extract([talk])
    assert extraction.triplets == (Triplet("M", "r", "y", 0), Triplet("J", "r", "x", 2))
    assert [(f.kind, f.turn_index) for f in extraction.failures] == [
        ("unknown_turn", 0),
        ("unparsable_output", 4),
    ]
    assert extraction.usage == Usage(12, 4)
    assert extraction.n_windows == 2


def test_a_failed_request_is_a_failure_of_its_window():
    talk = session("one")
    (window,) = plan_windows(talk, SPEC)
    failure = Failure("?", "timeout", "too slow", transient=True)
    generator = FakeGenerator({chat(window, SPEC): Generation("", failure=failure)})
    (extraction,) = LLMExtractor(generator, SPEC).extract([talk])
    assert extraction.failures == (replace(failure, stage="extract", turn_index=0),)


def test_a_triplet_repeated_over_two_pieces_of_a_turn_counts_once():
    talk = session("word " * 70)
    windows = plan_windows(talk, replace(SPEC, window_turns=1))
    spec = replace(SPEC, window_turns=1)
    generator = FakeGenerator({chat(w, spec): answer((1, "M", "r", "y")) for w in windows})
    (extraction,) = LLMExtractor(generator, spec).extract([talk])
    assert extraction.n_windows == 2
    assert extraction.triplets == (Triplet("M", "r", "y", 0),)


def test_the_result_does_not_depend_on_the_batch():
    talks = [
        session(*(f"word{i} and thing{j}" for j in range(i + 1)), name=f"s{i}") for i in range(9)
    ]
    extractor = LLMExtractor(FakeGenerator(), SPEC)
    together = extractor.extract(talks)
    assert together == [extractor.extract([talk])[0] for talk in talks]
    assert together == extractor.extract(talks[::-1])[::-1]
    assert sum(len(extraction.triplets) for extraction in together) > 5
    assert extractor.extract([]) == []


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"batch_size": 1}, True),
        ({"max_concurrency": 1, "timeout_s": 1.0, "max_retries": 0}, True),
        ({"window_turns": 3}, False),
        ({"context_turns": 0}, False),
        ({"window_chars": 300}, False),
        ({"max_triplets_per_turn": 1}, False),
        ({"max_tokens": 99}, False),
    ],
)
def test_the_fingerprint_holds_what_changes_results(change, same):
    before, after = (
        extraction_fingerprint("g", SPEC),
        extraction_fingerprint("g", replace(SPEC, **change)),
    )
    assert (before == after) is same
    assert extraction_fingerprint("other", SPEC) != before


def test_the_small_preset_can_always_end_its_answer():
    spec = DECODER_MODELS.extractor
    schema = json.loads(
        answer_schema(spec.window_turns, spec.max_triplets_per_turn, spec.max_tokens)
    )
    assert schema["maxItems"] * TOKENS_PER_TRIPLET <= spec.max_tokens
