from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from glong import ids
from glong.build import stated_rows
from glong.errors import ConfigError, ConflictError
from glong.models.fake import FakeEncoder
from glong.store import Store, Target, Wave, facts
from glong.store.facts import (
    Fact,
    Stated,
    edit_stated,
    fact_of,
    read_stated,
    with_fact,
    without_fact,
)
from glong.store.forgotten import Kind, Mark, add_marks
from glong.store.leaving_out import by_hand_id, is_by_hand
from glong.store.sweeping import sweep
from tests.glong.store.rows import DIMENSION, NO_FAILURES, new_store

NOW = datetime(2026, 2, 1, tzinfo=UTC)
NONE = Stated("d", "by-hand")
DIALOGUE = ids.dialogue_key("default", "d")
KEY = ids.session_key("default", "d", "by-hand")
REX, TEA, PEAS = (
    Fact(*words, NOW, "x")
    for words in (("Mira", "has_pet", "Rex"), ("Ann", "likes", "tea"), ("Tom", "likes", "peas"))
)


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


def rows_of(stated: Stated) -> pa.Table:
    return stated_rows("default", stated.session(), stated.triplets(), FakeEncoder(DIMENSION))


def state(store: Store, fact: Fact) -> None:
    edit_stated(store, "default", NONE, lambda stated: with_fact(stated, fact)[0], rows_of)


def objects(store: Store) -> list[str]:
    return sorted(store.visible("edges", columns=["object"])["object"].to_pylist())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "s")
    for fact in (REX, PEAS):
        state(store, fact)
    return store


def add_older(store: Store) -> None:
    """The facts as an older copy has them."""
    older = with_fact(with_fact(NONE, REX)[0], PEAS)[0]
    store.append_wave(Wave("older", NOW, rows_of(older), NO_FAILURES, replace=True))


def edge(store: Store, fact: Fact) -> Target:
    rows = store.visible("edges").to_pylist()
    return Target("d", edge_id=next(r["edge_id"] for r in rows if r["object"] == fact.object))


def meanwhile(patch: pytest.MonkeyPatch, after_read: int, other: Callable[[], object]) -> None:
    """Have something else happen after a fact is stated has read the facts for the n-th time."""
    real, n_reads = facts.read_stated, 0

    def read(*args: Any) -> Stated:
        nonlocal n_reads
        n_reads += 1
        found = real(*args)
        if n_reads == after_read:
            other()
        return found

    patch.setattr(facts, "read_stated", read)


def test_a_fact_whose_turn_another_has_deleted_is_not_read(store: Store) -> None:
    store.layout.dataset("turns").delete("turn_index = 0")
    present = read_stated(store.layout, "default", "d", "by-hand")
    assert [fact.object for _, fact in present.facts] == ["peas"]


@pytest.mark.parametrize("target", [Target("d", entity="Rex", turns=True), None])
def test_a_fact_lifts_nothing_that_was_forgotten_of_others(
    store: Store, target: Target | None
) -> None:
    store.forget("default", target or edge(store, REX), NOW)
    state(store, TEA)
    assert objects(store) == ["peas", "tea"]
    add_older(store)
    assert "Rex" not in objects(store)


def test_a_fact_that_was_forgotten_is_there_when_it_is_stated_again(store: Store) -> None:
    store.forget("default", edge(store, REX), NOW)
    state(store, REX)
    assert objects(store) == ["Rex", "peas"]
    store.forget("default", Target("d"), NOW)
    state(store, TEA)
    assert objects(store) == ["tea"]
    assert store.verify() == []


@pytest.mark.parametrize("new", [TEA, PEAS])
def test_what_another_forgets_after_the_facts_were_read_stays_forgotten(
    store: Store, new: Fact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its marks are there, its sweep comes only after the new fact, which may have its own."""
    mark = Mark(Kind.EDGE, (KEY, "mira", "has_pet", "rex"))
    store.forget("default", edge(store, PEAS), NOW)
    meanwhile(monkeypatch, 1, lambda: add_marks(store.layout, "default", DIALOGUE, [mark], NOW))
    state(store, new)
    sweep(store.layout, [DIALOGUE])
    assert objects(store) == [new.object]
    add_older(store)
    assert "Rex" not in objects(store)
    assert store.verify() == []


def test_facts_do_not_come_back_with_one_that_is_stated_while_all_is_forgotten(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, 1, lambda: store.forget("default", Target("d"), NOW))
    with pytest.raises(ConflictError, match="try again"):
        state(store, TEA)
    assert objects(store) == []
    state(store, TEA)
    assert objects(store) == ["tea"]


def test_nor_while_the_rows_of_what_is_forgotten_are_still_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_marks(store.layout, "default", DIALOGUE, [Mark(Kind.DIALOGUE, (DIALOGUE,))], NOW)
    state(store, TEA)
    sweep(store.layout, [DIALOGUE])
    assert objects(store) == ["tea"]


def test_a_fact_that_another_forgets_at_once_is_not_stated_anew(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = Mark(Kind.EDGE, (KEY, "ann", "likes", "tea"))
    meanwhile(monkeypatch, 1, lambda: add_marks(store.layout, "default", DIALOGUE, [mark], NOW))
    with pytest.raises(ConflictError, match="try again"):
        state(store, TEA)
    assert objects(store) == ["Rex", "peas"]
