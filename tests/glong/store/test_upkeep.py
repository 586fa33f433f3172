from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

from glong.errors import ConflictError, StoreError
from glong.store import upkeep
from glong.store.upkeep import TableHealth, Upkeep, carry_out, due
from tests.glong.store.rows import built_session, new_store, wave

AT = datetime(2026, 1, 5, tzinfo=UTC)
FINE = TableHealth(
    table="edges",
    rows=1000,
    fragments=10,
    small_fragments=10,
    indexed_rows=1000,
    unindexed_fragments=3,
    versions=49,
    expired_versions=49,
)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ()),
        ({"unindexed_fragments": 4}, (Upkeep.INDEX,)),
        ({"small_fragments": 32}, (Upkeep.COMPACT,)),
        ({"expired_versions": 50}, (Upkeep.CLEANUP,)),
        ({"versions": 400, "expired_versions": 99}, ()),
        ({"versions": 400, "expired_versions": 100}, (Upkeep.CLEANUP,)),
        ({"table": "sessions"}, (Upkeep.COMPACT,)),
        ({"table": "sessions", "small_fragments": 7}, ()),
        (
            {"small_fragments": 32, "unindexed_fragments": 4, "expired_versions": 50},
            (Upkeep.COMPACT, Upkeep.INDEX, Upkeep.CLEANUP),
        ),
    ],
)
def test_what_is_due(change: dict[str, int], expected: tuple[Upkeep, ...]) -> None:
    assert due(replace(FINE, **change)) == expected


def test_routine_indexes_after_some_waves_and_keeps_what_is_visible(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    done = []
    for n in range(9):
        store.append_wave(wave(f"b{n}", built_session("d", f"s{n}")))
        done += store.routine()
    assert done.count("edges index") == 2
    assert "sessions compact" in done
    status = store.status()
    assert status.fragments["sessions"] < 9
    assert status.index_coverage["edges"] == pytest.approx(8 / 9)
    assert store.read_graph("default", "d").n_edges == 18
    assert store.verify() == []


def test_a_faster_writer_leaves_the_work_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*args: object, **kwargs: object) -> None:
        raise ConflictError("another writer was faster")

    store = new_store(tmp_path / "s")
    for n in range(4):
        store.append_wave(wave(f"b{n}", built_session("d", f"s{n}")))
    with monkeypatch.context() as patched:
        patched.setattr(upkeep, "carry_out", busy)
        assert store.routine() == ()
    assert "edges index" in store.routine()


def test_old_versions_are_counted_by_their_time_and_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path / "s")
    for n in range(8):
        store.append_wave(wave(f"b{n}", built_session("d", f"s{n}")))
    times = [upkeep.commit_time(v) for v in store.layout.dataset("turns").versions()]
    monkeypatch.setattr(upkeep, "VERSIONS_KEPT", times[-1] - times[5])
    health = upkeep.measure(store.layout, "turns")
    assert (health.versions, health.expired_versions) == (len(times), 5)
    monkeypatch.setattr(upkeep, "EXPIRED_VERSIONS", 5)
    monkeypatch.setattr(upkeep, "VERSIONS_KEPT", timedelta(0))
    assert "turns cleanup" in store.routine()
    assert upkeep.measure(store.layout, "turns").versions <= 3
    assert store.read_graph("default", "d").n_edges == 16


def test_a_version_that_is_gone_meanwhile_counts_as_old(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    assert upkeep.committed(store.layout, "turns", 99) < upkeep.committed(store.layout, "turns", 1)


def test_a_version_that_is_there_and_cannot_be_read_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a wave that runs would pass for garbage."""

    def flaky(*args: Any, **options: Any) -> lance.LanceDataset:
        if options.get("version") is None:
            return real(*args, **options)
        raise OSError("503 Slow Down")

    store = new_store(tmp_path / "s")
    real = lance.dataset
    monkeypatch.setattr(lance, "dataset", flaky)
    with pytest.raises(StoreError, match="503"):
        upkeep.committed(store.layout, "turns", 1)


def test_of_the_accesses_of_an_edge_the_latest_is_kept(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b0", built_session("d", "s1")))
    one, other = store.read_graph("default", "d").edge_ids[:2]
    for n in (3, 9, 5):
        store.touch("default", "d", [one], AT + timedelta(minutes=n))
    store.touch("default", "d", [other], AT)
    before = store.read_graph("default", "d").accessed_s
    carry_out(store.layout, "accesses", Upkeep.COMPACT, older_than=upkeep.VERSIONS_KEPT)
    rows = store.layout.dataset("accesses").to_table().to_pylist()
    assert {row["edge_id"]: row["accessed_at"] for row in rows} == {
        one: AT + timedelta(minutes=9), other: AT,
    }  # fmt: skip
    assert len(rows) == 2
    assert store.read_graph("default", "d").accessed_s.tolist() == before.tolist()
    store.touch("default", "d", [other], AT + timedelta(hours=1))
    assert len(store.layout.dataset("accesses").to_table()) == 3
