"""Sweeping: stored sessions are brought in line with the marks of what was forgotten.

A session that loses a part is written again without it and replaced in the manifest in one step, so
no reader ever sees half of it. Writers and other sweeps may run beside: a pass replaces and deletes
only what it has read, and where others were faster there is another pass. Deletes name hashes only:
Lance keeps their text for a while.
"""

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from glong.errors import ConflictError
from glong.store.compaction import PAIRS_A_DELETE, deletions
from glong.store.forgotten import FAILED_COLUMNS, Forgotten, read_again, read_forgotten
from glong.store.layout import Layout, translated
from glong.store.leaving_out import LeftOut, leave_out
from glong.store.reading import Named, Scope, read_manifest, read_named, read_visible
from glong.store.regroup import read_built
from glong.store.waves import append_rows, merge_manifest
from glong.tables import DATA_TABLES, explode, manifest_rows

__all__ = ["delete_by", "sweep"]

PASSES = 20
"""Each needs another writer of the same dialogue within some 20 ms."""


def sweep(layout: Layout, dialogue_keys: Iterable[str]) -> Counter[str]:
    """Bring the stored sessions of some dialogues in line with the marks; returns rows by table.

    May run beside writers and other sweeps, be killed anywhere and be run again.

    Raises:
        ConflictError: others wrote to one of the dialogues all the time.
    """
    forgotten = read_forgotten(layout)
    rows: Counter[str] = Counter()
    for dialogue in dict.fromkeys(dialogue_keys):
        if forgotten.touches(dialogue):
            rows += _sweep_sessions(layout, dialogue, forgotten)
            rows += _sweep_failures(layout, dialogue, forgotten)
            rows += _sweep_accesses(layout, dialogue)
    return rows


def _sweep_sessions(layout: Layout, dialogue: str, forgotten: Forgotten) -> Counter[str]:
    scope, rows = Scope(dialogue_keys=(dialogue,)), Counter[str]()
    for _ in range(PASSES):
        lost, settled = _pass(layout, scope, forgotten)
        rows += lost
        if settled:
            return rows
    raise ConflictError(
        f"Others write a dialogue of {layout.uri} all the time; what was forgotten of it stays"
        " marked, and parts of it may be visible. Stop them and forget it again, or purge."
    )


def _pass(layout: Layout, scope: Scope, forgotten: Forgotten) -> tuple[Counter[str], bool]:
    """Take out what is marked; returns rows by table, and whether nobody came in between.

    The marks are read after the manifest, so that a session that was given again is not taken for
    what was forgotten before.
    """
    failed = _failure_writes(layout, scope)
    manifest = read_manifest(layout, scope)
    if manifest.num_rows == 0:
        return Counter(), True
    marks = read_again(layout, forgotten)
    built = read_built(layout, manifest)
    left = leave_out(built, marks)
    old, gone = _writes(Named.of(manifest)), set(left.gone)
    new = _replace(layout, scope, manifest, left)
    # Those of older writes too: without their session in the manifest they would be visible.
    _delete_writes(layout, "failures", {write for write in failed if write[0] in gone})
    _delete_sessions(layout, gone, old.values())
    for table in DATA_TABLES:
        _delete_writes(layout, table, {(key, old[key]) for key in gone.union(left.changed)})
    present = _writes(read_named(layout, scope))
    wanted = {key: batch for key, batch in old.items() if key not in gone} | new
    settled = all(present[key] == wanted.get(key) for key in old.keys() & present.keys())
    done = new.keys() | (gone - present.keys())
    if len(done) < len(gone) + len(left.changed):
        mine = pc.is_in(built["session_key"], value_set=pa.array(sorted(done), pa.string()))
        left = leave_out(built.filter(mine), marks)
    return left.rows, settled


def _writes(named: Named) -> dict[str, str]:
    """Session key -> batch id."""
    return dict(zip(named.keys.to_pylist(), named.batches.to_pylist(), strict=True))


