"""Rows of one dialogue -> :class:`~glong.graph.MemoryGraph`. Pure; knows nothing of Lance."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glong.errors import StoreError
from glong.graph import MemoryGraph
from glong.types import Vectors

__all__ = ["GRAPH_COLUMNS", "assemble_graph", "seconds", "vectors"]

GRAPH_COLUMNS = {
    "turns": (
        "turn_id", "turn_index", "session_id", "session_key", "speaker", "text", "time", "vector",
    ),
    "entities": ("entity_id", "name", "aliases", "session_key", "vector"),
    "edges": (
        "edge_id", "head_id", "tail_id", "subject", "relation", "object", "turn_index", "turn_id",
        "score", "weight", "created_at", "accessed_at", "session_key", "vector",
    ),
    "accesses": ("edge_id", "accessed_at"),
}  # fmt: skip
"""Table -> the columns that a graph is made of: each one that is left out saves a read."""


def assemble_graph(
    manifest: pa.Table, turns: pa.Table, entities: pa.Table, edges: pa.Table, accesses: pa.Table
) -> MemoryGraph:
    """The graph of one dialogue.

    Turns come by (session, index), edges by (session, turn, id), entities by first appearance. Rows
    of one entity (one a session) become one: the name and vector of the earliest session, the other
    names and all aliases as aliases.

    Args:
        manifest: its rows of ``sessions``, in order: ``session_key`` and ``started_at``.
        turns: its visible rows, in any order, as are the others; columns :data:`GRAPH_COLUMNS`.
        entities: one row a (session, entity).
        edges: its visible rows.
        accesses: the latest for an edge wins.

    Raises:
        StoreError: an edge names a turn or an entity that is not there.
    """
    turns = _ordered(turns, manifest, "turn_index", "turn_id")
    edges = _ordered(edges, manifest, "turn_index", "edge_id")
    entities = _ordered(entities, manifest, "entity_id")
    columns = _entity_columns(entities)
    entity_ids, turn_ids = columns["entity_ids"], turns.column("turn_id")
    return MemoryGraph(
        **columns,
        edge_ids=_texts(edges, "edge_id"),
        heads=_places(edges, "head_id", pa.array(entity_ids, pa.string())),
        tails=_places(edges, "tail_id", pa.array(entity_ids, pa.string())),
        subjects=_texts(edges, "subject"),
        relations=_texts(edges, "relation"),
        objects=_texts(edges, "object"),
        edge_vectors=vectors(edges),
        weights=_array(edges.column("weight"), np.float32),
        scores=_array(edges.column("score"), np.float64),
        created_s=seconds(edges.column("created_at")),
        accessed_s=_accessed_s(edges, accesses),
        edge_turn=_places(edges, "turn_id", turn_ids.combine_chunks()),
        turn_ids=_texts(turns, "turn_id"),
        turn_session_ids=_texts(turns, "session_id"),
        turn_indices=_array(turns.column("turn_index"), np.int32),
        turn_speakers=_texts(turns, "speaker"),
        turn_texts=_texts(turns, "text"),
        turn_times_s=seconds(pc.coalesce(turns.column("time"), turns.column("started_at"))),
        turn_vectors=vectors(turns),
    )


def _ordered(rows: pa.Table, manifest: pa.Table, *then_by: str) -> pa.Table:
    """Rows in the manifest's order of sessions, then by columns; the session's start added."""
    session = pc.index_in(
        rows.column("session_key"), value_set=manifest.column("session_key").combine_chunks()
    )
    rows = rows.append_column("session", session)
    rows = rows.append_column("started_at", manifest.column("started_at").take(session))
    return rows.sort_by([(name, "ascending") for name in ("session", *then_by)])


def _entity_columns(entities: pa.Table) -> dict[str, Any]:
    """Columns of the graph's entities, one for each id, from one row a (session, entity)."""
    encoded = pc.dictionary_encode(entities.column("entity_id")).combine_chunks()
    # The dictionary is in order of first appearance, so codes are the entities' indices.
    codes = encoded.indices.to_numpy()
    _, firsts = np.unique(codes, return_index=True)
    spellings: list[set[str]] = [set() for _ in firsts]
    names, aliases = _texts(entities, "name"), entities.column("aliases").to_pylist()
    for code, name, others in zip(codes, names, aliases, strict=True):
        spellings[code].update((name, *(others or ())))
    chosen = [names[first] for first in firsts]
    return {
        "entity_ids": tuple(encoded.dictionary.to_pylist()),
        "entity_names": tuple(chosen),
        "entity_aliases": tuple(
            tuple(sorted(found - {name})) for found, name in zip(spellings, chosen, strict=True)
        ),
        "entity_vectors": vectors(entities)[firsts],
    }


def _accessed_s(edges: pa.Table, accesses: pa.Table) -> NDArray[np.float64]:
    """The latest access of each edge, its own column included; NaN where there is none."""
    own = seconds(edges.column("accessed_at"))
    latest = accesses.group_by("edge_id").aggregate([("accessed_at", "max")])
    place = pc.index_in(
        edges.column("edge_id"), value_set=latest.column("edge_id").combine_chunks()
    )
    return np.fmax(own, seconds(latest.column("accessed_at_max").take(place)))


def _places(rows: pa.Table, column: str, values: pa.Array) -> NDArray[np.int32]:
    """Index of each row's value among ``values``."""
    places = pc.index_in(rows.column(column), value_set=values)
    if places.null_count:
        raise StoreError(
            f"{places.null_count} edges have a {column} that is not stored."
            " Run `python jobs/maintain_memory.py verify --store URI`."
        )
    return _array(places, np.int32)


def _texts(rows: pa.Table, column: str) -> tuple[str, ...]:
    values: Iterable[str] = rows.column(column).to_pylist()
    return tuple(values)


def _array(column: pa.ChunkedArray, dtype: type[np.generic]) -> NDArray[Any]:
    return np.asarray(column.to_numpy(), dtype=dtype)


def seconds(times: pa.ChunkedArray) -> NDArray[np.float64]:
    """Timestamps as seconds since 1970, NaN for null."""
    micros = pc.cast(pc.cast(times, pa.int64()), pa.float64(), safe=False)
    return np.asarray(pc.divide(micros, 1e6), dtype=np.float64)


def vectors(rows: pa.Table) -> Vectors:
    """The column ``vector`` as (rows, dimension) float32."""
    column = rows.column("vector")
    dimension: int = column.type.list_size
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.float32).reshape(-1, dimension)
