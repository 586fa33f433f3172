"""Purging: what nobody sees any more leaves the disk, old versions and index files included.

Runs alone (see :mod:`glong.store.lease`): it deletes files that nothing names, which beside a
writer would be files that a later commit names. Each step does nothing where it was done before, so
a purge that was killed anywhere is run again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc

from glong.errors import StoreError
from glong.store.compaction import unnamed_pairs
from glong.store.deleting import delete_writes
from glong.store.forgotten import Kind, read_forgotten
from glong.store.layout import Layout, translated
from glong.store.reading import Scope, read_manifest, read_named
from glong.store.status import bytes_on_disk
from glong.store.sweeping import delete_lost_accesses, sweep
from glong.store.upkeep import TARGET_ROWS
from glong.tables import DATA_TABLES

__all__ = ["Purge", "is_purge_due", "purge", "purge_version"]

PURGED = "glong.purged_marks"
"""In the configuration of ``forgotten``: how many marks the last purge carried out. Their times say
nothing: an import adds older ones."""
VERSION = "glong.purge_version"
"""There too: version of ``forgotten`` when the last purge began."""
INDEXES: Mapping[str, Any] = {
    "BTree": "BTREE",
    "Bitmap": "BITMAP",
    "LabelList": "LABEL_LIST",
    "Inverted": "INVERTED",
}
"""Kinds of scalar and text indexes, as Lance names them when asked and when told."""


@dataclass(frozen=True, slots=True)
class Purge:
    """What a purge did.

    Attributes:
        rows: table -> rows that it deleted, garbage of crashes and replaced sessions included.
        bytes_before: all files of the store, or ``None`` where it is not local.
        bytes_after: the same afterwards.
        purged_at: when, as given.
    """

    rows: Mapping[str, int]
    bytes_before: int | None
    bytes_after: int | None
    purged_at: datetime


def purge(layout: Layout, now: datetime, renew: Callable[[], None]) -> Purge:
    """Delete, merge files, make indexes anew, drop old versions; the caller is alone.

    Args:
        layout: the store.
        now: the present, aware.
        renew: called before each long step, to stay alone.

    Raises:
        ConflictError: someone wrote all the same; run it again.
        StoreError: the store cannot be read or written.
    """
    before = bytes_on_disk(layout.uri)
    _set(layout, VERSION, int(layout.dataset("forgotten").version))
    n_marks = _n_marks(layout)
    forgotten = read_forgotten(layout)
    dialogues = read_manifest(layout, Scope(), columns=["dialogue_key"])["dialogue_key"]
    failed = _column(layout, "failures", "dialogue_key")
    keys = {*dialogues.to_pylist(), *failed.to_pylist()}
    rows = sweep(layout, sorted(keys)) if forgotten else {}
    rows = {table: rows.get(table, 0) for table in layout.tables}
    for table in DATA_TABLES:
        renew()
        rows[table] += _delete_garbage(layout, table)
    rows["accesses"] += delete_lost_accesses(layout, Scope())
    for table in layout.tables:
        renew()
        _rewrite(layout, table)
    _set(layout, PURGED, n_marks)
    return Purge(rows, before, bytes_on_disk(layout.uri), now)


def _set(layout: Layout, key: str, value: int) -> None:
    with translated(f"note a purge in {layout.uri}"):
        layout.dataset("forgotten").update_config({key: str(value)})


def _n_marks(layout: Layout) -> int:
    """How many marks there are that are no restoration; there are only ever more."""
    with translated(f"count what was forgotten in {layout.uri}"):
        return int(layout.dataset("forgotten").count_rows(f"scope != '{Kind.RESTORED}'"))


def is_purge_due(layout: Layout) -> bool:
    """Whether anything was forgotten since the last purge."""
    return _n_marks(layout) > int(layout.dataset("forgotten").config().get(PURGED, 0))


def purge_version(layout: Layout) -> int:
    """Version of ``forgotten`` when the last purge began; 0 before any."""
    return int(layout.dataset("forgotten").config().get(VERSION, 0))


def _column(layout: Layout, table: str, column: str) -> pa.ChunkedArray:
    with translated(f"read table {table} of {layout.uri}"):
        return pc.unique(layout.dataset(table).to_table(columns=[column])[column])


def _delete_garbage(layout: Layout, table: str) -> int:
    """Every row that the manifest does not name, whatever its age; returns how many."""
    named = read_named(layout, Scope())
    pairs = unnamed_pairs(layout.dataset(table), table, [named])
    return delete_writes(layout, table, pairs)


def _rewrite(layout: Layout, table: str) -> None:
    """New files and new indexes without what was deleted, and nothing else left."""
    dataset = layout.dataset(table)
    with translated(f"purge table {table} of {layout.uri}"):
        dataset.optimize.compact_files(
            target_rows_per_fragment=TARGET_ROWS,
            materialize_deletions=True,
            materialize_deletions_threshold=0.0,
        )
        _reindex(layout.dataset(table))
        layout.dataset(table).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)


def _reindex(dataset: lance.LanceDataset) -> None:
    """Make every index anew from the rows that are left: keys and tokens stand in its files."""
    for index in dataset.describe_indices():
        if index.index_type not in INDEXES or len(index.field_names) != 1:
            raise StoreError(
                f"Index {index.name} of {dataset.uri} is a {index.index_type}; a purge can make"
                f" anew: {', '.join(INDEXES)}. Drop it, purge, and make it again."
            )
        (column,) = index.field_names
        dataset.create_scalar_index(column, INDEXES[index.index_type], index.name, replace=True)
