import pytest

from glong.training.judging import Case, score
from glong.types import Extraction, Failure, Session, Triplet, Turn

TURNS = (Turn(0, "speaker2", "do you have pets ?"), Turn(1, "speaker1", "i have two old dogs"))


def scored(gold, found, judged=-1, failures=()):
    case = Case(Session("d", "s", None, TURNS), tuple(gold), judged)
    return score([case], [Extraction(tuple(found), tuple(failures))])


def test_the_first_person_is_the_speaker_and_articles_and_case_do_not_count():
    gold = [Triplet("speaker1", "have_pet", "Two old dogs", 1)]
    found = [Triplet("I", "have_pet", "the two old dogs.", 1)]
    scores = scored(gold, found, judged=1)
    assert (scores.precision, scores.recall, scores.f1) == (1, 1, 1)


def test_another_relation_leaves_the_pair():
    gold = [Triplet("I", "have_pet", "dogs", 1)]
    scores = scored(gold, [Triplet("I", "like_animal", "dogs", 1)], judged=1)
    assert (scores.recall, scores.pair_recall, scores.soft_recall) == (0, 1, 0)


def test_half_the_words_are_a_soft_match_with_a_synonym():
    gold = [Triplet("I", "have_pet", "dogs", 1)]
    scores = scored(gold, [Triplet("I", "own", "old dogs", 1)], judged=1)
    assert (scores.recall, scores.soft_recall, scores.soft_pair_recall) == (0, 1, 1)
    scores = scored(gold, [Triplet("I", "own", "two very old dogs", 1)], judged=1)
    assert scores.soft_recall == 0


def test_a_denial_is_no_soft_match_of_an_assertion():
    gold = [Triplet("I", "like_animal", "dogs", 1)]
    assert scored(gold, [Triplet("I", "dislike_animal", "dogs", 1)], judged=1).soft_recall == 0


def test_an_inverse_says_the_same_from_the_other_end():
    gold = [Triplet("Paris", "home_of", "speaker1", 1)]
    found = [Triplet("I", "live_in_citystatecountry", "Paris", 1)]
    assert scored(gold, found, judged=1).recall == 1
    assert scored(gold, [Triplet("Paris", "live_in", "I", 1)], judged=1).soft_recall == 0


def test_rates_count_what_was_found_over_judged_turns():
    found = [Triplet("I", "like", name, 1) for name in ("tea", "dogs", "cars")]
    scores = scored(
        [Triplet("I", "like", "dogs", 1)], [*found, Triplet("I", "be", "x", 0)], judged=1
    )
    assert scores.triplets_per_turn == 3
    assert scores.precision == pytest.approx(1 / 3)
    assert scores.n == scores.n_cases == 1


def test_a_failure_makes_an_output_invalid():
    assert scored([], [], failures=[Failure("extract", "x", "y")]).valid_rate == 0
    assert scored([], []).valid_rate == 1


def test_who_says_i_or_you_is_named_as_the_gold_names_them():
    gold = [Triplet("speaker2", "like", "tea", 0), Triplet("speaker2's dog", "be", "old", 1)]
    found = [Triplet("I", "like", "tea", 0), Triplet("your dog", "be", "old", 1)]
    assert scored(gold, found).recall == 1
    swapped = [Triplet("I", "like", "tea", 1), Triplet("your dog", "be", "old", 0)]
    assert scored(gold, swapped).recall == 0


def test_a_favorite_thing_and_a_name_are_stated_of_their_owner():
    gold = [
        Triplet("speaker1's favorite color", "be", "red", 1),
        Triplet("speaker1's favorite disney character", "be", "Goofy", 1),
        Triplet("speaker1's name", "be", "Bob", 1),
    ]
    found = [
        Triplet("I", "favorite_color", "red", 1),
        Triplet("I", "has_favorite_disney_character", "Goofy", 1),
        Triplet("I", "name", "Bob", 1),
    ]
    assert scored(gold, found).recall == 1


def test_a_favorite_of_another_kind_is_no_match_and_one_of_no_kind_a_soft_one():
    gold = [Triplet("speaker1's favorite color", "be", "red", 1)]
    assert scored(gold, [Triplet("I", "favorite_food", "red", 1)]).soft_recall == 0
    scores = scored(gold, [Triplet("I", "favorite", "red", 1)])
    assert (scores.recall, scores.soft_recall) == (0, 1)


@pytest.mark.parametrize(
    ("gold", "found", "is_match"),
    [
        ("can_afford_to", "afford_to", True),
        ("born_in", "be_born_in", True),
        ("not_born_in", "not_be_born_in", True),
        ("not_born_in", "be_born_in", False),
        ("be", "can", False),
        ("like", "be_like", False),
    ],
)
def test_what_says_when_or_how_is_no_part_of_a_soft_match(gold, found, is_match):
    scores = scored([Triplet("I", gold, "Rome", 1)], [Triplet("I", found, "Rome", 1)], judged=1)
    assert scores.soft_recall == is_match
    assert scores.recall == 0
