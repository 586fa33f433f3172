"""Exactly once, with real processes: two writers at once, and one killed at the worst moment."""

import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from glong.errors import StoreError
from glong.store import Store, Wave, waves
from glong.types import Failure
from tests.glong.store.rows import (
    NO_FAILURES,
    START,
    broken_line,
    built,
    built_session,
    new_store,
    record_failures,
    wave,
)

ROOT = Path(__file__).resolve().parents[3]
WRITER = """
import sys, time
from pathlib import Path
import lancedb
from tests.glong.store.rows import *
folder, name = Path(sys.argv[1]), sys.argv[2]
(folder / name).touch()
while len(list(folder.iterdir())) < 2:
    time.sleep(0.001)
store = new_store(folder / "s")
for n in range(8):
    sessions = [built_session("d", f"s{n}-{i}") for i in range(5)]
    store.append_wave(wave(f"{name}-{n}", *sessions))
    store.routine()
"""
KILLED = """
import os, signal, sys
from glong.store import waves
from tests.glong.store.rows import *
waves.merge_manifest = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
sessions = (built_session("d", "s1"), built_session("d", "s2"))
new_store(sys.argv[1]).append_wave(wave("killed", *sessions))
"""


def start(script: str, *args: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", script, *map(str, args)], cwd=ROOT)


def visible(store: Store) -> dict[str, list[dict[str, object]]]:
    """All visible rows but what varies from run to run."""
    found = {}
    for table in ("turns", "entities", "edges", "failures", "sessions"):
        rows = store.visible(table).to_pylist()
        for row in rows:
            row.pop("batch_id")
            row.pop("built_at", None)
        found[table] = sorted(rows, key=repr)
    return found


@pytest.mark.slow
@pytest.mark.ci
def test_two_processes_with_the_same_sessions_leave_each_visible_once(tmp_path: Path) -> None:
    writers = [start(WRITER, tmp_path, name) for name in "ab"]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    store = Store.open(str(tmp_path / "s"))
    keys = store.manifest(columns=["session_key"]).column(0).to_pylist()
    assert len(keys) == len(set(keys)) == 40
    assert store.visible("edges").num_rows == 80
    assert store.status().garbage_rows["edges"] == 80
    assert store.verify() == []


@pytest.mark.slow
@pytest.mark.ci
def test_a_kill_between_data_and_manifest_leaves_nothing_visible_and_a_rerun_repairs_it(
    tmp_path: Path,
) -> None:
    assert start(KILLED, tmp_path / "s").wait(120) == -signal.SIGKILL
    store = Store.open(str(tmp_path / "s"))
    assert store.layout.dataset("edges").count_rows() == 4
    assert store.visible("edges").num_rows == 0
    assert store.verify() == []
    sessions = (built_session("d", "s1"), built_session("d", "s2"))
    store.append_wave(wave("again", *sessions))
    calm = new_store(tmp_path / "calm")
    calm.append_wave(wave("only", *sessions))
    assert visible(store) == visible(calm)
    assert store.verify() == []


@pytest.mark.parametrize("step", ["append_rows", "merge_failures", "merge_manifest"])
def test_a_crash_at_any_step_and_a_rerun_end_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def crash(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    store, calm = new_store(tmp_path / "s"), new_store(tmp_path / "calm")
    mishap = Failure("extract", "bad_json", "no JSON", "raw", turn_index=0)
    last = Wave(
        "b1",
        START,
        built(built_session("d", "s1", failures=[mishap])),
        record_failures(broken_line(3)),
    )
    with monkeypatch.context() as patched:
        patched.setattr(waves, step, crash)
        with pytest.raises(KeyboardInterrupt):
            store.append_wave(last)
    for each in (store, calm):
        each.append_wave(Wave("b2", START, last.built, last.record_failures))
    assert visible(store) == visible(calm)
    assert store.visible("failures").num_rows == 2


def test_the_same_wave_again_changes_nothing_visible(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s1")))
    before = store.visible("edges")
    store.append_wave(wave("b2", built_session("d", "s1")))
    assert store.visible("edges") == before


def test_without_add_only_the_batches_that_were_read_are_replaced(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s1"), built_session("d", "s2")))
    store.append_wave(wave("b2", built_session("d", "s2", content="c2")))
    given = built(*(built_session("d", name) for name in ("s1", "s2", "gone")))
    store.append_wave(Wave("b3", START, given, NO_FAILURES, over=("b1",), add=False))
    rows = store.manifest(columns=["session_id", "batch_id"]).to_pylist()
    assert {row["session_id"]: row["batch_id"] for row in rows} == {"s1": "b3", "s2": "b2"}


@pytest.mark.parametrize("change", [{"content": "c2"}, {"status": "failed"}])
def test_a_changed_session_replaces_the_old_one(tmp_path: Path, change: dict[str, str]) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s1"), built_session("d", "s2")))
    store.append_wave(wave("b2", built_session("d", "s1", facts=[("A", "b", "C")], **change)))
    assert sorted(store.visible("edges").column("subject").to_pylist()) == ["A", "Mira", "Mira"]
    assert store.verify() == []


def test_replace_writes_over_an_equal_session(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s1")))
    store.append_wave(wave("b2", built_session("d", "s1"), replace=True))
    assert set(store.visible("edges").column("batch_id").to_pylist()) == {"b2"}


def test_a_session_twice_in_a_wave_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    with pytest.raises(StoreError, match="Session 's1' of dialogue 'd' stands 2 times"):
        store.append_wave(wave("b1", built_session("d", "s1"), built_session("d", "s1")))
    assert store.layout.dataset("turns").count_rows() == 0


def test_record_failures_of_two_runs_stand_once(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    for batch in ("b1", "b2"):
        failures = record_failures(broken_line(1), broken_line(1), broken_line(2), batch_id=batch)
        store.append_wave(Wave(batch, START, built(), failures))
    assert store.layout.dataset("failures").count_rows() == 2


def test_a_pending_session_leaves_only_its_failure_until_it_is_built(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    down = Failure("extract", "endpoint_down", "no answer", transient=True)
    pending = built_session("d", "s1", status="pending", failures=[down])
    store.append_wave(wave("b1", pending))
    assert store.manifest().num_rows == store.layout.dataset("turns").count_rows() == 0
    assert store.visible("failures").column("kind").to_pylist() == ["endpoint_down"]
    store.append_wave(wave("b2", built_session("d", "s1")))
    assert store.visible("failures").num_rows == 0


def test_a_slice_of_a_larger_block_writes_only_its_sessions(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    block = built(*(built_session("d", f"s{i}") for i in range(5)))
    store.append_wave(Wave("b1", START, block.slice(2, 2), NO_FAILURES))
    assert set(store.visible("turns").column("session_id").to_pylist()) == {"s2", "s3"}
    assert store.verify() == []


def test_fragments_of_workers_and_rows_of_the_driver_store_the_same(tmp_path: Path) -> None:
    by_driver, by_workers = new_store(tmp_path / "a"), new_store(tmp_path / "b")
    mishap = Failure("extract", "bad_json", "no JSON", "raw", turn_index=0)
    down = Failure("extract", "endpoint_down", "no answer", transient=True)
    blocks = [
        built(built_session("d", "s1", failures=[mishap]), built_session("e", "s1", facts=[])),
        built(
            built_session("d", "s2"), built_session("d", "s3", status="pending", failures=[down])
        ),
    ]
    lines = record_failures(broken_line(1))
    by_driver.append_wave(Wave("b", START, pa.concat_tables(blocks), lines))
    batches = [by_workers.write_fragments(b, f"w{i}", START) for i, b in enumerate(blocks)]
    assert by_workers.visible("edges").num_rows == 0
    travelled = pickle.loads(pickle.dumps(batches))
    assert by_workers.commit_fragments(travelled, lines) == by_workers.version
    assert visible(by_workers) == visible(by_driver)
    assert by_workers.verify() == []
    formats = {by_workers.layout.dataset(t).data_storage_version for t in ("turns", "sessions")}
    assert len(formats) == 1