def _failure_writes(layout: Layout, scope: Scope) -> set[tuple[str, str]]:
    """(session key, batch id) of all failures of a scope, visible or not."""
    with translated(f"read table failures of {layout.uri}"):
        rows = layout.dataset("failures").to_table(
            columns=["session_key", "batch_id"], filter=scope.to_sql()
        )
    return set(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _replace(layout: Layout, scope: Scope, manifest: pa.Table, left: LeftOut) -> dict[str, str]:
    """Write changed sessions again and name that in the manifest in the place of what was read.

    Returns:
        Session key -> new batch id, of those that nobody else had replaced or taken out.
    """
    if not left.changed:
        return {}
    mask = pc.is_in(left.built["session_key"], value_set=pa.array(left.changed, pa.string()))
    built = left.built.filter(mask)
    place = pc.index_in(built["session_key"], value_set=manifest["session_key"].combine_chunks())
    batch_id = uuid.uuid4().hex
    rows = manifest_rows(built, batch_id, manifest["built_at"].take(place))
    append_rows(layout, explode(built, batch_id, layout.meta.dimension))
    over = manifest["batch_id"].take(place).to_pylist()
    version = merge_manifest(layout, rows, over=over, add=False)
    named = _writes(read_named(layout, scope, version))
    won = {key: batch_id for key in left.changed if named.get(key) == batch_id}
    for table in DATA_TABLES:  # what nobody names might be what another forgot
        _delete_writes(layout, table, {(key, batch_id) for key in set(left.changed) - won.keys()})
    return won


def _delete_sessions(layout: Layout, keys: Collection[str], batches: Iterable[str]) -> None:
    """Only the rows that were read: a writer beside us may have restored a session since."""
    if keys:
        where = f"{_in('session_key', keys)} AND {_in('batch_id', set(batches))}"
        with translated(f"delete {len(keys)} sessions from {layout.uri}"):
            layout.dataset("sessions").delete(where)


def _delete_writes(layout: Layout, table: str, writes: set[tuple[str, str]]) -> None:
    for where in deletions(writes):
        with translated(f"delete from {table} of {layout.uri}"):
            layout.dataset(table).delete(where)


def _sweep_failures(layout: Layout, dialogue: str, forgotten: Forgotten) -> Counter[str]:
    """Failures of sessions that are not in the manifest."""
    rows = _visible(layout, "failures", dialogue, FAILED_COLUMNS)
    kept = set(read_again(layout, forgotten).without(rows)["failure_id"].to_pylist())
    lost = [i for i in rows["failure_id"].to_pylist() if i not in kept]
    return Counter(failures=delete_by(layout, "failures", "failure_id", lost))


def _sweep_accesses(layout: Layout, dialogue: str) -> Counter[str]:
    """Accesses of edges that are no more."""
    used = _visible(layout, "accesses", dialogue, ["edge_id"])["edge_id"]
    edges = _visible(layout, "edges", dialogue, ["edge_id"])["edge_id"].combine_chunks()
    lost = pc.unique(used.filter(pc.invert(pc.is_in(used, value_set=edges)))).to_pylist()
    return Counter(accesses=delete_by(layout, "accesses", "edge_id", lost))


def _visible(layout: Layout, table: str, dialogue: str, columns: Sequence[str]) -> pa.Table:
    scope = Scope(dialogue_keys=(dialogue,))
    return read_visible(layout, table, scope, read_named(layout, scope), columns)


def delete_by(layout: Layout, table: str, column: str, values: Sequence[str]) -> int:
    """Delete rows by hashes; returns how many."""
    n = 0
    for start in range(0, len(values), PAIRS_A_DELETE):
        where = _in(column, values[start : start + PAIRS_A_DELETE])
        with translated(f"delete from {table} of {layout.uri}"):
            n += layout.dataset(table).delete(where)["num_deleted_rows"]
    return n


def _in(column: str, values: Iterable[str]) -> str:
    listed = ", ".join(f"'{value}'" for value in sorted(values))
    return f"{column} IN ({listed})"
