"""Keeping tables fast and small beside running writers: what is due is decided, then done.

Routine upkeep never waits for writers and never deletes what it has not verified: beside a writer
that would delete files that a later commit names. If a writer was faster, the work is left to the
next call.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import lance
import pyarrow.compute as pc

from glong.errors import ConflictError, StoreError
from glong.store.layout import Layout, translated
from glong.store.waves import first_of_each

__all__ = [
    "INDEXED_COLUMN",
    "TableHealth",
    "Upkeep",
    "carry_out",
    "commit_time",
    "committed",
    "due",
    "measure",
    "run_routine",
]

INDEXED_COLUMN = "dialogue_key"
UNINDEXED_FRAGMENTS = 4
"""Five unindexed waves cost a read 100 ms; indexing them costs 50 to 200 ms."""
SMALL_FRAGMENTS = 32
SMALL_FRAGMENTS_OF_SESSIONS = 8
"""``sessions`` is merged into: at 200 fragments a merge takes 39 ms instead of 9."""
TARGET_ROWS = 131_072
"""Rows of a compacted file: 200 MB with 384-dimensional vectors."""
EXPIRED_VERSIONS, EXPIRED_SHARE = 50, 4
"""Old versions are dropped as soon as there are so many, and one of so many is old: looking which
files the others need takes time for each of them."""
VERSIONS_KEPT = timedelta(hours=1)
"""Longer than any read or wave takes. Finding the latest version takes longer the more there are:
0.3 ms at 1,000, which every question to the service pays."""
_ROWS_A_DELETE = 10_000
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Upkeep(StrEnum):
    """One kind of work on one table."""

    COMPACT = "compact"
    INDEX = "index"
    CLEANUP = "cleanup"


@dataclass(frozen=True, slots=True)
class TableHealth:
    """What decides about upkeep of one table.

    Attributes:
        table: its name.
        rows: all of them, visible or not.
        fragments: number of data fragments.
        small_fragments: fragments below ``TARGET_ROWS`` rows.
        indexed_rows: rows that the index covers.
        unindexed_fragments: fragments that it does not cover.
        versions: number of versions.
        expired_versions: versions older than the newest by more than ``VERSIONS_KEPT``.
    """

    table: str
    rows: int
    fragments: int
    small_fragments: int
    indexed_rows: int
    unindexed_fragments: int
    versions: int
    expired_versions: int


def due(health: TableHealth) -> tuple[Upkeep, ...]:
    """The work that a table needs now, in the order to do it."""
    limit = SMALL_FRAGMENTS_OF_SESSIONS if health.table == "sessions" else SMALL_FRAGMENTS
    wanted = {
        Upkeep.COMPACT: health.small_fragments >= limit,
        Upkeep.INDEX: health.unindexed_fragments >= UNINDEXED_FRAGMENTS,
        Upkeep.CLEANUP: health.expired_versions
        >= max(EXPIRED_VERSIONS, health.versions / EXPIRED_SHARE),
    }
    return tuple(work for work, is_due in wanted.items() if is_due)


def measure(layout: Layout, table: str) -> TableHealth:
    """Look at one table; reads metadata only."""
    dataset = layout.dataset(table)
    with translated(f"measure table {table} of {layout.uri}"):
        sizes = [fragment.count_rows() for fragment in dataset.get_fragments()]
        versions = [int(ref["version"]) for ref in dataset.version_refs()]
        latest = commit_time(dataset.get_version())
        index = _index_statistics(dataset)
    return TableHealth(
        table=table,
        rows=sum(sizes),
        fragments=len(sizes),
        small_fragments=sum(1 for size in sizes if size < TARGET_ROWS),
        indexed_rows=index["num_indexed_rows"] if index else 0,
        unindexed_fragments=index["num_unindexed_fragments"] if index else len(sizes),
        versions=len(versions),
        expired_versions=bisect_left(
            versions, latest - VERSIONS_KEPT, key=lambda version: committed(layout, table, version)
        ),
    )


def committed(layout: Layout, table: str, version: int) -> datetime:
    """When a version was committed; long ago if other upkeep has dropped it just now.

    Raises:
        StoreError: it is there and cannot be read: rows younger than it must not pass for old.
    """
    try:
        return commit_time(layout.dataset(table, version).get_version())
    except StoreError:
        with translated(f"list versions of table {table} of {layout.uri}"):
            left = [int(ref["version"]) for ref in layout.dataset(table).version_refs()]
        if version in left:
            raise
        return _LONG_AGO


def commit_time(version: Mapping[str, Any]) -> datetime:
    """When a version was committed, aware; Lance gives naive local times."""
    time: datetime = version["timestamp"]
    return time.astimezone(UTC)


def _index_name(dataset: lance.LanceDataset) -> str | None:
    """Name of the index on the dialogue key, if there is one."""
    for index in dataset.describe_indices():
        if index.field_names == [INDEXED_COLUMN]:
            return str(index.name)
    return None


def _index_statistics(dataset: lance.LanceDataset) -> dict[str, int] | None:
    name = _index_name(dataset)
    statistics: dict[str, int] | None = dataset.stats.index_stats(name) if name else None
    return statistics


def run_routine(layout: Layout, tables: Sequence[str]) -> tuple[str, ...]:
    """Do what is due on some tables; returns what was done, as ``TABLE WORK``.

    Safe beside writers, readers and other upkeep. Where one of them was faster the work stays due.
    """
    done = []
    for table in tables:
        for work in due(measure(layout, table)):
            try:
                carry_out(layout, table, work, older_than=VERSIONS_KEPT)
            except ConflictError:
                continue
            done.append(f"{table} {work}")
    return tuple(done)


def carry_out(layout: Layout, table: str, work: Upkeep, *, older_than: timedelta) -> None:
    """Do one kind of work on one table.

    Args:
        layout: the store.
        table: name of the table.
        work: what to do.
        older_than: age from which ``CLEANUP`` drops versions; the latest always stays.

    Raises:
        ConflictError: a writer was faster.
        StoreError: it failed otherwise.
    """
    dataset = layout.dataset(table)
    with translated(f"{work} table {table} of {layout.uri}"):
        if work is Upkeep.COMPACT:
            if table == "accesses":
                _drop_superseded(dataset)
            dataset.optimize.compact_files(
                target_rows_per_fragment=TARGET_ROWS,
                materialize_deletions=True,
                materialize_deletions_threshold=0.0,
            )
        elif work is Upkeep.CLEANUP:
            dataset.cleanup_old_versions(older_than=older_than)
        elif _index_name(dataset) is None:
            dataset.create_scalar_index(INDEXED_COLUMN, "BTREE")
        else:
            dataset.optimize.optimize_indices()


def _drop_superseded(accesses: lance.LanceDataset) -> None:
    """Of the files that are to be merged only each edge's latest access stays: no other counts."""
    small = [part for part in accesses.get_fragments() if part.count_rows() < TARGET_ROWS]
    columns = ["edge_id", "accessed_at"]
    rows = accesses.scanner(columns=columns, fragments=small, with_row_id=True).to_table()
    latest = first_of_each(rows.sort_by([("accessed_at", "descending")]), "edge_id")["_rowid"]
    superseded = pc.invert(pc.is_in(rows["_rowid"], value_set=latest.combine_chunks()))
    places = rows["_rowid"].filter(superseded).to_pylist()
    for start in range(0, len(places), _ROWS_A_DELETE):
        listed = ", ".join(map(str, places[start : start + _ROWS_A_DELETE]))
        accesses.delete(f"_rowid IN ({listed})")
