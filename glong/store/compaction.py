"""Compaction on demand: rows that nobody sees are deleted, files merged, old versions dropped.

Safe beside readers and writers as long as ``grace`` is longer than any read and any wave takes;
with writers running, work on ``sessions`` may end in a conflict. Nothing here purges a person's
data for good.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import lance
import pyarrow as pa
import pyarrow.compute as pc

from glong.store.deleting import delete_writes
from glong.store.layout import Layout
from glong.store.reading import Named, Scope, read_named
from glong.store.upkeep import Upkeep, carry_out, committed, measure
from glong.tables import DATA_TABLES

__all__ = ["Compaction", "compact", "unnamed_pairs"]


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did.

    Attributes:
        garbage_rows: table name -> rows deleted because no manifest row named them.
        fragments_before: table name -> number of data fragments.
        fragments_after: table name -> number of data fragments.
    """

    garbage_rows: Mapping[str, int]
    fragments_before: Mapping[str, int]
    fragments_after: Mapping[str, int]


def compact(layout: Layout, *, now: datetime, grace: timedelta) -> Compaction:
    """Delete garbage, merge files, bring indexes up to date, drop old versions.

    Args:
        layout: the store.
        now: the present, aware.
        grace: rows and versions younger than this are left alone.

    Raises:
        ConflictError: a writer was faster; run it again when builds have ended.
        StoreError: the store cannot be read or written.
    """
    before = {table: measure(layout, table).fragments for table in layout.tables}
    garbage = dict.fromkeys(DATA_TABLES, 0)
    old_sessions = _version_at(layout, "sessions", now - grace)
    if old_sessions is not None:
        named = [read_named(layout, Scope(), version) for version in (old_sessions, None)]
        garbage = {t: _delete_garbage(layout, t, now - grace, named) for t in DATA_TABLES}
    for table in layout.tables:
        for work in Upkeep:
            carry_out(layout, table, work, older_than=grace)
    after = {table: measure(layout, table).fragments for table in layout.tables}
    return Compaction(garbage, before, after)


def _delete_garbage(layout: Layout, table: str, cutoff: datetime, named: list[Named]) -> int:
    """Delete rows that were there at ``cutoff`` and visible neither then nor now; returns how many.

    Then: a reader may still hold that version of ``sessions``. There at ``cutoff``: a younger row
    may belong to a wave whose manifest is yet to come.
    """
    if (old := _version_at(layout, table, cutoff)) is None:
        return 0
    return delete_writes(layout, table, unnamed_pairs(layout.dataset(table, old), table, named))


def _version_at(layout: Layout, table: str, cutoff: datetime) -> int | None:
    """The latest version committed by then; reads few of them."""
    versions = [int(ref["version"]) for ref in layout.dataset(table).version_refs()]
    n = bisect_right(versions, cutoff, key=lambda version: committed(layout, table, version))
    return versions[n - 1] if n else None


def unnamed_pairs(
    dataset: lance.LanceDataset, table: str, named: list[Named]
) -> set[tuple[str, str]]:
    """(session key, batch id) of the rows that none of the manifests names."""
    pairs: set[tuple[str, str]] = set()
    for batch in dataset.to_batches(columns=["session_key", "batch_id"]):
        mask = pa.repeat(False, batch.num_rows)
        for manifest in named:
            mask = pc.or_(mask, manifest.mask(table, batch))
        unseen = batch.filter(pc.invert(mask))
        pairs.update(zip(*(column.to_pylist() for column in unseen.columns), strict=True))
    return pairs
