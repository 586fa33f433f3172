"""Purging: what nobody sees any more leaves the disk, old versions and index files included.

Runs alone (see :mod:`glong.store.lease`): it deletes files that nothing names, which beside a
writer would be files that a later commit names. Each step does nothing where it was done before, so
a purge that was killed anywhere is run again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc

from glong.errors import StoreError
from glong.store.compaction import PAIRS_A_DELETE, deletions, unnamed_pairs
from glong.store.forgotten import EPOCH, read_forgotten
from glong.store.layout import Layout, translated
from glong.store.reading import Scope, read_manifest, read_named
from glong.store.status import bytes_on_disk
from glong.store.sweeping import sweep
from glong.store.upkeep import TARGET_ROWS
from glong.tables import DATA_TABLES

__all__ = ["Purge", "is_purge_due", "purge", "purge_version"]

PURGED = "glong.purged"
"""In the configuration of ``forgotten``: time of the latest mark that a purge carried out."""
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
    forgotten = read_forgotten(layout)
    dialogues = read_manifest(layout, Scope(), columns=["dialogue_key"])["dialogue_key"]
    failed = _column(layout, "failures", "dialogue_key")
    keys = {*dialogues.to_pylist(), *failed.to_pylist()}
    rows = sweep(layout, sorted(keys)) if forgotten else {}
    rows = {table: rows.get(table, 0) for table in layout.tables}
    for table in DATA_TABLES:
        renew()
        rows[table] += _delete_garbage(layout, table)
    rows["accesses"] += _delete_lost_accesses(layout)
    for table in layout.tables:
        renew()
        _rewrite(layout, table)
    # What was forgotten up to here is gone; a mark may be later than `now` where clocks differ.
    _set(layout, PURGED, max(_micros(now), forgotten.latest))
    return Purge(rows, before, bytes_on_disk(layout.uri), now)


def _set(layout: Layout, key: str, value: int) -> None:
    with translated(f"note a purge in {layout.uri}"):
        layout.dataset("forgotten").update_config({key: str(value)})


def _micros(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def is_purge_due(layout: Layout) -> bool:
    """Whether anything was forgotten since the last purge."""
    forgotten = read_forgotten(layout)
    purged = layout.dataset("forgotten").config().get(PURGED)
    return bool(forgotten) and (purged is None or forgotten.latest > int(purged))


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
    return sum(_delete(layout, table, where) for where in deletions(pairs))


def _delete_lost_accesses(layout: Layout) -> int:
    """Accesses of edges that are no more."""
    used, edges = (_column(layout, table, "edge_id") for table in ("accesses", "edges"))
    lost = used.filter(pc.invert(pc.is_in(used, value_set=edges))).to_pylist()
    return sum(_delete(layout, "accesses", where) for where in _listed("edge_id", lost))


def _listed(column: str, values: list[str]) -> Iterator[str]:
    for start in range(0, len(values), PAIRS_A_DELETE):
        listed = ", ".join(f"'{value}'" for value in values[start : start + PAIRS_A_DELETE])
        yield f"{column} IN ({listed})"


def _delete(layout: Layout, table: str, where: str) -> int:
    with translated(f"delete from {table} of {layout.uri}"):
        return int(layout.dataset(table).delete(where)["num_deleted_rows"])


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
