"""Arrow schemas, and records to and from Arrow.

Two families. *In flight* rows are one a session and travel between the stages of a build:
``SESSION`` -> ``EXTRACTED`` -> ``WEIGHED`` -> ``built_schema(dimension)``, each adding columns.
*Stored* rows are what :mod:`glong.store` appends: ``explode`` turns built sessions into one Arrow
table for each stored table, without a Python loop over rows.

Every stored data row carries the identity columns; ``batch_id`` names the write that made it, and
a row is visible only if the manifest ``sessions`` names its (session_key, batch_id).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glong.types import Failure, Session, Triplet, Turn

__all__ = [
    "ACCESSES",
    "BUILT",
    "DATA_TABLES",
    "EXTRACTED",
    "FAILED",
    "FAILURES",
    "FORGOTTEN",
    "FORMAT_VERSION",
    "IDENTITY",
    "MANIFEST",
    "PENDING",
    "SESSION",
    "TIME",
    "VARYING_COLUMNS",
    "WEIGHED",
    "built_schema",
    "explode",
    "failure_struct",
    "manifest_rows",
    "nested",
    "record_failures_to",
    "row_types",
    "sessions_from",
    "sessions_to",
    "split_pending",
    "stored_schemas",
    "struct_rows",
    "triplet_structs",
    "triplets_from",
    "vector_type",
    "with_columns",
]

BUILT, FAILED, PENDING = "built", "failed", "pending"
"""Status of a session. ``failed``: every window failed for good; its turns are stored all the same.
``pending``: a cause that may pass; only the failure is stored, and a later run tries again."""

FORMAT_VERSION = 1
TIME = pa.timestamp("us", tz="UTC")
PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
VARYING_COLUMNS = ("batch_id", "built_at", "accessed_at")
"""The columns that differ between runs; every other column is a function of the input."""

IDENTITY = pa.schema(
    [
        ("tenant", pa.string()),
        ("dialogue_id", pa.string()),
        ("session_id", pa.string()),
        ("dialogue_key", pa.string()),
        ("session_key", pa.string()),
    ]
)
DATA_TABLES = ("turns", "entities", "edges", "failures")

_TURN = pa.struct(
    [("index", pa.int32()), ("speaker", pa.string()), ("text", pa.string()), ("time", TIME)]
)
_TRIPLET = pa.struct(
    [
        ("subject", pa.string()),
        ("relation", pa.string()),
        ("object", pa.string()),
        ("turn_index", pa.int32()),
    ]
)
_FAILURE = pa.struct(
    [
        ("failure_id", pa.string()),
        ("stage", pa.string()),
        ("kind", pa.string()),
        ("message", pa.string()),
        ("raw", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("field", pa.string()),
        ("turn_index", pa.int32()),
        ("transient", pa.bool_()),
    ]
)

SESSION = pa.schema(
    [
        *IDENTITY,
        ("started_at", TIME),
        ("content_hash", pa.string()),
        ("session_turns", pa.list_(_TURN)),
    ]
)
EXTRACTED = pa.schema(
    [
        *SESSION,
        ("triplets", pa.list_(_TRIPLET)),
        ("failures", pa.list_(_FAILURE)),
        ("extractor", pa.string()),
        ("status", pa.string()),
        ("n_triplets", pa.int32()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
        ("n_windows", pa.int32()),
    ]
)
WEIGHED = pa.schema([*EXTRACTED, ("scores", pa.list_(pa.float64())), ("scorer", pa.string())])

MANIFEST = pa.schema(
    [
        pa.field("session_key", pa.string(), nullable=False, metadata=PRIMARY_KEY),
        ("tenant", pa.string()),
        ("dialogue_id", pa.string()),
        ("session_id", pa.string()),
        ("dialogue_key", pa.string()),
        ("started_at", TIME),
        ("status", pa.string()),
        ("content_hash", pa.string()),
        ("extractor", pa.string()),
        ("scorer", pa.string()),
        ("encoder", pa.string()),
        ("n_turns", pa.int32()),
        ("n_triplets", pa.int32()),
        ("n_edges", pa.int32()),
        ("n_entities", pa.int32()),
        ("n_failures", pa.int32()),
        ("max_score", pa.float64()),
        ("batch_id", pa.string()),
        ("built_at", TIME),
    ]
)
"""``status`` is ``built`` or ``failed``; ``extractor``, ``scorer``, ``encoder`` are fingerprints;
``max_score`` is the largest raw S of the session, so w = S / max_score can be checked."""

FAILURES = pa.schema(
    [
        pa.field("failure_id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
        *IDENTITY,
        ("batch_id", pa.string()),
        *[f for f in _FAILURE if f.name != "failure_id"],
    ]
)
ACCESSES = pa.schema(
    [
        ("tenant", pa.string()),
        ("dialogue_key", pa.string()),
        ("edge_id", pa.string()),
        ("accessed_at", TIME),
    ]
)
FORGOTTEN = pa.schema(
    [
        ("tenant", pa.string()),
        ("scope", pa.string()),
        ("key", pa.string()),
        ("dialogue_key", pa.string()),
        ("forgotten_at", TIME),
    ]
)


def vector_type(dimension: int) -> pa.DataType:
    """Fixed-size list of float32."""
    return pa.list_(pa.float32(), dimension)


def _turn_row(dimension: int) -> pa.DataType:
    return pa.struct(
        [
            ("turn_id", pa.string()),
            ("turn_index", pa.int32()),
            ("speaker", pa.string()),
            ("text", pa.string()),
            ("time", TIME),
            ("vector", vector_type(dimension)),
        ]
    )


def _entity_row(dimension: int) -> pa.DataType:
    return pa.struct(
        [
            ("entity_id", pa.string()),
            ("name", pa.string()),
            ("aliases", pa.list_(pa.string())),
            ("vector", vector_type(dimension)),
        ]
    )


def _edge_row(dimension: int) -> pa.DataType:
    return pa.struct(
        [
            ("edge_id", pa.string()),
            ("head_id", pa.string()),
            ("tail_id", pa.string()),
            ("subject", pa.string()),
            ("relation", pa.string()),
            ("object", pa.string()),
            ("turn_index", pa.int32()),
            ("turn_id", pa.string()),
            ("score", pa.float64()),
            ("weight", pa.float32()),
            ("created_at", TIME),
            ("accessed_at", TIME),
            ("vector", vector_type(dimension)),
        ]
    )


def row_types(dimension: int) -> dict[str, pa.StructType]:
    """Table name -> struct of its own columns, as nested in ``built_schema``."""
    return {
        "turns": _turn_row(dimension),
        "entities": _entity_row(dimension),
        "edges": _edge_row(dimension),
        "failures": _FAILURE,
    }


def built_schema(dimension: int) -> pa.Schema:
    """One row a session: manifest columns but for the write's own, and its rows as nested lists."""
    manifest = [f for f in MANIFEST if f.name not in ("batch_id", "built_at")]
    return pa.schema(
        [
            *manifest,
            *[(name, pa.list_(kind)) for name, kind in row_types(dimension).items()],
        ]
    )


