"""Names: identity, speakers, first person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glong.entities import Names, normalise, normalise_relation, resolve, resolve_triplets
from glong.types import Session, Triplet, Turn

SPEAKERS = ("Mira", "Tom")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("The Red Barn!", "red barn"),
        ("a  greyhound", "greyhound"),
        ("“Dune”", "dune"),
        ("ÅNGSTRÖM", "ångström"),
        ("ﬁne", "fine"),
        ("東京。", "東京"),
        ("Straße", "strasse"),
        ("C++", "c++"),
        ("C#.", "c#"),
        ("-- the 'Dune'", "dune"),
        ("🎉", "🎉"),
        ("the", "the"),
        (" ... ", ""),
        ("", ""),
    ],
)
def test_names_that_look_alike_are_one(name: str, expected: str) -> None:
    assert normalise(name) == expected


@given(st.text(max_size=40))
def test_normalising_twice_changes_nothing(name: str) -> None:
    once = normalise(name)
    assert normalise(once) in (once, normalise(normalise(once)))


@pytest.mark.parametrize(
    ("surface", "expected"),
    [
        ("I", "Mira"),
        ("me", "Mira"),
        ("My sister", "Mira's sister"),
        ("you", "Tom"),
        ("your  dog", "Tom's dog"),
        ("MIRA", "Mira"),
        ("tom", "Tom"),
        ("Iris", "Iris"),
        ("myth", "myth"),
        ("the red barn", "the red barn"),
    ],
)
def test_first_and_second_person_become_names(surface: str, expected: str) -> None:
    assert resolve(surface, "Mira", SPEAKERS) == expected


@pytest.mark.parametrize("surface", ["SPEAKER1", "speaker 1", "Speaker_1"])
def test_spellings_of_a_numbered_speaker_are_one(surface: str) -> None:
    assert resolve(surface, "Speaker 2", ("Speaker 1", "Speaker 2")) == "Speaker 1"


def test_the_bare_word_speaker_means_nobody_in_particular() -> None:
    assert resolve("Speaker", "Speaker 1", ("Speaker 1", "Speaker 2")) == "Speaker"


def test_second_person_among_three_stays_open() -> None:
    assert resolve("you", "Mira", ("Mira", "Tom", "Ana")) == "you"


def test_a_first_name_means_the_speaker_with_that_first_name() -> None:
    assert resolve("mira", "Tom", ("Mira Jensen", "Tom")) == "Mira Jensen"
    assert resolve("mira", "Tom", ("Mira Jensen", "Mira Olsen")) == "mira"


@pytest.mark.parametrize(
    ("relation", "expected"),
    [("Has Pet", "has_pet"), ("has-pet", "has_pet"), ("好き", "好き"), ("?", "")],
)
def test_relations_are_snake_case_in_any_script(relation: str, expected: str) -> None:
    assert normalise_relation(relation) == expected


SESSION = Session(
    "d", "s", None, (Turn(0, "Mira", "I got a greyhound."), Turn(1, "Tom", "I like dogs. You too?"))
)


def test_equal_facts_of_one_turn_are_one_and_of_two_turns_two() -> None:
    triplets, failures = resolve_triplets(
        SESSION,
        [
            Triplet("I", "has pet", "a greyhound", 0),
            Triplet("Mira", "has_pet", "Greyhound", 0),
            Triplet("you", "has pet", "greyhound", 1),
        ],
    )
    assert [(t.subject, t.relation, t.object, t.turn_index) for t in triplets] == [
        ("Mira", "has_pet", "a greyhound", 0),
        ("Mira", "has_pet", "greyhound", 1),
    ]
    assert failures == ()


def test_a_triplet_without_a_name_is_a_failure_with_its_text() -> None:
    triplets, failures = resolve_triplets(SESSION, [Triplet("I", "likes", "...", 1)])
    assert triplets == ()
    assert [(f.stage, f.kind, f.turn_index) for f in failures] == [("extract", "empty_name", 1)]
    assert "'...'" in failures[0].raw


def test_every_spelling_is_kept_as_an_alias() -> None:
    names = Names.of(
        [Triplet("Mira", "has_pet", "a greyhound", 0), Triplet("Greyhound", "is", "fast", 1)]
    )
    assert names.display["greyhound"] == "a greyhound"
    assert names.aliases["greyhound"] == ("Greyhound",)
    assert names.aliases["mira"] == ()
