import pytest

from glong.rules import RuleExtractor
from glong.types import Session, Triplet, Turn


def extracted(*texts):
    turns = tuple(Turn(i, ("Mira", "Jonas")[i % 2], text) for i, text in enumerate(texts))
    (found,) = RuleExtractor().extract([Session("d", "s", None, turns)])
    return [(t.subject, t.relation, t.object) for t in found.triplets]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My favorite color is blue.", [("I", "favorite_color", "blue")]),
        ("my name is kate", [("I", "name", "kate")]),
        ("I hate cats but I love dogs", [("I", "hate", "cats"), ("I", "love", "dogs")]),
        ("I have no car", [("I", "have_no", "car")]),
        ("I've never visited Rome", [("I", "not_visit", "Rome")]),
        (
            "My brother moved to Oslo. He works at a bank.",
            [("My brother", "move_to", "Oslo"), ("My brother", "work_at", "bank")],
        ),
        ("He works at a bank.", []),
        ("My name is Willy and he's the sweetest dog", [("I", "name", "Willy")]),
        ("My parents are old. She's a cook.", [("My parents", "be", "old")]),
        ("I think so too", []),
        ("Do you like tea?", []),
        ("You like tea.", []),
        ("", []),
    ],
)
def test_what_a_turn_states(text, expected):
    assert extracted(text) == expected


def test_each_triplet_is_tied_to_its_turn():
    turns = (Turn(3, "A", "I like tea"), Turn(7, "B", "I like coffee"))
    (found,) = RuleExtractor().extract([Session("d", "s", None, turns)])
    assert found.triplets == (Triplet("I", "like", "tea", 3), Triplet("I", "like", "coffee", 7))


def test_a_batch_gives_each_session_what_it_gives_alone():
    sessions = [Session("d", str(i), None, (Turn(0, "A", f"I like tea{i}"),)) for i in range(3)]
    extractor = RuleExtractor()
    assert extractor.extract(sessions) == [extractor.extract([one])[0] for one in sessions]
