"""Each rule is broken once, in a store that is otherwise sound."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

from glong.store import Store, checks
from tests.glong.store.rows import built_session, new_store, wave

Change = Callable[[dict[str, Any]], None]


def broken(path: Path, change: Change) -> set[tuple[str, str, int]]:
    """A store with a sound and a changed session; what verify says of it."""
    store = new_store(path)
    changed = built_session("d", "s1")
    change(changed)
    store.append_wave(wave("b1", changed, built_session("e", "s1")))
    return {(v.table, v.rule, v.n) for v in store.verify()}


def edit(table: str, **values: Any) -> Change:
    return lambda session: session[table][0].update(values)


def drop(table: str) -> Change:
    return lambda session: session[table].pop()


def repeat(table: str) -> Change:
    return lambda session: session[table].append(session[table][0])


def both_half(session: dict[str, Any]) -> None:
    for edge in session["edges"]:
        edge.update(weight=0.5, score=1.0)


def missing_vector(session: dict[str, Any]) -> None:
    session["turns"][0]["vector"] = None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (drop("edges"), {("edges", "count", 1), ("edges", "weight_top", 1)}),
        (drop("turns"), {("turns", "count", 1), ("edges", "turn", 1)}),
        (lambda s: s.update(n_failures=1), {("failures", "count", 1)}),
        (edit("turns", vector=[2.0, 0, 0, 0]), {("turns", "unit_vector", 1)}),
        (edit("edges", vector=[float("nan"), 0, 0, 0]), {("edges", "unit_vector", 1)}),
        (missing_vector, {("turns", "unit_vector", 1)}),
        (edit("edges", weight=0.0, score=0.0), {("edges", "weight_range", 1)}),
        (
            edit("edges", weight=float("nan")),
            {("edges", "weight_range", 1), ("edges", "weight_ratio", 1)},
        ),
        (edit("edges", weight=0.6), {("edges", "weight_ratio", 1)}),
        (both_half, {("edges", "weight_top", 1)}),
        (repeat("edges"), {("edges", "count", 1), ("edges", "unique_id", 1)}),
        (repeat("turns"), {("turns", "count", 1), ("turns", "unique_id", 1)}),
        (repeat("entities"), {("entities", "count", 1), ("entities", "unique_id", 1)}),
        (edit("edges", head_id="nobody"), {("edges", "head_id", 1)}),
        (edit("edges", tail_id="nobody"), {("edges", "tail_id", 1)}),
        (edit("edges", turn_index=1), {("edges", "turn", 1), ("edges", "keys", 1)}),
        (edit("edges", edge_id="other"), {("edges", "keys", 1)}),
        (edit("turns", speaker="X", turn_id="other"), {("turns", "keys", 1), ("edges", "turn", 1)}),
        (edit("entities", name="someone else"), {("entities", "keys", 1)}),
        (lambda s: s.update(status="odd"), {("sessions", "status", 1)}),
    ],
)  # fmt: skip
def test_a_broken_rule_is_found(
    tmp_path: Path, change: Change, expected: set[tuple[str, str, int]]
) -> None:
    assert broken(tmp_path / "s", change) == expected


def test_a_sound_store_has_no_violations(tmp_path: Path) -> None:
    assert broken(tmp_path / "s", lambda session: None) == set()


def test_keys_that_are_not_hashes_are_found(tmp_path: Path) -> None:
    found = broken(tmp_path / "s", lambda session: session.update(session_id="renamed"))
    assert ("sessions", "keys", 1) in found


@pytest.fixture
def sound(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s1"), built_session("e", "s1")))
    return store


def test_rows_under_another_tenant_are_found(sound: Store) -> None:
    sound.layout.dataset("edges").update({"tenant": "'other'"}, where="relation = 'likes'")
    assert [(v.table, v.rule, v.n) for v in sound.verify()] == [("edges", "identity", 2)]


def test_rows_that_are_gone_are_found_and_the_first_is_named(sound: Store) -> None:
    sound.layout.dataset("turns").delete("turn_index = 1")
    found = {v.rule: v for v in sound.verify()}
    assert set(found) == {"count", "turn"}
    assert found["count"].n == 2
    assert "first: session_key " in found["count"].detail


def test_a_session_key_twice_in_the_manifest_is_found(sound: Store) -> None:
    rows = sound.manifest().slice(0, 1)
    lance.write_dataset(rows, sound.layout.dataset("sessions"), mode="append")
    assert ("sessions", "unique_id", 1) in {(v.table, v.rule, v.n) for v in sound.verify()}


def test_metadata_that_differ_between_tables_are_found(sound: Store) -> None:
    sound.layout.dataset("turns").update_schema_metadata({"glong.encoder": "other"})
    sound.layout.dataset("edges").update_schema_metadata({}, replace=True)
    found = {(v.table, v.rule) for v in sound.verify()}
    assert found == {("turns", "metadata"), ("edges", "metadata")}


def test_counts_add_up_over_groups(sound: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "GROUP_ROWS", 1)
    sound.layout.dataset("turns").delete("turn_index = 1")
    assert {v.rule: v.n for v in sound.verify()} == {"count": 2, "turn": 2}
