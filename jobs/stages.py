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
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import ray

from glong import ids
from glong.build import PENDING, Fingerprints, embed_rows, extract_rows, prepare, weigh_rows
from glong.config import EncoderSpec, ExtractorSpec, ScorerSpec
from glong.errors import SourceError
from glong.models.load import load_encoder, load_extractor, load_scorer
from glong.planning import Planner, Rebuild, known_sessions
from glong.sources import Reader
from glong.store import Forgotten, FragmentBatch, Store, leave_out
from glong.tables import EXTRACTED, SESSION, WEIGHED, built_schema, failure_struct
from glong.types import Failure, Session

__all__ = [
    "REPEAT_COLUMNS",
    "EmbedStage",
    "ExtractStage",
    "ReadPlan",
    "WeighStage",
    "WriteStage",
    "count_rows",
    "decode_fragments",
    "read_files",
    "split_events",
]

REPEAT_COLUMNS = ["session_key", "content_hash", "dialogue_id", "session_id"]
"""What is looked at to tell a session that comes twice from one with another content."""
NOTHING = Forgotten()
READ_BATCH = 64
"""Sessions that a reading task hands over at once."""


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
    """Rows -> files of the store that no manifest names yet; only their metadata goes on."""

    def __init__(self, store_uri: str, restore: bool = False) -> None:
        self.store = Store.open(store_uri)
        self.restore = restore
        self.schema = built_schema(self.store.meta.dimension)

    def __call__(self, block: pa.Table) -> pa.Table:
        """Write one block under a batch id of its own; what comes out is events alone."""
        rows, events = split_events(block)
        if rows.num_rows:
            began_s = time.perf_counter()
            rows, repeats = _split_repeats(rows)
            built = rows.select(self.schema.names).cast(self.schema)
            now = datetime.now(UTC)
            batch = self.store.write_fragments(built, uuid.uuid4().hex, now, restore=self.restore)
            forgotten = Forgotten() if self.restore else self.store.forgotten()
            counts = count_rows(rows, forgotten)
            written = {"batch": encode_fragments(batch), "counts": counts}
            seconds = time.perf_counter() - began_s
            events += [written, {"stage": "write", "seconds": seconds}]
            events += [{"repeat": repeat} for repeat in repeats]  # after those they repeat
        return join_events(rows.slice(0, 0), events)


def _split_repeats(rows: pa.Table) -> tuple[pa.Table, list[dict[str, str]]]:
    """Rows without those whose session stands before, and what the driver has to know of these."""
    first: dict[str, int] = {}
    keys = rows.column("session_key").to_pylist()
    mask = [first.setdefault(key, place) == place for place, key in enumerate(keys)]
    if all(mask):
        return rows, []
    kept = pa.array(mask, pa.bool_())
    return rows.filter(kept), rows.select(REPEAT_COLUMNS).filter(pc.invert(kept)).to_pylist()


def encode_fragments(batch: FragmentBatch) -> str:
    """A batch as text, to travel in an event."""
    return base64.b64encode(pickle.dumps(batch)).decode("ascii")


def decode_fragments(text: str) -> FragmentBatch:
    """The reverse of :func:`encode_fragments`; the text comes from our own workers only."""
    batch = pickle.loads(base64.b64decode(text))
    assert isinstance(batch, FragmentBatch)
    return batch


def count_rows(rows: pa.Table, forgotten: Forgotten = NOTHING) -> dict[str, Any]:
    """What the summary counts of built rows: sessions by status, rows of those stored, failures.

    What was forgotten is not stored, and counts apart.
    """
    left = leave_out(rows, forgotten)
    rows = left.built
    statuses = pc.value_counts(rows.column("status")).to_pylist()
    kept = rows.filter(pc.not_equal(rows.column("status"), PENDING))
    totals = {
        name: pc.sum(kept.column(f"n_{name}")).as_py() or 0
        for name in ("turns", "triplets", "edges", "entities")
    }
    kinds = Counter(
        (f["stage"], f["kind"]) for of_session in rows["failures"].to_pylist() for f in of_session
    )
    return {
        "sessions": {entry["values"]: entry["counts"] for entry in statuses},
        "rows": totals,
        "failures": [[stage, kind, n] for (stage, kind), n in kinds.items()],
        **({"forgotten": dict(left.rows)} if left.rows else {}),
    }


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What every reading task has to know.

    Attributes:
        tenant: whose sessions these are.
        format_name: one of :data:`glong.sources.FORMATS` or ``auto``.
        rebuild: which known sessions are built again.
        limit: the most sessions to look at, in a single task; 0 for all.
        fingerprints: of the present models.
        manifest: reference to the manifest's planning columns, shared by all tasks.
        forgotten: what was forgotten and stays so.
        restore: build it all the same.
    """

    tenant: str
    format_name: str
    rebuild: Rebuild
    limit: int
    fingerprints: Fingerprints
    manifest: "ray.ObjectRef[pa.Table]"
    forgotten: Forgotten
    restore: bool = False

    def planner(self) -> Planner:
        """A planner with the manifest as it stood when the job began."""
        known = known_sessions(ray.get(self.manifest), self.fingerprints)
        return Planner(self.tenant, known, self.forgotten, self.rebuild, self.restore)


def read_files(block: pa.Table, plan: ReadPlan) -> Iterator[pa.Table]:
    """A group of files -> their pending sessions, and an event for each failure and each file."""
    planner = plan.planner()
    for path in json.loads(block.column("paths")[0].as_py()):
        if plan.limit and planner.counts["seen"] >= plan.limit:
            return
        yield from _read_file(path, plan, planner)


def _read_file(path: str, plan: ReadPlan, planner: Planner) -> Iterator[pa.Table]:
    reader = Reader(path, plan.format_name)
    items = _limited(reader, planner, plan.limit)
    before = planner.counts.copy()
    seconds, began_s = 0.0, time.perf_counter()
    while chunk := list(islice(items, READ_BATCH)):
        sessions = [item for item in chunk if isinstance(item, Session)]
        failures = [_failure_event(item) for item in chunk if isinstance(item, Failure)]
        block = join_events(prepare(plan.tenant, sessions), failures)
        seconds += time.perf_counter() - began_s
        yield block
        began_s = time.perf_counter()
    seconds += time.perf_counter() - began_s
    event = {
        "stage": "read",
        "seconds": seconds,
        "file": path,
        "format": _format(reader),
        "assumptions": list(reader.assumptions),
        "sessions": planner.counts - before,
        "reader": dict(reader.counts),
    }
    yield join_events(prepare(plan.tenant, []), [event])


def _limited(reader: Reader, planner: Planner, limit: int) -> Iterator[Session | Failure]:
    """Failures and wanted sessions, until ``limit`` sessions have been seen (in all files)."""
    items = iter(reader)
    while not limit or planner.counts["seen"] < limit:
        item = next(items, None)
        if item is None:
            return
        if (screened := planner.screen(item)) is not None:
            yield screened


def _format(reader: Reader) -> str:
    """The format's name for the summary; that none was recognised is told by a failure already."""
    try:
        return reader.format
    except SourceError:
        return "unknown"


def _failure_event(failure: Failure) -> dict[str, Any]:
    return {"failure": failure_struct(failure, ids.failure_id("", failure))}
