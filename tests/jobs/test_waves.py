"""When a wave closes, and what it holds."""

import base64
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from glong import ids
from glong.build import PENDING
from glong.store import Forgotten, FragmentBatch, Wave
from glong.tables import FAILURES, failure_struct, manifest_rows
from glong.types import Failure
from jobs import waves
from jobs.stages import count_rows, join_events
from jobs.waves import WaveLoop
from tests.glong.store.rows import META, START, built, built_session


@dataclass
class FakeStore:
    """Keeps what it was asked to commit."""

    committed: list[Wave] = field(default_factory=list)
    fragments: list[tuple[list[FragmentBatch], pa.Table, bool]] = field(default_factory=list)
    upkeeps: int = 0
    meta: Any = META

    def append_wave(self, wave: Wave, forgotten: Forgotten) -> int:
        self.committed.append(wave)
        return len(self.committed)

    def commit_fragments(
        self,
        batches: list[FragmentBatch],
        failures: pa.Table,
        *,
        replace: bool,
        restore: bool,
        forgotten: Forgotten,
    ) -> int:
        self.fragments.append((list(batches), failures, replace))
        return len(self.fragments)

    def routine(self) -> tuple[str, ...]:
        self.upkeeps += 1
        return ()


def block(*names: str, content: str = "c1", events: tuple[dict[str, Any], ...] = ()) -> pa.Table:
    rows = built(*(built_session("d", name, content=content) for name in names))
    return join_events(rows, list(events))


def loop(store: FakeStore, **settings: Any) -> WaveLoop:
    values: dict[str, Any] = {"wave_size": 100, "wave_seconds": 1e9, "replace": False} | settings
    return WaveLoop(store, "t", **values)  # type: ignore[arg-type]


def sizes(store: FakeStore) -> list[int]:
    return [wave.built.num_rows for wave in store.committed]


def test_a_wave_closes_at_the_first_block_after_its_size() -> None:
    store = FakeStore()
    run = loop(store, wave_size=3)
    counts = list(run.run([block("a", "b"), block("c", "d"), block("e"), block("f", "g")]))
    assert counts == [2, 2, 1, 2]
    assert sizes(store) == [4, 3]
    assert run.tally.waves == store.upkeeps == 2


def test_what_is_left_is_committed_at_the_end() -> None:
    store = FakeStore()
    list(loop(store).run([block("a"), block("b")]))
    assert sizes(store) == [2]


def test_a_wave_closes_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(waves.time, "monotonic", lambda: now.s)

    def blocks() -> Iterator[pa.Table]:
        for name, at_s in (("a", 5.0), ("b", 10.0), ("c", 12.0), ("d", 19.0), ("e", 20.0)):
            now.s = at_s
            yield block(name)

    store = FakeStore()
    list(loop(store, wave_seconds=10.0).run(blocks()))
    assert sizes(store) == [2, 3]


def test_a_wave_closes_when_it_holds_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "MAX_WAVE_BYTES", int(1.5 * block("a").nbytes))
    store = FakeStore()
    list(loop(store).run(block(name) for name in "abcd"))
    assert sizes(store) == [2, 2]


def test_each_wave_has_an_id_and_a_time_of_its_own() -> None:
    store = FakeStore()
    list(loop(store, wave_size=1).run([block("a"), block("b")]))
    first, second = store.committed
    assert first.batch_id != second.batch_id
    assert first.built_at <= second.built_at
    assert first.built_at.tzinfo is not None


@pytest.mark.parametrize("replace", [True, False])
def test_rebuilding_all_is_said_to_the_store(replace: bool) -> None:
    store = FakeStore()
    list(loop(store, replace=replace).run([block("a")]))
    assert store.committed[0].replace is replace


@pytest.mark.parametrize(
    "blocks", [[], [block()], [block(events=({"stage": "weigh", "seconds": 1.0},))]]
)
def test_nothing_to_store_makes_no_wave(blocks: list[pa.Table]) -> None:
    store = FakeStore()
    run = loop(store)
    list(run.run(blocks))
    assert (store.committed, run.tally.waves, store.upkeeps) == ([], 0, 0)


def failure_event(kind: str = "bad_time") -> dict[str, Any]:
    failure = Failure("read", kind, "m")
    return {"failure": failure_struct(failure, ids.record_failure_id("default", failure))}


def test_failures_of_reading_are_stored_even_without_a_session() -> None:
    store = FakeStore()
    run = loop(store)
    list(run.run([block(events=(failure_event(),))]))
    (wave,) = store.committed
    assert wave.built.num_rows == 0
    assert wave.record_failures.column("kind").to_pylist() == ["bad_time"]
    assert wave.record_failures.column("tenant").to_pylist() == ["t"]
    assert run.tally.failures == {("read", "bad_time"): 1}


def test_a_wave_forgets_its_rows_and_failures_once_committed() -> None:
    store = FakeStore()
    blocks = [block("a", events=(failure_event(),)), block("b")]
    list(loop(store, wave_size=1).run(blocks))
    assert sizes(store) == [1, 1]
    assert [wave.record_failures.num_rows for wave in store.committed] == [1, 0]


# Rows that workers wrote


def written(*names: str, content: str = "c1", batch_id: str = "b1") -> pa.Table:
    """The block that a writing stage hands over for these sessions."""
    rows = built(*(built_session("d", name, content=content) for name in names))
    files = {name: (f"{name}-{batch_id}",) for name in ("turns", "entities", "edges", "failures")}
    batch = FragmentBatch(manifest_rows(rows, batch_id, START), FAILURES.empty_table(), files)
    text = base64.b64encode(pickle.dumps(batch)).decode()
    event = {"batch": text, "counts": count_rows(rows, rows)}
    return join_events(rows.slice(0, 0), [event, {"stage": "write", "seconds": 2.0}])


def test_what_workers_wrote_is_committed_in_waves() -> None:
    store = FakeStore()
    run = loop(store, wave_size=3)
    blocks = [written("a", "b"), written("c", batch_id="b2"), written("d", batch_id="b3")]
    assert list(run.run(blocks)) == [2, 1, 1]
    assert store.committed == []
    names = [
        [i for batch in batches for i in batch.manifest.column("session_id").to_pylist()]
        for batches, _, _ in store.fragments
    ]
    assert names == [["a", "b", "c"], ["d"]]
    assert run.tally.sessions["built"] == 4
    assert run.tally.seconds["write"] >= 6.0


def test_sessions_that_workers_left_pending_are_committed_with_what_they_wrote() -> None:
    store = FakeStore()
    gone = Failure("extract", "unavailable", "m")
    pending = built(built_session("d", "b", status=PENDING, failures=[gone]))
    wrote = written("a")
    run = loop(store, restore=True)
    assert list(run.run([pa.concat_tables([join_events(pending, []), wrote])])) == [2]
    ((batches, _, _),) = store.fragments
    assert [batch.manifest.column("session_id").to_pylist() for batch in batches] == [["a"]]
    (wave,) = store.committed
    assert wave.built.column("session_id").to_pylist() == ["b"]
    assert wave.restore
    assert run.tally.sessions["unavailable"] == run.tally.waves == 1
