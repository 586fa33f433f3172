from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pytest

from glong.store import Store, waves
from glong.store.compaction import _version_at
from glong.store.upkeep import commit_time
from glong.types import Failure
from tests.glong.store.rows import built_session, new_store, wave

HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)


@pytest.fixture
def replaced(tmp_path: Path) -> Store:
    """Two sessions, one of them replaced: its first rows are garbage."""
    store = new_store(tmp_path / "s")
    mishap = Failure("extract", "bad_json", "no JSON")
    old = built_session("d", "s1", failures=[mishap])
    store.append_wave(wave("b1", old, built_session("d", "s2")))
    store.append_wave(wave("b2", built_session("d", "s1", content="c2")))
    return store


def test_garbage_goes_and_what_is_visible_stays(replaced: Store) -> None:
    before = replaced.visible("edges").sort_by("edge_id")
    done = replaced.compact(now=datetime.now(UTC), grace=timedelta(0))
    assert dict(done.garbage_rows) == {"turns": 2, "entities": 3, "edges": 2, "failures": 1}
    status = replaced.status()
    assert set(status.garbage_rows.values()) == {0}
    assert status.rows["edges"] == 4
    assert status.fragments["edges"] == status.versions["edges"] == 1
    assert set(status.index_coverage.values()) == {1.0}
    assert replaced.visible("edges").sort_by("edge_id") == before
    assert replaced.verify() == []


def test_rows_younger_than_the_grace_stay(replaced: Store) -> None:
    done = replaced.compact(now=datetime.now(UTC), grace=HOUR)
    assert set(done.garbage_rows.values()) == {0}
    assert replaced.status().garbage_rows["edges"] == 2


def test_a_wave_whose_manifest_is_yet_to_come_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b0", built_session("d", "s0")))

    def late_manifest(layout: object, rows: object, **options: object) -> int:
        store.compact(now=datetime.now(UTC), grace=HOUR)
        return merge(layout, rows, **options)

    merge = waves.merge_manifest
    monkeypatch.setattr(waves, "merge_manifest", late_manifest)
    store.append_wave(wave("b1", built_session("d", "s1")))
    assert store.read_graph("default", "d").n_edges == 4
    assert store.verify() == []


def test_versions_are_found_by_their_time_without_reading_all_of_them(
    replaced: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [commit_time(v) for v in replaced.layout.dataset("turns").versions()]
    monkeypatch.setattr(lance.LanceDataset, "versions", None)
    found = [
        _version_at(replaced.layout, "turns", cutoff)
        for cutoff in (times[0] - HOUR, times[0], times[1] - MICROSECOND, times[1], times[-1])
    ]
    assert found == [None, 1, 1, 2, len(times)]
    assert replaced.compact(now=datetime.now(UTC), grace=timedelta(0)).garbage_rows["turns"] == 2


def test_a_version_within_the_grace_can_still_be_read(replaced: Store) -> None:
    version = replaced.version
    replaced.append_wave(wave("b3", built_session("d", "s2", content="c3")))
    replaced.compact(now=datetime.now(UTC), grace=HOUR)
    assert replaced.read_graph("default", "d", version).n_edges == 4
