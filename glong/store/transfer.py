"""Stored sessions weighed or embedded again, and moved from an export or another store.

Everything is written in waves through :meth:`~glong.store.Store.append_wave`, so what was forgotten
stays so. Each function can be stopped anywhere and be called again: what is done is not done twice.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glong.errors import ConfigError, ModelError, SourceError
from glong.protocols import Encoder, Scorer
from glong.store.export import SECRETS_FILE
from glong.store.forgotten import add_secrets, read_secrets
from glong.store.layout import translated
from glong.store.leaving_out import BY_HAND, leave_out
from glong.store.reading import Named, Scope, read_visible
from glong.store.regroup import read_built, regroup
from glong.store.store import Store
from glong.store.waves import Wave
from glong.tables import (
    BUILT,
    DATA_TABLES,
    FAILURES,
    built_schema,
    nested,
    stored_schemas,
)
from glong.types import Triplet, Vectors
from glong.weighting import normalise, triplet_text, turn_text

__all__ = ["Tables", "add_rows", "embedded_texts", "read_export", "read_store", "reweigh"]

WAVE_SESSIONS = 256
READ_ROWS = 10_000


def reweigh(
    store: Store, scorer: Scorer, now: datetime, tenant: str | None = None
) -> Iterator[int]:
    """Weigh the edges of all visible sessions again; yields the sessions of each wave.

    Those that this scorer has weighed, those that failed and facts by hand are left as they are.
    A session without edges only learns that it was weighed, so that no build takes it for stale.
    Only what is stored is read: edges that were forgotten count no more in a session's S_max.

    Raises:
        ModelError: the scorer gave something that is no score.
        ConflictError: a purge holds the store.
    """
    manifest = store.manifest(tenant)
    done = pc.is_in(
        manifest["scorer"], value_set=pa.array([scorer.fingerprint, BY_HAND], pa.string())
    )
    todo = pc.and_(pc.invert(done), pc.equal(manifest["status"], BUILT))
    for part in _parts(manifest.filter(todo)):
        built = _with_scores(read_built(store.layout, part), scorer)
        over = tuple(part["batch_id"].to_pylist())
        store.append_wave(Wave(uuid.uuid4().hex, now, built, FAILURES.empty_table(), over=over))
        yield part.num_rows


def _parts(manifest: pa.Table) -> Iterator[pa.Table]:
    """Whole dialogues, until there are enough sessions for a wave."""
    manifest = manifest.sort_by([("dialogue_key", "ascending"), ("session_key", "ascending")])
    start = 0
    keys = manifest["dialogue_key"].to_pylist()
    for end in range(1, len(keys) + 1):
        last = end == len(keys)
        if last or (end - start >= WAVE_SESSIONS and keys[end] != keys[end - 1]):
            yield manifest.slice(start, end - start)
            start = end


def _with_scores(built: pa.Table, scorer: Scorer) -> pa.Table:
    texts = [[_edge_text(e) for e in edges] for edges in _rows(built, "edges", _EDGE)]
    scores = [np.asarray(s, dtype=np.float64) for s in scorer.weigh(texts)]
    if [len(s) for s in scores] != [len(t) for t in texts]:
        raise ModelError("The scorer did not give one score an edge.", hint="Check its weights.")
    values = {
        "score": np.concatenate([np.zeros(0), *scores]),
        "weight": np.concatenate([np.zeros(0), *map(normalise, scores)]),
    }
    built = _with_fields(built, "edges", values)
    tops = [float(s.max()) if len(s) else None for s in scores]
    built = _set(built, "max_score", pa.array(tops, pa.float64()))
    return _set(built, "scorer", pa.array([scorer.fingerprint] * built.num_rows, pa.string()))


_EDGE = ("subject", "relation", "object")


def _rows(built: pa.Table, name: str, columns: Iterable[str]) -> list[list[dict[str, Any]]]:
    """The nested rows of each session, with some of their columns."""
    lists = built[name].combine_chunks()
    rows = pa.Table.from_struct_array(lists.flatten()).select(list(columns)).to_pylist()
    left = iter(rows)
    return [[next(left) for _ in range(n or 0)] for n in pc.list_value_length(lists).to_pylist()]


def _edge_text(edge: Mapping[str, str]) -> str:
    return triplet_text(Triplet(edge["subject"], edge["relation"], edge["object"], 0))


def _set(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), column)


def _with_fields(built: pa.Table, name: str, values: Mapping[str, Any]) -> pa.Table:
    """Put other values into fields of a nested column."""
    lists = built[name].combine_chunks()
    kind = built.schema.field(name).type.value_type
    rows = pa.Table.from_struct_array(lists.flatten())
    arrays = [
        pa.array(values[field.name], field.type)
        if field.name in values
        else rows[field.name].combine_chunks()
        for field in kind
    ]
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_pylist()
    return _set(built, name, nested(pa.StructArray.from_arrays(arrays, fields=list(kind)), lengths))


def embedded_texts(built: pa.Table) -> dict[str, list[str]]:
    """What the vectors of turns, entities and edges are of, in the order of their rows."""
    turns, entities, edges = (
        [row for of_session in _rows(built, name, columns) for row in of_session]
        for name, columns in (
            ("turns", ("speaker", "text")),
            ("entities", ("name",)),
            ("edges", _EDGE),
        )
    )
    return {
        "turns": [turn_text(turn["speaker"], turn["text"]) for turn in turns],
        "entities": [entity["name"] for entity in entities],
        "edges": [_edge_text(edge) for edge in edges],
    }


def _with_vectors(built: pa.Table, encoder: Encoder) -> pa.Table:
    for name, texts in embedded_texts(built).items():
        if not texts:
            continue
        built = _with_fields(built, name, {"vector": _column(encoder.encode(texts))})
    return _set(built, "encoder", pa.array([encoder.fingerprint] * built.num_rows, pa.string()))


def _column(vectors: Vectors) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Where rows come from: an export that was read, or another store.

    Attributes:
        parts: built sessions, some hundred at a time; vectors of ``encoder``, or all null.
        rest: table name -> rows of ``accesses``, ``forgotten``, and of ``failures`` that belong to
            no session.
        secrets: keys of the marks in ``forgotten``.
        encoder: fingerprint of the vectors; empty where there are none.
    """

    parts: Iterable[pa.Table]
    rest: Mapping[str, pa.Table]
    secrets: tuple[str, ...]
    encoder: str


