"""The driver's end of a build: blocks come in, waves go to the store, everything is counted.

The driver holds one wave at most. A wave closes at the first block boundary after ``wave_size``
sessions, ``wave_seconds`` or 24 MiB of rows: that much work, at most, a crash costs.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as with_values
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from glong import ids
from glong.planning import conflicting_session
from glong.store import Forgotten, FragmentBatch, Store, Wave
from glong.tables import built_schema, failure_struct, record_failures_to
from jobs.stages import REPEAT_COLUMNS, count_rows, decode_fragments, split_events
from jobs.summary import Tally

__all__ = ["WaveLoop"]

MAX_WAVE_BYTES = 24 * 2**20
"""Bytes of rows after which a wave closes early: it bounds what the driver holds."""


@dataclass(slots=True)
class WaveLoop:
    """Takes blocks, commits waves.

    Attributes:
        store: where to.
        tenant: whose failures of reading these are.
        wave_size: sessions after which a wave closes.
        wave_seconds: seconds after which a wave closes.
        replace: write over sessions that are the same (``--rebuild all``).
        restore: lift what was forgotten of the sessions (``--restore-forgotten``).
        forgotten: what the store will leave out of the rows, to be counted.
        tally: the counts, updated as blocks come.
    """

    store: Store
    tenant: str
    wave_size: int
    wave_seconds: float
    replace: bool
    restore: bool = False
    forgotten: Forgotten = field(default_factory=Forgotten)
    tally: Tally = field(default_factory=Tally)
    _rows: list[pa.Table] = field(default_factory=list)
    _failures: list[dict[str, Any]] = field(default_factory=list)
    _fragments: list[FragmentBatch] = field(default_factory=list)
    _contents: dict[str, str] = field(default_factory=dict)
    _n_sessions: int = 0
    _n_bytes: int = 0

    def run(self, blocks: Iterable[pa.Table]) -> Iterator[int]:
        """Consume all blocks; yields the number of sessions of each as it is taken in."""
        opened_s = time.monotonic()
        for block in blocks:
            n = self._take(block)
            yield n
            if self._is_full() or time.monotonic() - opened_s >= self.wave_seconds:
                self._close()
                opened_s = time.monotonic()
        self._close()

    def _is_full(self) -> bool:
        return self._n_sessions >= self.wave_size or self._n_bytes >= MAX_WAVE_BYTES

    def _take(self, block: pa.Table) -> int:
        rows, events = split_events(block)
        n = 0
        for event in events:
            if "counts" in event:
                n += self._take_fragments(event)
                continue
            if "repeat" in event:
                self._is_first(event["repeat"])
                n += 1
                continue
            self.tally.add(event)
            if "failure" in event:
                self._failures.append(event["failure"])
        if rows.num_rows:
            mask = self._first_of_run(rows)
            # A filter copies the vectors; a block of a run without repeats is kept as it came.
            fresh = rows if pc.all(mask).as_py() else rows.filter(mask)
            self._rows.append(fresh)
            self._n_bytes += fresh.nbytes
            self.tally.add_counts(count_rows(fresh, self.forgotten))
            n += rows.num_rows
        self._n_sessions += n
        return n

    def _take_fragments(self, event: dict[str, Any]) -> int:
        """What a worker wrote: its rows stay garbage for a session that the run had before."""
        batch = decode_fragments(event["batch"])
        mask = self._first_of_run(batch.manifest)
        kept = batch.manifest.filter(mask)
        self._fragments.append(with_values(batch, manifest=kept))
        self.tally.add_counts(event["counts"])
        if kept.num_rows < batch.manifest.num_rows:
            self.tally.drop(batch.manifest.filter(pc.invert(mask)))
        return sum(event["counts"]["sessions"].values())

    def _first_of_run(self, rows: pa.Table) -> pa.BooleanArray:
        """Which rows name a session that this run did not have yet.

        Sources settle repeats within a file; this settles one session id in several files. Other
        content under the id is a failure: which of the two is right cannot be known here.
        """
        mask = [self._is_first(row) for row in rows.select(REPEAT_COLUMNS).to_pylist()]
        return pa.array(mask, pa.bool_())

    def _is_first(self, row: dict[str, str]) -> bool:
        first = row["session_key"] not in self._contents
        content = self._contents.setdefault(row["session_key"], row["content_hash"])
        if not first and content == row["content_hash"]:
            self.tally.reader["duplicates"] += 1
        elif not first:
            self._conflict(row["dialogue_id"], row["session_id"])
        return first

    def _conflict(self, dialogue_id: str, session_id: str) -> None:
        failure = conflicting_session(dialogue_id, session_id)
        row = failure_struct(failure, ids.failure_id("", failure))
        self._failures.append(row)
        self.tally.add({"failure": row})

    def _close(self) -> None:
        """Commit what is held, data before manifest, then let upkeep that is due run."""
        if not (self._rows or self._fragments or self._failures):
            return
        began_s = time.perf_counter()
        batch_id, built_at = uuid.uuid4().hex, datetime.now(UTC)
        failures = record_failures_to(self._failures, self.tenant, batch_id)
        if self._fragments:
            self.store.commit_fragments(
                self._fragments, failures, replace=self.replace, restore=self.restore
            )
        else:
            built = pa.concat_tables(self._rows) if self._rows else self._none()
            wave = Wave(batch_id, built_at, built, failures, self.replace, self.restore)
            self.store.append_wave(wave)
        self.store.routine()
        self._rows, self._failures, self._fragments = [], [], []
        self._n_sessions = self._n_bytes = 0
        self.tally.waves += 1
        self.tally.seconds["write"] += time.perf_counter() - began_s

    def _none(self) -> pa.Table:
        return built_schema(self.store.meta.dimension).empty_table()
