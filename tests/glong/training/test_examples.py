import hashlib

from glong.training.examples import (
    Fact,
    LabelledDialogue,
    LabelledTurn,
    Mention,
    is_held_out,
    normal_form,
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
