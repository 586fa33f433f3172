import hashlib

import pytest

from glong.training.examples import (
    Fact,
    LabelledDialogue,
    LabelledTurn,
    Mention,
    is_held_out,
    normal_form,
    spoken_form,
    windows,
)
from glong.types import Triplet

DIALOGUE = LabelledDialogue(
    "made",
    (
        LabelledTurn("A", "Do you have a dog?"),
        LabelledTurn(
            "B", "Yes! My sister hates it.", (
                Fact(None, "have_pet", Mention((3, 5), 1)),
                Fact(Mention((2, 4)), "hate", Mention((5, 6)), Mention((4, 5))),
            ),
        ),
        LabelledTurn("A", "I like tea", (Fact(None, "like_drink", Mention((2, 3))),), False),
    ),
)  # fmt: skip


def test_windows_write_facts_as_triplets_tied_to_their_turns():
    first, *_ = windows(DIALOGUE, 2, 1)
    assert first.triplets == (
        Triplet("I", "have_pet", "a dog", 1),
        Triplet("My sister", "hate", "it", 1),
    )
    assert [turn.index for turn in first.turns] == [0, 1]
    assert first.context == ()


def test_a_window_with_a_turn_of_unknown_facts_is_left_out():
    assert [window.turns[0].index for window in windows(DIALOGUE, 1, 1)] == [0, 1]


def test_a_lone_turn_with_one_known_fact_is_kept():
    lone = LabelledDialogue("made", DIALOGUE.turns[2:])
    (window,) = windows(lone, 8, 2)
    assert window.triplets == (Triplet("I", "like_drink", "tea", 0),)


def test_what_another_said_is_turned_round():
    asked = LabelledTurn("B", "How is your sister?")
    told = LabelledTurn(
        "A", "She likes cats.", (Fact(Mention((2, 4), 1), "like", Mention((2, 3))),)
    )
    (window,) = windows(LabelledDialogue("made", (asked, told)), 2, 0)
    assert window.triplets == (Triplet("my sister", "like", "cats", 1),)


def test_an_answer_about_a_turn_that_is_not_shown_is_left_out():
    assert [window.turns[0].index for window in windows(DIALOGUE, 1, 0)] == [0]


def test_the_turns_before_a_window_are_its_context():
    *_, last = windows(DIALOGUE, 1, 1)
    assert [turn.text for turn in last.context] == ["Do you have a dog?"]


def test_equal_utterances_have_one_normal_form():
    assert normal_form("Hi , I 'm  Kate !") == normal_form("hi, i'm kate") == "hi i m kate"


def test_held_out_is_a_tenth_by_hash():
    texts = [f"utterance {i}" for i in range(2000)]
    share = sum(map(is_held_out, texts)) / len(texts)
    assert 0.07 < share < 0.13
    digest = hashlib.sha256(b"utterance 1").hexdigest()
    assert is_held_out("Utterance, 1!") == (int(digest, 16) % 10 == 0)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("I'm fine , thanks", "i am fine, thanks"),
        ("I don\u2019t swim", "i do not swim"),
        ("I can't", "I cannot"),
        ("we won't", "we will not"),
        ("im here and ive eaten", "I am here and I have eaten"),
        ("my dog 's tail", "my dog's tail"),
    ],
)
def test_utterances_that_sound_alike_have_one_spoken_form(left, right):
    assert spoken_form(left) == spoken_form(right)
    assert spoken_form("I do not swim") != spoken_form("I do swim")