def stored_schemas(dimension: int) -> dict[str, pa.Schema]:
    """Table name -> schema of every table of a store."""
    data = {
        name: pa.schema([*row, *IDENTITY, ("batch_id", pa.string())])
        for name, row in row_types(dimension).items()
    }
    return {
        **data,
        "failures": FAILURES,
        "accesses": ACCESSES,
        "forgotten": FORGOTTEN,
        "sessions": MANIFEST,
    }


def explode(built: pa.Table, batch_id: str, dimension: int) -> dict[str, pa.Table]:
    """Built sessions -> rows of each data table, tagged with the id of this write.

    Vectors are not copied: the driver of a large build holds each wave once.
    """
    schemas = stored_schemas(dimension)
    return {name: _flatten(built, name, batch_id, schemas[name]) for name in DATA_TABLES}


def _flatten(built: pa.Table, name: str, batch_id: str, schema: pa.Schema) -> pa.Table:
    """The nested rows of one column, each with its session's identity and the batch id."""
    tables = [schema.empty_table()]
    for batch in built.to_batches():
        lists = batch.column(name)
        parents = pc.list_parent_indices(lists)
        rows = pa.Table.from_struct_array(lists.flatten())
        for field in IDENTITY:
            rows = rows.append_column(field, batch.column(field.name).take(parents))
        rows = rows.append_column("batch_id", pa.array([batch_id] * rows.num_rows, pa.string()))
        tables.append(rows.select(schema.names).cast(schema))
    return pa.concat_tables(tables)


def split_pending(built: pa.Table, batch_id: str) -> tuple[pa.Table, pa.Table]:
    """Built rows -> those to store, and the failures of those that stay pending.

    A pending session met a cause that may pass: of it only its failures are stored, until a later
    run builds it.
    """
    pending = pc.equal(built.column("status"), PENDING)
    if not pc.any(pending).as_py():
        return built, FAILURES.empty_table()
    failures = _flatten(built.filter(pending), "failures", batch_id, FAILURES)
    return built.filter(pc.invert(pending)), failures


