from hypothesis import given
from hypothesis import strategies as st

from glong.models.tagger_text import (
    CONTEXT_WORDS,
    TURN_WORDS,
    Found,
    may_state,
    pair_of,
    passages,
    triplets_of,
)
from glong.types import Session, Triplet, Turn


def read(*texts):
    turns = tuple(Turn(i, ("Mira", "Jonas")[i % 2], text) for i, text in enumerate(texts))
    return list(passages(Session("d", "s", None, turns)))


def fact(target, relation="like", subject=None, trigger=None, is_denied=False):
    return Found(target, relation, is_denied, subject, trigger)


def triplet_of(one, passage):
    """The triplet of one fact, in a passage without plain clauses or with that one alone."""
    found = triplets_of([one], passage, 8)
    return found[0] if found else None


def test_a_turn_is_read_after_the_turn_before():
    _, second = read("Do you like tea ?", "yes")
    assert pair_of(second).before == ("do", "you", "like", "tea", "?")
    assert pair_of(second).turn == ("yes",)


def test_a_pointer_into_the_turn_before_gives_its_words_from_here():
    _, second = read("how is your sister ?", "she works at a bank")
    found = triplet_of(fact((9, 9), "", subject=(2, 3), trigger=(6, 7)), second)
    assert found == Triplet("my sister", "work_at", "bank", 1)


def test_ones_own_turn_before_is_not_turned_round():
    turns = (Turn(0, "A", "my sister called"), Turn(1, "A", "she likes tea"))
    *_, second = passages(Session("d", "s", None, turns))
    assert triplet_of(fact((5, 5), subject=(0, 1)), second).subject == "my sister"


def test_no_pointer_is_the_speaker():
    (one,) = read("I like tea")
    assert triplet_of(fact((2, 2)), one) == Triplet("I", "like", "tea", 0)


def test_a_denied_relation_is_named_by_its_denial():
    (one,) = read("I don't like tea")
    denied = fact((4, 4), "like_drink", is_denied=True)
    assert triplet_of(denied, one).relation == "dislike_drink"
    open_one = fact((4, 4), "", trigger=(1, 3), is_denied=True)
    assert triplet_of(open_one, one).relation == "not_like"


def test_the_open_class_without_a_verb_gives_nothing():
    (one,) = read("big tea fan")
    assert triplet_of(fact((1, 1), ""), one) is None
    assert triplet_of(fact((2, 2), "", trigger=(0, 0)), read("!! like tea")[0]) is None


def test_a_plain_clause_that_the_network_left_out_is_added():
    (one,) = read("I like tea . My sister works at a bank .")
    found = triplets_of([fact((2, 2), "like_drink")], one, 8)
    assert [(t.subject, t.relation, t.object) for t in found] == [
        ("I", "like_drink", "tea"),
        ("My sister", "work_at", "bank"),
    ]
    assert triplets_of([fact((2, 2), "like_drink")], one, 1) == found[:1]


def test_beside_the_clauses_only_what_is_surer_counts():
    (one,) = read("big tea fan here")
    unsure = Found((1, 1), "like_drink", False, None, None, chance=0.7)
    assert triplets_of([unsure], one, 8) == []
    _, answer = read("Do you like tea ?", "yes")
    asked = Found((3, 3), "like_drink", False, None, None, chance=0.7)
    assert [t.object for t in triplets_of([asked], answer, 8)] == ["tea"]


def test_a_passage_about_nobody_is_not_read():
    advice = "1. Choose a quiet place . 2. Use good light . 3. Take many short breaks every hour ."
    assert not may_state(read(advice)[0])
    assert may_state(read(advice + " my sister says so")[0])
    assert may_state(read("Anna lives in Oslo")[0])
    assert may_state(read("Which food ?", "pizza")[1])


def test_a_long_turn_is_cut_at_sentence_ends_and_every_word_is_read_once():
    sentence = "I like my old red bicycle very much . "
    parts = read(sentence * 40)
    assert all(part.end - part.start <= TURN_WORDS for part in parts)
    assert [part.start for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert parts[-1].end == len(parts[-1].words)
    assert all(part.words.lower[part.end - 1] == "." for part in parts)
    assert pair_of(parts[1]).before == parts[0].words.lower[: parts[0].end][-CONTEXT_WORDS:]


def test_places_in_a_later_part_are_places_of_the_turn():
    parts = read("word . " * 60 + "I like tea")
    last = parts[-1]
    n_before = pair_of(last).n_before
    at = n_before + last.end - last.start - 1
    assert triplet_of(fact((at, at)), last).object == "tea"


@given(st.lists(st.text(max_size=400), max_size=4))
def test_any_session_is_cut_into_parts_that_cover_its_words(texts):
    parts = read(*texts)
    for index, _ in enumerate(texts):
        own = [part for part in parts if part.turn_index == index]
        assert sum(part.end - part.start for part in own) == (len(own[0].words) if own else 0)
