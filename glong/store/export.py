"""A store as text: one ``TABLE.jsonl`` a table, visible rows only, equal bytes for equal content.

Keys are sorted, rows are sorted by id, times are RFC 3339 in UTC. Only the columns of
:data:`glong.tables.VARYING_COLUMNS` differ between two stores that were built from one input.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glong.errors import NotFoundError
from glong.ids import dialogue_key
from glong.store.forgotten import read_secrets
from glong.store.layout import Layout, translated
from glong.store.reading import (
    Named,
    Scope,
    read_manifest,
    read_named,
    read_visible,
    session_order,
)
from glong.store.waves import first_of_each

__all__ = ["export_dialogue", "export_tables", "rfc3339"]

SECRETS_FILE = "forgotten_keys.jsonl"
"""Beside the tables: the keys of the marks in ``forgotten``, readable by the owner alone."""
ROWS_AT_ONCE = 10_000
"""Read and turned into text at a time."""
ORDER = {
    "turns": ("turn_id",),
    "entities": ("session_key", "entity_id"),
    "edges": ("edge_id",),
    "failures": ("failure_id",),
    "accesses": ("dialogue_key", "edge_id", "accessed_at"),
    "forgotten": ("tenant", "scope", "key", "forgotten_at"),
    "sessions": ("session_key",),
}
"""The columns that rows of each table are sorted by."""


def export_tables(
    layout: Layout, out_dir: Path, *, tenant: str | None = None, with_vectors: bool = False
) -> dict[str, int]:
    """Write ``out_dir/TABLE.jsonl`` for every table, and the keys of its marks if it has any.

    Args:
        layout: the store.
        out_dir: made if missing; files of these names are replaced once each is complete.
        tenant: only its rows; ``None`` for all.
        with_vectors: write vectors too, as lists of numbers.

    Returns:
        Table name -> rows written.

    Raises:
        StoreError: the store cannot be read.
        OSError: a file cannot be written.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    sessions = layout.dataset("sessions")
    named = read_named(layout, Scope(tenant), sessions.version)
    written = {}
    for table in layout.tables:
        dataset = sessions if table == "sessions" else layout.dataset(table)
        with translated(f"read table {table} of {layout.uri}"):
            places = _sorted_places(dataset, table, Scope(tenant), named)
        columns = [n for n in dataset.schema.names if with_vectors or n != "vector"]
        unfinished = out_dir / f"{table}.jsonl.tmp"
        with unfinished.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(_lines(dataset, places, sorted(columns)))
        unfinished.replace(out_dir / f"{table}.jsonl")
        written[table] = len(places)
    _write_secrets(layout, out_dir, written["forgotten"])
    return written


def _write_secrets(layout: Layout, out_dir: Path, n_marks: int) -> None:
    """Marks match only under the keys they were made with: without them nothing stays forgotten."""
    path = out_dir / SECRETS_FILE
    path.unlink(missing_ok=True)
    if n_marks:
        path.touch(mode=0o600)
        lines = [json.dumps({"key": secret}) + "\n" for secret in read_secrets(layout)]
        path.write_text("".join(lines), encoding="utf-8")


def _sorted_places(
    dataset: lance.LanceDataset, table: str, scope: Scope, named: Named
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions in the table of the rows to write, in the order to write them."""
    columns = [*ORDER[table], "session_key", "batch_id", "tenant"]
    columns = [name for name in dict.fromkeys(columns) if name in dataset.schema.names]
    batches, start = [], 0
    # Unfiltered, so that the count of rows gives positions; the filter is applied here.
    for batch in dataset.to_batches(columns=columns, scan_in_order=True):
        place = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
        start += batch.num_rows
        keep = named.mask(table, batch)
        if scope.tenant is not None:
            keep = pc.and_(keep, pc.equal(batch.column("tenant"), scope.tenant))
        batches.append(batch.append_column("place", place).filter(keep))
    if not batches:
        return np.empty(0, dtype=np.int64)
    rows = pa.Table.from_batches(batches)
    if table == "failures":
        rows = first_of_each(rows, "failure_id")
    rows = rows.sort_by([(name, "ascending") for name in ORDER[table]])
    return np.asarray(rows.column("place").to_numpy(), dtype=np.int64)


def _lines(
    dataset: lance.LanceDataset,
    places: np.ndarray[tuple[int], np.dtype[np.int64]],
    columns: list[str],
) -> Iterator[str]:
    for start in range(0, len(places), ROWS_AT_ONCE):
        rows = dataset.take(places[start : start + ROWS_AT_ONCE].tolist(), columns=columns)
        for row in rows.to_pylist():
            yield json.dumps(row, ensure_ascii=False, sort_keys=True, default=rfc3339) + "\n"


def rfc3339(value: object) -> str:
    """Times as JSON; anything else is a bug."""
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} has no JSON form.")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def export_dialogue(layout: Layout, tenant: str, dialogue_id: str) -> dict[str, Any]:
    """One memory as a JSON document: all that is stored of it, but vectors and hashed keys.

    Returns:
        ``dialogue_id`` and lists ``sessions`` (by start), ``turns``, ``entities``, ``edges``,
        ``failures``; times are RFC 3339 texts.

    Raises:
        NotFoundError: the tenant has no session of this dialogue.
    """
    scope = Scope(dialogue_keys=(dialogue_key(tenant, dialogue_id),))
    manifest = session_order(read_manifest(layout, scope))
    if manifest.num_rows == 0:
        raise NotFoundError(f"Tenant {tenant!r} has no dialogue {dialogue_id!r} in {layout.uri}.")
    named = Named.of(manifest)
    tables = {"sessions": manifest}
    for table in ("turns", "entities", "edges", "failures"):
        rows = read_visible(layout, table, scope, named)
        order = [*_IN_SESSION.get(table, ()), *ORDER[table]]
        tables[table] = rows.sort_by(
            [("session_id", "ascending"), *[(n, "ascending") for n in order]]
        )
    document: dict[str, Any] = {"dialogue_id": dialogue_id}
    for table, rows in tables.items():
        columns = [name for name in rows.column_names if name not in _NOT_SHOWN]
        document[table] = json.loads(json.dumps(rows.select(columns).to_pylist(), default=rfc3339))
    return document


_NOT_SHOWN = frozenset(
    {"tenant", "dialogue_id", "dialogue_key", "session_key", "content_hash", "batch_id", "vector"}
)
_IN_SESSION = {"turns": ("turn_index",), "edges": ("turn_index",)}
