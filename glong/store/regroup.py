"""Stored rows back to built sessions: the reverse of :func:`glong.tables.explode`."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glong.store.layout import Layout
from glong.store.reading import Named, Scope, read_visible
from glong.tables import DATA_TABLES, built_schema, nested, row_types, stored_schemas, vector_type

__all__ = ["read_built", "regroup"]

_ORDER: Mapping[str, tuple[str, ...]] = {"turns": ("turn_index",), "edges": ("turn_index",)}
"""Within a session; rows that are equal in it keep the order in which they were read."""


def read_built(
    layout: Layout, manifest: pa.Table, *, without_vectors: int | None = None
) -> pa.Table:
    """The sessions of some manifest rows as rows of ``built_schema``, in the manifest's order.

    Args:
        layout: the store.
        manifest: rows of ``sessions``.
        without_vectors: leave vectors out; null ones of this dimension stand in their place.

    Raises:
        StoreError: the store cannot be read.
    """
    dialogues = tuple(pc.unique(manifest.column("dialogue_key")).to_pylist())
    named, scope = Named.of(manifest), Scope(dialogue_keys=dialogues)
    dimension = layout.meta.dimension if without_vectors is None else without_vectors
    rows = {}
    for table in DATA_TABLES:
        names = stored_schemas(dimension)[table].names
        if without_vectors is not None:
            names = [name for name in names if name != "vector"]
        rows[table] = read_visible(layout, table, scope, named, names)
    return regroup(manifest, rows, dimension)


def regroup(manifest: pa.Table, rows: Mapping[str, pa.Table], dimension: int) -> pa.Table:
    """Manifest rows and the rows of each data table -> rows of ``built_schema``.

    Rows of sessions that the manifest rows do not name are left out. Where a table has no vectors
    they are null.
    """
    keys = manifest.column("session_key").combine_chunks()
    columns = {
        name: _nested(rows[name], keys, kind, _ORDER.get(name, ()))
        for name, kind in row_types(dimension).items()
    }
    schema = built_schema(dimension)
    arrays = [columns[f.name] if f.name in columns else manifest.column(f.name) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _nested(
    rows: pa.Table, keys: pa.Array, kind: pa.StructType, order: Sequence[str]
) -> pa.ListArray:
    """One list of structs for each key."""
    rows = rows.append_column("place", pc.index_in(rows.column("session_key"), value_set=keys))
    rows = rows.filter(pc.is_valid(rows.column("place")))
    rows = rows.sort_by([(name, "ascending") for name in ("place", *order)])
    if "vector" not in rows.column_names and any(field.name == "vector" for field in kind):
        dimension = kind.field("vector").type.list_size
        rows = rows.append_column("vector", pa.nulls(rows.num_rows, vector_type(dimension)))
    lengths = np.bincount(rows.column("place").to_numpy(), minlength=len(keys))
    arrays = [rows.column(field.name).combine_chunks().cast(field.type) for field in kind]
    return nested(pa.StructArray.from_arrays(arrays, fields=list(kind)), lengths.tolist())
