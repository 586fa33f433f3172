"""Counts that say how a store is: what is in it, what is garbage, how well it is kept."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from glong.store.layout import Layout, StoreMeta
from glong.store.reading import Named, Scope, iter_visible, read_manifest
from glong.store.upkeep import measure
from glong.tables import DATA_TABLES, FAILED

__all__ = ["Status", "read_status"]


@dataclass(frozen=True, slots=True)
class Status:
    """How a store is.

    Attributes:
        uri: where it is.
        meta: what it was made with.
        sessions_built: sessions in the manifest that were built.
        sessions_failed: sessions in the manifest that failed for good.
        dialogues: distinct (tenant, dialogue) pairs.
        tenants: distinct tenants.
        waves: distinct batch ids in the manifest.
        rows: table name -> rows stored.
        visible_rows: table name -> rows that readers see.
        garbage_rows: table name -> the rest, of crashes and replaced sessions, until compaction.
        versions: table name -> versions kept.
        fragments: table name -> data fragments.
        index_coverage: table name -> share of rows that the index on dialogues covers, 0 to 1; 1 if
            empty.
        bytes_on_disk: all files of the store, or ``None`` where it is not local.
    """

    uri: str
    meta: StoreMeta
    sessions_built: int
    sessions_failed: int
    dialogues: int
    tenants: int
    waves: int
    rows: Mapping[str, int]
    visible_rows: Mapping[str, int]
    garbage_rows: Mapping[str, int]
    versions: Mapping[str, int]
    fragments: Mapping[str, int]
    index_coverage: Mapping[str, float]
    bytes_on_disk: int | None


def read_status(layout: Layout) -> Status:
    """Count; reads the keys of every row, but no texts or vectors.

    Raises:
        StoreError: the store cannot be read.
    """
    columns = ("session_key", "batch_id", "status", "dialogue_key", "tenant")
    manifest = read_manifest(layout, Scope(), columns=columns)
    named = Named.of(manifest)
    health = {table: measure(layout, table) for table in layout.tables}
    rows = {table: h.rows for table, h in health.items()}
    visible = rows | {table: _count_visible(layout, table, named) for table in DATA_TABLES}
    failed = pc.sum(pc.equal(manifest.column("status"), FAILED)).as_py() or 0
    return Status(
        uri=layout.uri,
        meta=layout.meta,
        sessions_built=manifest.num_rows - failed,
        sessions_failed=failed,
        dialogues=pc.count_distinct(manifest.column("dialogue_key")).as_py(),
        tenants=pc.count_distinct(manifest.column("tenant")).as_py(),
        waves=pc.count_distinct(manifest.column("batch_id")).as_py(),
        rows=rows,
        visible_rows=visible,
        garbage_rows={table: rows[table] - visible[table] for table in rows},
        versions={table: h.versions for table, h in health.items()},
        fragments={table: h.fragments for table, h in health.items()},
        index_coverage={
            table: h.indexed_rows / h.rows if h.rows else 1.0 for table, h in health.items()
        },
        bytes_on_disk=bytes_on_disk(layout.uri),
    )


def _count_visible(layout: Layout, table: str, named: Named) -> int:
    columns = ["failure_id"] if table == "failures" else ["session_key"]
    batches = iter_visible(layout, table, Scope(), named, columns)
    if table == "failures":  # several runs may have met the same one
        return len({failure for batch in batches for failure in batch.column(0).to_pylist()})
    return sum(batch.num_rows for batch in batches)


def bytes_on_disk(uri: str) -> int | None:
    """Bytes of all files below a local folder; ``None`` for an object store."""
    if "://" in uri:
        return None
    total = 0
    for folder, _, names in os.walk(uri):
        for name in names:
            path = Path(folder, name)
            if path.exists():  # a cleanup beside us may have removed it
                total += path.stat().st_size
    return total