def add_rows(store: Store, tables: Tables, now: datetime, encoder: Encoder | None) -> Iterator[int]:
    """Add everything to a store; yields the sessions of each wave that were not there.

    A session that is there with other content or of other models is replaced. Marks come first, so
    what was forgotten there is left out here too.

    Args:
        store: where to.
        tables: what.
        now: the present, aware.
        encoder: embeds what has no vectors of the store's encoder.

    Raises:
        ConfigError: vectors are to be made and there is no encoder, or another one.
        ConflictError: a purge holds the store.
    """
    if tables.secrets:
        add_secrets(store.layout, tables.secrets)
    _append_new(store, "forgotten", tables.rest["forgotten"])
    embeds = tables.encoder != store.meta.encoder
    if embeds and (encoder is None or encoder.fingerprint != store.meta.encoder):
        raise ConfigError(
            f"The store {store.uri} has vectors of encoder {store.meta.encoder}, the rows have"
            f" {tables.encoder or 'none'}; give the models of the store."
        )
    for built in tables.parts:
        left = leave_out(built, store.forgotten()).built
        part = _new(store, _set_encoder(left, store.meta.encoder))
        if part.num_rows:
            part = _with_vectors(part, encoder) if embeds and encoder else part
            store.append_wave(Wave(uuid.uuid4().hex, now, part, FAILURES.empty_table()))
        yield part.num_rows
    _add_failures(store, tables.rest["failures"], now)
    _append_new(store, "accesses", tables.rest["accesses"])


def _add_failures(store: Store, failures: pa.Table, now: datetime) -> None:
    """Failures that belong to no session here and are not there yet."""
    there = store.layout.dataset("failures").to_table(columns=["failure_id"])["failure_id"]
    known = pc.is_in(failures["failure_id"], value_set=there.combine_chunks())
    new = failures.filter(pc.invert(known))
    if new.num_rows:
        none = built_schema(store.meta.dimension).empty_table()
        store.append_wave(Wave(uuid.uuid4().hex, now, none, new))


def _set_encoder(built: pa.Table, encoder: str) -> pa.Table:
    return _set(built, "encoder", pa.array([encoder] * built.num_rows, pa.string()))


_SAME = ("session_key", "content_hash", "extractor", "scorer", "encoder", "status", "n_edges")


def _new(store: Store, built: pa.Table) -> pa.Table:
    """The sessions that are not there, or not with this content and of these models."""
    known = set(zip(*store.manifest(columns=_SAME).to_pydict().values(), strict=True))
    rows = zip(*built.select(_SAME).to_pydict().values(), strict=True)
    return built.filter(pa.array([row not in known for row in rows], pa.bool_()))


def _append_new(store: Store, table: str, rows: pa.Table) -> None:
    """Add rows that are not there yet, by all their columns."""
    names = rows.column_names
    there = store.layout.dataset(table).to_table(columns=names)
    known = set(zip(*there.to_pydict().values(), strict=True))
    new = [row not in known for row in zip(*rows.to_pydict().values(), strict=True)]
    if any(new):
        with translated(f"append to {table} of {store.uri}"):
            fresh = rows.filter(pa.array(new, pa.bool_()))
            lance.write_dataset(fresh, store.layout.dataset(table), mode="append")


def read_store(source: Store, dimension: int) -> Tables:
    """Everything visible of a store, without vectors, to be embedded with another encoder."""
    named = Named.of(source.manifest(columns=["session_key", "batch_id"]))
    failures = read_visible(source.layout, "failures", Scope(), named)
    known = pc.is_in(failures["session_key"], value_set=named.keys)
    rest = {
        "failures": failures.filter(pc.invert(known)),
        **{name: source.visible(name) for name in ("accesses", "forgotten")},
    }
    parts = (
        read_built(source.layout, part, without_vectors=dimension)
        for part in _parts(source.manifest())
    )
    return Tables(parts, rest, read_secrets(source.layout), "")


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
    rest = {
        "failures": tables["failures"].filter(pc.invert(known)),
        "accesses": tables["accesses"],
        "forgotten": tables["forgotten"],
    }
    return Tables(
        parts=[built.slice(i, WAVE_SESSIONS) for i in range(0, built.num_rows, WAVE_SESSIONS)],
        rest=rest,
        secrets=_read_secrets(folder / SECRETS_FILE),
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
