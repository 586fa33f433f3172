"""Reading: files -> their pending sessions, each file in a task of Ray of its own.

Of two contents under one session id the first in the order of the files counts, whatever the order
in which tasks end: all files are compared by hashes before the first session is built. So every run
of a command ends with the same content, and no model reads a session twice.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import ray

from glong import ids
from glong.build import Fingerprints, prepare
from glong.errors import SourceError
from glong.planning import Planner, Rebuild, known_sessions
from glong.sources import Reader
from glong.store import Forgotten
from glong.tables import failure_struct
from glong.types import Failure, Session
from jobs.stages import join_events

__all__ = ["ReadPlan", "list_contents", "read_files", "repeated"]

READ_BATCH = 64
"""Sessions that a reading task hands over at once."""
CONTENTS = pa.schema(
    [("file", pa.int32()), ("session_key", pa.string()), ("content_hash", pa.string())]
)
"""``file``: its place among the inputs."""


def list_contents(block: pa.Table, tenant: str, format_name: str) -> pa.Table:
    """A file -> ``CONTENTS`` of its sessions, each as it stands there first."""
    (task,) = block.to_pylist()
    (path,) = json.loads(task["paths"])
    contents: dict[str, str] = {}
    for item in Reader(path, format_name):
        if isinstance(item, Session):
            key = ids.session_key(tenant, item.dialogue_id, item.session_id)
            contents.setdefault(key, ids.content_hash(item))
    columns = [[task["file"]] * len(contents), list(contents), list(contents.values())]
    return pa.table(columns, schema=CONTENTS)


def repeated(contents: pa.Table) -> pa.Table:
    """``CONTENTS`` of all files -> the first row of each session that stands in several."""
    contents = contents.sort_by("file")
    numbered = contents.append_column("row", pa.array(range(contents.num_rows), pa.int64()))
    rows = numbered.group_by("session_key").aggregate([("row", "min"), ("row", "count")])
    return contents.take(rows.filter(pc.greater(rows["row_count"], 1))["row_min"])


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
        repeats: reference to what :func:`repeated` says of all files; none of a single task.
    """

    tenant: str
    format_name: str
    rebuild: Rebuild
    limit: int
    fingerprints: Fingerprints
    manifest: "ray.ObjectRef[pa.Table]"
    forgotten: Forgotten
    restore: bool = False
    repeats: "ray.ObjectRef[pa.Table] | None" = None

    def planner(self, file: int) -> Planner:
        """A planner with the manifest as the job found it, and with what earlier files hold."""
        known = known_sessions(ray.get(self.manifest), self.fingerprints)
        planner = Planner(self.tenant, known, self.forgotten, self.rebuild, self.restore)
        if self.repeats is not None:
            repeats = ray.get(self.repeats)
            earlier = repeats.filter(pc.less(repeats["file"], file))
            keys, contents = (earlier[name].to_pylist() for name in CONTENTS.names[1:])
            planner.contents.update(zip(keys, contents, strict=True))
        return planner


def read_files(block: pa.Table, plan: ReadPlan) -> Iterator[pa.Table]:
    """The files of a task -> their pending sessions, an event for each failure and each file."""
    (task,) = block.to_pylist()
    planner = plan.planner(task["file"])
    for path in json.loads(task["paths"]):
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
        failures = [
            _failure_event(plan.tenant, item) for item in chunk if isinstance(item, Failure)
        ]
        block = join_events(prepare(plan.tenant, sessions), failures)
        seconds += time.perf_counter() - began_s
        yield block
        began_s = time.perf_counter()
    seconds += time.perf_counter() - began_s
    screened = planner.counts - before
    repeats = Counter(duplicates=screened["duplicates"])
    event = {
        "stage": "read",
        "seconds": seconds,
        "file": path,
        "format": _format(reader),
        "assumptions": list(reader.assumptions),
        "sessions": screened,
        "reader": reader.counts + repeats,
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


def _failure_event(tenant: str, failure: Failure) -> dict[str, Any]:
    return {"failure": failure_struct(failure, ids.record_failure_id(tenant, failure))}
