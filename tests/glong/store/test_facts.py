from datetime import UTC, datetime

import pytest

from glong.errors import ConfigError
from glong.store.facts import Fact, Stated, fact_of, with_fact, without_fact
from glong.store.leaving_out import by_hand_id, is_by_hand

NOW = datetime(2026, 2, 1, tzinfo=UTC)


def test_reserved_ids_are_told_from_others() -> None:
    assert [is_by_hand(i) for i in ("by-hand", "by-hand:s1", "by-handy", "s1")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert by_hand_id() == "by-hand"
    assert by_hand_id("s1") == "by-hand:s1"


def test_a_fact_is_tidied() -> None:
    fact = fact_of(" Mira ", "has Pet", "a  greyhound", NOW, "Tom ")
    assert fact == Fact("Mira", "has_pet", "a greyhound", NOW, "Tom")


@pytest.mark.parametrize(
    "parts",
    [
        ("", "likes", "corn", NOW, "x"),
        ("Mira", "?!", "corn", NOW, "x"),
        ("Mira", "likes", " . ", NOW, "x"),
        ("Mira", "likes", "corn", NOW, ""),
        ("Mira", "likes", "corn", datetime(2026, 2, 1), "x"),
    ],
)
def test_a_fact_that_says_nothing_is_refused(parts: tuple[str, str, str, datetime, str]) -> None:
    with pytest.raises(ConfigError, match=r"allowed|aware"):
        fact_of(*parts)


def test_the_same_fact_for_the_same_time_is_one() -> None:
    one = Fact("Mira", "likes", "corn", NOW, "x")
    stated, first = with_fact(Stated("d", "by-hand"), one)
    again, same = with_fact(stated, Fact("mira", "likes", "The corn", NOW, "y"))
    assert (again, same) == (stated, first)
    later, index = with_fact(stated, Fact("Mira", "likes", "corn", NOW.replace(day=2), "x"))
    assert (index, len(later.facts)) == (1, 2)


def test_the_place_of_a_fact_that_was_taken_out_is_not_used_again_by_an_earlier_one() -> None:
    stated = Stated("d", "by-hand")
    for thing in ("corn", "figs", "peas"):
        stated, _ = with_fact(stated, Fact("Mira", "likes", thing, NOW, "x"))
    left = without_fact(stated, 1)
    assert [index for index, _ in left.facts] == [0, 2]
    assert left.edge_id("t", 2) == stated.edge_id("t", 2)
    assert [turn.text for turn in left.session().turns] == ["Mira likes corn", "Mira likes peas"]
    assert [t.turn_index for t in left.triplets()] == [0, 2]
