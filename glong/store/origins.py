"""Where moved sessions come from: another store, or what ``export --out`` wrote.

Both give sessions as a build would, some hundred at a time, and all else that a store has.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from glong.errors import ConflictError, SourceError
from glong.store.export import SECRETS_FILE
from glong.store.forgotten import read_secrets
from glong.store.layout import Layout
from glong.store.reading import (
    COUNTED_TABLES,
    READ_RETRIES,
    Named,
    Scope,
    read_manifest,
    read_visible,
)
from glong.store.regroup import read_built, regroup
from glong.store.store import Store
from glong.tables import DATA_TABLES, stored_schemas

__all__ = ["Marks", "Tables", "in_parts", "read_export", "read_store"]

WAVE_SESSIONS = 256
READ_ROWS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """What was forgotten: rows of ``forgotten``, and the keys that they were made with."""

    rows: pa.Table
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Where rows come from: an export that was read, or another store.

    Attributes:
        parts: built sessions, some hundred at a time; vectors of ``encoder``, or all null.
        failures: those that belong to no session.
        accesses: rows of ``accesses``.
        marks: reads what was forgotten there up to now.
        encoder: fingerprint of the vectors; empty where there are none.
    """

    parts: Iterable[pa.Table]
    failures: pa.Table
    accesses: pa.Table
    marks: Callable[[], Marks]
    encoder: str


def in_parts(manifest: pa.Table) -> Iterator[pa.Table]:
    """Whole dialogues, until there are enough sessions for a wave."""
    manifest = manifest.sort_by([("dialogue_key", "ascending"), ("session_key", "ascending")])
    start = 0
    keys = manifest["dialogue_key"].to_pylist()
    for end in range(1, len(keys) + 1):
        last = end == len(keys)
        if last or (end - start >= WAVE_SESSIONS and keys[end] != keys[end - 1]):
            yield manifest.slice(start, end - start)
            start = end


def read_store(source: Store, dimension: int) -> Tables:
    """Everything visible of a store, without vectors, to be embedded with another encoder."""
    named = Named.of(source.manifest(columns=["session_key", "batch_id"]))
    failures = read_visible(source.layout, "failures", Scope(), named)
    known = pc.is_in(failures["session_key"], value_set=named.keys)
    return Tables(
        parts=(_read_whole(source.layout, part, dimension) for part in in_parts(source.manifest())),
        failures=failures.filter(pc.invert(known)),
        accesses=source.visible("accesses"),
        marks=lambda: Marks(source.visible("forgotten"), read_secrets(source.layout)),
        encoder="",
    )


def _read_whole(layout: Layout, manifest: pa.Table, dimension: int) -> pa.Table:
    """The sessions of a part of the manifest; those of which others took rows, as they are now.

    Raises:
        ConflictError: rows are missing each time.
    """
    whole = []
    for _ in range(READ_RETRIES):
        built = read_built(layout, manifest, without_vectors=dimension)
        complete = _complete(built)
        whole.append(built.filter(complete))
        lost = built.filter(pc.invert(complete))
        if lost.num_rows:
            scope = Scope(dialogue_keys=tuple(pc.unique(lost["dialogue_key"]).to_pylist()))
            manifest = read_manifest(layout, scope)
            keys = lost["session_key"].combine_chunks()
            manifest = manifest.filter(pc.is_in(manifest["session_key"], value_set=keys))
        if not (lost.num_rows and manifest.num_rows):
            return pa.concat_tables(whole)
    session = lost.select(["session_id", "dialogue_id"]).to_pylist()[0]
    raise ConflictError(
        f"Rows of session {session['session_id']!r} of dialogue {session['dialogue_id']!r} are"
        f" missing in {layout.uri}. If others forget in it, try again; if not, `verify` names all"
        " such sessions: build them again, or forget them."
    )


def _complete(built: pa.Table) -> pa.Array:
    """Which sessions have the rows that the manifest counts."""
    complete = pa.repeat(True, built.num_rows)
    for table in COUNTED_TABLES:
        lengths = pc.list_value_length(built[table].combine_chunks())
        complete = pc.and_(complete, pc.equal(lengths, built[f"n_{table}"].combine_chunks()))
    return complete


def read_export(folder: Path, store: Store) -> Tables:
    """What ``export --out`` wrote, read into memory.

    Raises:
        SourceError: a file is missing, a line is no row of its table.
    """
    dimension = store.meta.dimension
    schemas = stored_schemas(dimension)
    tables = {
        name: _read_rows(folder / f"{name}.jsonl", schema) for name, schema in schemas.items()
    }
    manifest = tables["sessions"]
    built = regroup(manifest, {name: tables[name] for name in DATA_TABLES}, dimension)
    rows = [tables[name] for name in ("turns", "entities", "edges")]
    whole = not any(table["vector"].null_count for table in rows)
    encoders = set(manifest["encoder"].to_pylist())
    known = pc.is_in(
        tables["failures"]["session_key"], value_set=manifest["session_key"].combine_chunks()
    )
    marks = Marks(tables["forgotten"], _read_secrets(folder / SECRETS_FILE))
    return Tables(
        parts=[built.slice(i, WAVE_SESSIONS) for i in range(0, built.num_rows, WAVE_SESSIONS)],
        failures=tables["failures"].filter(pc.invert(known)),
        accesses=tables["accesses"],
        marks=lambda: marks,
        encoder=encoders.pop() if whole and len(encoders) == 1 else "",
    )


def _read_secrets(path: Path) -> tuple[str, ...]:
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line)["key"] for line in lines)


def _read_rows(path: Path, schema: pa.Schema) -> pa.Table:
    tables = [schema.empty_table()]
    rows: list[dict[str, Any]] = []
    number = 0
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                number += 1
                rows.append(_row(json.loads(line), schema, times))
                if len(rows) == READ_ROWS:
                    tables.append(pa.Table.from_pylist(rows, schema))
                    rows = []
        tables.append(pa.Table.from_pylist(rows, schema))
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error}; give --from a whole export.") from error
    except (ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise SourceError(
            f"{path}, line {number} or before: {error}; allowed: a row as `export` writes it."
        ) from error
    return pa.concat_tables(tables)


def _row(row: dict[str, Any], schema: pa.Schema, times: list[str]) -> dict[str, Any]:
    wanted = set(schema.names)
    if not wanted - {"vector"} <= row.keys() <= wanted:
        raise ValueError(f"columns are {sorted(row)}, not {sorted(wanted)}")
    return row | {
        name: datetime.fromisoformat(row[name]) for name in times if row[name] is not None
    }
