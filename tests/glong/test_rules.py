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
        ("Did I tell you that I like tea?", [("I", "like", "tea")]),
        ("Did you know my sister has a cat?", [("my sister", "have", "cat")]),
        ("Do you know if I like tea?", []),
        ("Do you think that I like tea?", []),
        ("I don't think that I like tea.", [("I", "not_like", "tea")]),
        ("I think I like tea.", [("I", "like", "tea")]),
        ("None of my friends smoke", [("my friends", "not_do", "smoke")]),
        ("No one in my family has a car", [("my family", "have_no", "car")]),
        ("One of my friends has a car", [("my friends", "have", "car")]),
        ("I no longer work at Google.", [("I", "not_work_at", "Google")]),
        ("I am no longer a nurse.", [("I", "not_be", "nurse")]),
        ("I don't eat meat any longer", [("I", "not_eat", "meat")]),
        ("I don't smoke any more", [("I", "not_do", "smoke")]),
        ("I don't want any more", []),
        ("There's no way I'd eat bugs", [("I", "not_eat", "bugs")]),
        ("I hardly ever eat meat", [("I", "not_eat", "meat")]),
        ("I wish I had a sister", []),
        ("I could have been a doctor", []),
        ("I would have a car if I were rich", []),
        ("I can't cook at all", [("I", "not_can", "cook")]),
        ("I don't have a job right now", [("I", "have_no", "job")]),
        ("I baked her a carrot cake", [("I", "bake", "carrot cake")]),
        ("I adopted him in March", []),
        ("I completely forgot my keys", [("I", "forget", "my keys")]),
        ("I grew up in Ohio", [("I", "grow_up_in", "Ohio")]),
        ("My cat is called Milo", [("My cat", "be_called", "Milo")]),
        ("I got a dog. Her name is Bo.", [("I", "get", "dog"), ("dog", "name", "Bo")]),
        ("My aunt is old. Her name is Jo.", [("My aunt", "be", "old"), ("My aunt", "name", "Jo")]),
        ("I like dogs. Her name is Bo.", [("I", "like", "dogs")]),
        ("His name is Rex.", []),
        (
            "I have a car. My brother drives. His name is Al.",
            [("I", "have", "car"), ("My brother", "do", "drives"), ("My brother", "name", "Al")],
        ),
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
