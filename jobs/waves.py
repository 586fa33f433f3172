"""The driver's end of a build: blocks come in, waves go to the store, everything is counted.

The driver holds one wave of rows at most. A wave closes at the first block boundary after
``wave_size`` sessions, ``wave_seconds`` or 24 MiB of rows: that much work, at most, a crash costs.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from glong.store import Forgotten, FragmentBatch, Store, Wave, leave_out
from glong.tables import built_schema, record_failures_to
from jobs.stages import count_rows, decode_fragments, split_events
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
        forgotten: as the job found it: what the store leaves out of the rows, or what is lifted;
            what is forgotten while the job runs stays so.
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
        n: int = rows.num_rows
        for event in events:
            if "counts" in event:
                self._fragments.append(decode_fragments(event["batch"]))
                self.tally.add_counts(event["counts"])
                n += sum(event["counts"]["sessions"].values())
                continue
            self.tally.add(event)
            if "failure" in event:
                self._failures.append(event["failure"])
        if rows.num_rows:
            self._rows.append(rows)
            self._n_bytes += rows.nbytes
            left_out = Forgotten() if self.restore else self.forgotten
            self.tally.add_counts(count_rows(rows, leave_out(rows, left_out).built))
        self._n_sessions += n
        return n

    def _close(self) -> None:
        """Commit what is held, data before manifest, then let upkeep that is due run."""
        if not (self._rows or self._fragments or self._failures):
            return
        began_s = time.perf_counter()
        batch_id, built_at = uuid.uuid4().hex, datetime.now(UTC)
        failures = record_failures_to(self._failures, self.tenant, batch_id)
        if self._fragments:
            self.store.commit_fragments(
                self._fragments,
                failures,
                replace=self.replace,
                restore=self.restore,
                forgotten=self.forgotten,
            )
        if self._rows or not self._fragments:
            built = pa.concat_tables(self._rows) if self._rows else self._none()
            wave = Wave(batch_id, built_at, built, failures, self.replace, self.restore)
            self.store.append_wave(wave, self.forgotten)
        self.store.routine()
        self._rows, self._failures, self._fragments = [], [], []
        self._n_sessions = self._n_bytes = 0
        self.tally.waves += 1
        self.tally.seconds["write"] += time.perf_counter() - began_s

    def _none(self) -> pa.Table:
        return built_schema(self.store.meta.dimension).empty_table()
