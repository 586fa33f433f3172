"""The stages of a build as Ray Data runs them: each holds one model and calls one core function.

A block is an Arrow table of session rows and *event* rows. An event is what a stage has to tell
the driver beside its rows (what was read, what failed, what it cost): JSON in the column
``event``, all else null. Rows in = rows out, same order, plus one event a call that had rows.
"""

import base64
import json
import pickle
import time
import uuid
from collections import Counter
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from glong.build import PENDING, embed_rows, extract_rows, weigh_rows
from glong.config import EncoderSpec, ExtractorSpec, ScorerSpec
from glong.models.load import load_encoder, load_extractor, load_scorer
from glong.store import FragmentBatch, Store
from glong.tables import EXTRACTED, SESSION, WEIGHED, built_schema

__all__ = [
    "EmbedStage",
    "ExtractStage",
    "WeighStage",
    "WriteStage",
    "count_rows",
    "decode_fragments",
    "split_events",
]


def _with_events(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_nullable(True) for field in schema]
    return pa.schema([*fields, ("event", pa.string())])


def split_events(block: pa.Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    """A block -> its session rows and its events."""
    texts = block.column("event").to_pylist()
    events = [json.loads(text) for text in texts if text is not None]
    n = block.num_rows - len(events)
    if all(text is None for text in texts[:n]):
        # As a stage leaves it: rows first. A slice is free where a filter copies every vector.
        rows = block.slice(0, n)
    else:
        rows = block.filter(pc.is_null(block.column("event")))
    return rows.drop_columns(["event"]), events


def join_events(rows: pa.Table, events: list[dict[str, Any]]) -> pa.Table:
    """The reverse of :func:`split_events`."""
    schema = _with_events(rows.schema)
    n = rows.num_rows
    sessions = rows.append_column("event", pa.nulls(n, pa.string())).cast(schema)
    texts = pa.array([json.dumps(event) for event in events], pa.string())
    blank = [pa.nulls(len(events), field.type) for field in schema if field.name != "event"]
    return pa.concat_tables([sessions, pa.Table.from_arrays([*blank, texts], schema=schema)])


class _Stage:
    """Apply a core function to the session rows of a block and add what it cost.

    The model loads when the first rows come, so that a run with nothing to build loads none. Calls
    may come from several threads; seconds in which two of them ran are counted once.
    """

    name: str
    takes: pa.Schema
    makes: pa.Schema
    _loaded: bool = False

    def __init__(self, n_gpus: float) -> None:
        self.n_gpus = n_gpus
        self._lock = Lock()
        self._n_running = 0
        self._counted_to_s = 0.0

    def load(self) -> None:
        raise NotImplementedError

    def step(self, rows: pa.Table) -> pa.Table:
        raise NotImplementedError

    def cost(self, rows: pa.Table) -> dict[str, int]:
        """What else to count of the rows that came out."""
        return {}

    def __call__(self, block: pa.Table) -> pa.Table:
        rows, events = split_events(block)
        if rows.num_rows == 0:
            return join_events(self.makes.empty_table(), events)
        self._load_once()
        began_at = time.time()
        self._begin()
        try:
            done = self.step(rows.select(self.takes.names))
        finally:
            seconds = self._end()
        cost = {
            "stage": self.name,
            "seconds": seconds,
            "began_at": began_at,
            "ended_at": time.time(),
            "gpus": self.n_gpus,
            "n_sessions": rows.num_rows,
            **self.cost(done),
        }
        return join_events(done, [*events, cost])

    def _load_once(self) -> None:
        with self._lock:
            if not self._loaded:
                self.load()
                self._loaded = True

    def _begin(self) -> None:
        with self._lock:
            if self._n_running == 0:
                self._counted_to_s = time.perf_counter()
            self._n_running += 1

    def _end(self) -> float:
        """Seconds that no call that ended before has counted."""
        with self._lock:
            now_s = time.perf_counter()
            seconds, self._counted_to_s = now_s - self._counted_to_s, now_s
            self._n_running -= 1
            return seconds


class ExtractStage(_Stage):
    """Sessions -> triplets."""

    name, takes, makes = "extract", SESSION, EXTRACTED

    def __init__(self, spec: ExtractorSpec, n_gpus: float = 0.0) -> None:
        super().__init__(n_gpus)
        self.spec = spec

    def load(self) -> None:
        """Load the extractor."""
        self.extractor = load_extractor(self.spec)

    def step(self, rows: pa.Table) -> pa.Table:
        """One call of the extractor."""
        return extract_rows(rows, self.extractor)

    def cost(self, rows: pa.Table) -> dict[str, int]:
        """Tokens read and written."""
        return {name: pc.sum(rows[name]).as_py() or 0 for name in ("tokens_in", "tokens_out")}


class WeighStage(_Stage):
    """Triplets -> raw scores."""

    name, takes, makes = "weigh", EXTRACTED, WEIGHED

    def __init__(self, spec: ScorerSpec, n_gpus: float = 0.0) -> None:
        super().__init__(n_gpus)
        self.spec = spec

    def load(self) -> None:
        """Load the scorer."""
        self.scorer = load_scorer(self.spec)

    def step(self, rows: pa.Table) -> pa.Table:
        """One call of the scorer."""
        return weigh_rows(rows, self.scorer)


class EmbedStage(_Stage):
    """Triplets and turns -> rows with ids, weights and vectors."""

    name, takes = "embed", WEIGHED

    def __init__(self, spec: EncoderSpec, n_gpus: float = 0.0) -> None:
        super().__init__(n_gpus)
        self.spec = spec
        self.makes = built_schema(spec.dimension)

    def load(self) -> None:
        """Load the encoder."""
        self.encoder = load_encoder(self.spec)

    def step(self, rows: pa.Table) -> pa.Table:
        """One call of the encoder."""
        return embed_rows(rows, self.encoder)


class WriteStage:
    """Rows -> files of the store that no manifest names yet; only their metadata goes on.

    Sessions that stay pending have no rows to write: they go on as they are, and the driver does
    with them what it does with those of a run whose rows it writes itself.
    """

    def __init__(self, store_uri: str, restore: bool = False) -> None:
        self.store = Store.open(store_uri)
        self.restore = restore
        self.schema = built_schema(self.store.meta.dimension)

    def __call__(self, block: pa.Table) -> pa.Table:
        """Write one block under a batch id of its own."""
        rows, events = split_events(block)
        pending = pc.equal(rows.column("status"), PENDING)
        settled = rows.filter(pc.invert(pending))
        if settled.num_rows:
            began_s = time.perf_counter()
            built = settled.select(self.schema.names).cast(self.schema)
            now = datetime.now(UTC)
            batch = self.store.write_fragments(built, uuid.uuid4().hex, now, restore=self.restore)
            counts = count_rows(settled, batch.manifest)
            written = {"batch": encode_fragments(batch), "counts": counts}
            seconds = time.perf_counter() - began_s
            events += [written, {"stage": "write", "seconds": seconds}]
        return join_events(rows.filter(pending), events)


def encode_fragments(batch: FragmentBatch) -> str:
    """A batch as text, to travel in an event."""
    return base64.b64encode(pickle.dumps(batch)).decode("ascii")


def decode_fragments(text: str) -> FragmentBatch:
    """The reverse of :func:`encode_fragments`; the text comes from our own workers only."""
    batch = pickle.loads(base64.b64decode(text))
    assert isinstance(batch, FragmentBatch)
    return batch


def count_rows(rows: pa.Table, stored: pa.Table) -> dict[str, Any]:
    """What the summary counts of built rows: sessions by status, rows of those stored, failures.

    Args:
        rows: as they were built.
        stored: the same without what was forgotten, as built rows or as rows of the manifest.
    """
    settled = stored.filter(pc.not_equal(stored.column("status"), PENDING))
    telling = stored.filter(pc.greater(stored.column("n_failures"), 0)).column("session_key")
    told = rows.filter(pc.is_in(rows.column("session_key"), value_set=telling)).column("failures")
    kinds = Counter((f["stage"], f["kind"]) for of_session in told.to_pylist() for f in of_session)
    statuses = pc.value_counts(stored.column("status")).to_pylist()
    return {
        "sessions": {entry["values"]: entry["counts"] for entry in statuses},
        "rows": {name: _sum(settled, name) for name in ("turns", "triplets", "edges", "entities")},
        "failures": [[stage, kind, n] for (stage, kind), n in kinds.items()],
        "forgotten": {
            "sessions": rows.num_rows - stored.num_rows,
            **{name: _sum(rows, name) - _sum(stored, name) for name in ("turns", "edges")},
        },
    }


def _sum(rows: pa.Table, name: str) -> int:
    total: int = pc.sum(rows.column(f"n_{name}")).as_py() or 0
    return total
