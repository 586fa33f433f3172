"""Sweeping: stored sessions are brought in line with the marks of what was forgotten.

A session that loses a part is written again without it and replaced in the manifest in one step, so
no reader ever sees half of it. Writers and other sweeps may run beside: a pass replaces and deletes
only what it has read, and where others were faster there is another pass.
"""

import uuid
from collections import Counter
from collections.abc import Collection, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from glong.errors import ConflictError
from glong.store.deleting import delete_by, delete_where, delete_writes, one_of
from glong.store.forgotten import FAILED_COLUMNS, Forgotten, read_again, read_forgotten
from glong.store.layout import Layout, translated
from glong.store.leaving_out import LeftOut, leave_out
from glong.store.reading import Named, Scope, read_manifest, read_named, read_visible, read_whole
from glong.store.regroup import read_built
from glong.store.waves import append_rows, merge_manifest
from glong.tables import DATA_TABLES, explode, manifest_rows

__all__ = ["delete_lost_accesses", "sweep"]

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
            scope = Scope(dialogue_keys=(dialogue,))
            rows += _sweep_sessions(layout, scope, forgotten)
            rows["failures"] += _sweep_failures(layout, scope, forgotten)
            rows["accesses"] += delete_lost_accesses(layout, scope)
    return +rows


def _sweep_sessions(layout: Layout, scope: Scope, forgotten: Forgotten) -> Counter[str]:
    rows = Counter[str]()
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
    delete_writes(layout, "failures", {write for write in failed if write[0] in gone})
    _delete_sessions(layout, gone, old.values())
    for table in DATA_TABLES:
        delete_writes(layout, table, {(key, old[key]) for key in gone.union(left.changed)})
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
        delete_writes(layout, table, {(key, batch_id) for key in set(left.changed) - won.keys()})
    return won


def _delete_sessions(layout: Layout, keys: Collection[str], batches: Iterable[str]) -> None:
    """Only the rows that were read: a writer beside us may have restored a session since."""
    if keys:
        where = f"{one_of('session_key', keys)} AND {one_of('batch_id', set(batches))}"
        delete_where(layout, "sessions", [where])


def _sweep_failures(layout: Layout, scope: Scope, forgotten: Forgotten) -> int:
    """Take out failures of sessions that are not in the manifest; it counts those of others."""
    named = read_named(layout, scope)
    rows = read_visible(layout, "failures", scope, named, FAILED_COLUMNS)
    rows = rows.filter(pc.invert(pc.is_in(rows["session_key"], value_set=named.keys)))
    kept = set(read_again(layout, forgotten).without(rows)["failure_id"].to_pylist())
    lost = [i for i in rows["failure_id"].to_pylist() if i not in kept]
    return delete_by(layout, "failures", "failure_id", lost)


def delete_lost_accesses(layout: Layout, scope: Scope) -> int:
    """Delete the accesses of edges that are no more; returns how many."""
    used = read_whole(layout, "accesses", scope, ["edge_id"])["edge_id"]
    edges = read_whole(layout, "edges", scope, ["edge_id"])["edge_id"].combine_chunks()
    lost = pc.unique(used.filter(pc.invert(pc.is_in(used, value_set=edges)))).to_pylist()
    return delete_by(layout, "accesses", "edge_id", lost)