def manifest_rows(built: pa.Table, batch_id: str, built_at: datetime | pa.ChunkedArray) -> pa.Table:
    """Built sessions -> their manifest rows; ``built_at`` of all, or of each."""
    n = built.num_rows
    rows = built.select([f.name for f in MANIFEST if f.name not in ("batch_id", "built_at")])
    rows = rows.append_column("batch_id", pa.array([batch_id] * n, pa.string()))
    times = built_at if isinstance(built_at, pa.ChunkedArray) else pa.array([built_at] * n, TIME)
    rows = rows.append_column("built_at", times)
    return rows.select(MANIFEST.names).cast(MANIFEST)


def failure_struct(failure: Failure, failure_id: str) -> dict[str, Any]:
    """One failure as the nested row that ``built_schema`` and the failures table share."""
    return {
        "failure_id": failure_id,
        "stage": failure.stage,
        "kind": failure.kind,
        "message": failure.message,
        "raw": failure.raw,
        "file": failure.place.file,
        "line": failure.place.line,
        "field": failure.place.field,
        "turn_index": failure.turn_index,
        "transient": failure.transient,
    }


def record_failures_to(
    failures: Iterable[Mapping[str, Any]], tenant: str, batch_id: str
) -> pa.Table:
    """Failures that belong to no session (see :func:`failure_struct`) as rows of ``failures``."""
    blank = dict.fromkeys(IDENTITY.names, "") | {"tenant": tenant, "batch_id": batch_id}
    return pa.Table.from_pylist([{**blank, **failure} for failure in failures], FAILURES)


def sessions_to(rows: Sequence[tuple[Mapping[str, str], Session]]) -> pa.Table:
    """(identity and content hash, session) pairs -> ``SESSION`` rows."""
    return pa.Table.from_pylist(
        [
            {
                **identity,
                "started_at": session.started_at,
                "session_turns": [
                    {"index": t.index, "speaker": t.speaker, "text": t.text, "time": t.time}
                    for t in session.turns
                ],
            }
            for identity, session in rows
        ],
        SESSION,
    )


def sessions_from(table: pa.Table) -> list[Session]:
    """``SESSION`` rows (or later ones) -> records, in order."""
    columns = table.select(["dialogue_id", "session_id", "started_at", "session_turns"]).to_pylist()
    return [
        Session(
            row["dialogue_id"],
            row["session_id"],
            row["started_at"],
            tuple(
                Turn(t["index"], t["speaker"], t["text"], t["time"]) for t in row["session_turns"]
            ),
        )
        for row in columns
    ]


def with_columns(
    table: pa.Table, schema: pa.Schema, values: Mapping[str, Sequence[Any]]
) -> pa.Table:
    """Append columns in the order and with the types of ``schema``; each new one is given."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.array(values[field.name], field.type))
    return table.select(schema.names)


def triplet_structs(triplets: Iterable[Triplet]) -> list[dict[str, Any]]:
    """Triplets as nested rows of ``EXTRACTED``."""
    return [
        {
            "subject": t.subject,
            "relation": t.relation,
            "object": t.object,
            "turn_index": t.turn_index,
        }
        for t in triplets
    ]


def triplets_from(table: pa.Table) -> list[tuple[Triplet, ...]]:
    """The triplets of each ``EXTRACTED`` row (or a later one), in order."""
    return [
        tuple(Triplet(t["subject"], t["relation"], t["object"], t["turn_index"]) for t in row)
        for row in table.column("triplets").to_pylist()
    ]


def nested(rows: pa.StructArray, lengths: Sequence[int]) -> pa.ListArray:
    """Rows of a whole batch -> one list a session, ``lengths[i]`` rows each."""
    offsets = pa.array([0, *accumulate(lengths)], pa.int32())
    return pa.ListArray.from_arrays(offsets, rows)


def struct_rows(kind: pa.StructType, values: Mapping[str, Any]) -> pa.StructArray:
    """Columns -> one struct array of the given type; an array (n, d) becomes a vector column."""
    columns = []
    for field in kind:
        value = values[field.name]
        if isinstance(value, np.ndarray) and value.ndim == 2:
            flat = pa.array(np.ascontiguousarray(value, dtype=np.float32).reshape(-1))
            columns.append(pa.FixedSizeListArray.from_arrays(flat, value.shape[1]))
        else:
            columns.append(pa.array(value, field.type))
    return pa.StructArray.from_arrays(columns, fields=list(kind))
