"""A store as text: one ``TABLE.jsonl`` a table, visible rows only, equal bytes for equal content.

Keys are sorted, rows are sorted by id, times are RFC 3339 in UTC. Only the columns of
:data:`glong.tables.VARYING_COLUMNS` differ between two stores that were built from one input.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glong.errors import ConflictError, NotFoundError
from glong.ids import dialogue_key
from glong.store.forgotten import read_secrets
from glong.store.layout import Layout, translated
from glong.store.reading import (
    COUNTED_TABLES,
    READ_RETRIES,
    Named,
    Scope,
    read_manifest,
    read_visible,
    session_order,
)
from glong.store.waves import first_of_each
from glong.tables import DATA_TABLES

__all__ = ["export_dialogue", "export_tables", "rfc3339"]

SECRETS_FILE = "forgotten_keys.jsonl"
"""Beside the tables: the keys of the marks in ``forgotten``, readable by the owner alone."""
Places: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
"""Positions in a table, in the order to write them."""
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
        ConflictError: something was forgotten each time that the tables were read.
        StoreError: the store cannot be read. Upkeep beside writers keeps what is exported for an
            hour (``VERSIONS_KEPT``); a purge does not. An export that takes longer needs the
            writers stopped.
        OSError: a file cannot be written.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    tables, places = _snapshot(layout, Scope(tenant))
    for table in layout.tables:
        dataset = tables[table]
        columns = [n for n in dataset.schema.names if with_vectors or n != "vector"]
        unfinished = out_dir / f"{table}.jsonl.tmp"
        with unfinished.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(_lines(dataset, places[table], sorted(columns)))
        unfinished.replace(out_dir / f"{table}.jsonl")
    written = {table: len(places[table]) for table in layout.tables}
    _write_secrets(layout, out_dir, written["forgotten"])
    return written


def _snapshot(
    layout: Layout, scope: Scope
) -> tuple[dict[str, lance.LanceDataset], dict[str, Places]]:
    """All tables as they were at one time, and the rows of each to write.

    Raises:
        ConflictError: something was forgotten each time.
    """
    for _ in range(READ_RETRIES):
        # `sessions`, the last one, is opened first: what it names was appended before.
        tables = {table: layout.dataset(table) for table in reversed(layout.tables)}
        version = int(tables["sessions"].version)
        manifest = read_manifest(layout, scope, columns=_COUNTED, version=version)
        named = Named.of(manifest)
        places = {}
        for table, dataset in tables.items():
            with translated(f"read table {table} of {layout.uri}"):
                places[table] = _sorted_places(dataset, table, scope, named)
        if _is_whole(layout, manifest, {t: len(rows) for t, rows in places.items()}, version):
            return tables, places
    raise _overtaken(layout)


_COUNTED = ("session_key", "batch_id", *(f"n_{table}" for table in COUNTED_TABLES))


def _is_whole(layout: Layout, manifest: pa.Table, n_rows: Mapping[str, int], version: int) -> bool:
    """Whether all rows that the manifest counts were read, or no forgetting took the others."""
    counted = {table: pc.sum(manifest[f"n_{table}"]).as_py() or 0 for table in COUNTED_TABLES}
    if all(n_rows[table] >= n for table, n in counted.items()):
        return True
    return int(layout.dataset("sessions").version) == version


def _overtaken(layout: Layout) -> ConflictError:
    return ConflictError(
        f"Parts of {layout.uri} were forgotten while it was exported, {READ_RETRIES} times in a"
        " row; nothing was written. Try again."
    )


def _write_secrets(layout: Layout, out_dir: Path, n_marks: int) -> None:
    """Marks match only under the keys they were made with: without them nothing stays forgotten."""
    path = out_dir / SECRETS_FILE
    path.unlink(missing_ok=True)
    if n_marks:
        path.touch(mode=0o600)
        lines = [json.dumps({"key": secret}) + "\n" for secret in read_secrets(layout)]
        path.write_text("".join(lines), encoding="utf-8")


def _sorted_places(dataset: lance.LanceDataset, table: str, scope: Scope, named: Named) -> Places:
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
    places: Places,
    columns: list[str],
) -> Iterator[str]:
    for start in range(0, len(places), ROWS_AT_ONCE):
        at_once = places[start : start + ROWS_AT_ONCE].tolist()
        lost = "a purge may have taken what was exported, or upkeep after an hour; export again"
        with translated(f"read {dataset.uri} ({lost}, with writers stopped)"):
            rows = dataset.take(at_once, columns=columns)
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
        ConflictError: something was forgotten each time that it was read.
    """
    scope = Scope(dialogue_keys=(dialogue_key(tenant, dialogue_id),))
    for _ in range(READ_RETRIES):
        version = int(layout.dataset("sessions").version)
        manifest = session_order(read_manifest(layout, scope, version=version))
        if manifest.num_rows == 0:
            message = f"Tenant {tenant!r} has no dialogue {dialogue_id!r} in {layout.uri}."
            raise NotFoundError(message)
        named = Named.of(manifest)
        rows = {table: read_visible(layout, table, scope, named) for table in DATA_TABLES}
        if _is_whole(layout, manifest, {t: r.num_rows for t, r in rows.items()}, version):
            return _document(dialogue_id, manifest, rows)
    raise _overtaken(layout)


def _document(
    dialogue_id: str, manifest: pa.Table, tables: Mapping[str, pa.Table]
) -> dict[str, Any]:
    document: dict[str, Any] = {"dialogue_id": dialogue_id, "sessions": _as_json(manifest)}
    for table, rows in tables.items():
        order = ["session_id", *_IN_SESSION.get(table, ()), *ORDER[table]]
        document[table] = _as_json(rows.sort_by([(name, "ascending") for name in order]))
    return document


def _as_json(rows: pa.Table) -> list[dict[str, Any]]:
    columns = [name for name in rows.column_names if name not in _NOT_SHOWN]
    shown: list[dict[str, Any]]
    shown = json.loads(json.dumps(rows.select(columns).to_pylist(), default=rfc3339))
    return shown


_NOT_SHOWN = frozenset(
    {"tenant", "dialogue_id", "dialogue_key", "session_key", "content_hash", "batch_id", "vector"}
)
_IN_SESSION = {"turns": ("turn_index",), "edges": ("turn_index",)}
