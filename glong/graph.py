"""One dialogue's memory as frozen arrays: entities, edges, turns, and who touches whom.

Built once from the rows of a store (:func:`glong.store.read_graph`) or by hand in a test, then only
read: arrays are set read-only, so retrieval cannot change a graph that other requests share. Knows
nothing of stores, Arrow or models.

Shapes: N entities, E edges, T turns, d the encoder's dimension. Times are seconds since 1970 UTC as
float64, NaN where the data has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glong.types import Edge, Turn, Vectors

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["MemoryGraph", "slices"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryGraph:
    """A directed multigraph of facts with their source turns (METHOD.md, section 1).

    Attributes:
        entity_ids: N ids.
        entity_names: N display names, of the earliest session that names the entity.
        entity_aliases: N tuples of other spellings, sorted.
        entity_vectors: float32 (N, d), unit length.
        edge_ids: E ids.
        heads: int32 (E,), index of the subject's entity.
        tails: int32 (E,), index of the object's entity.
        subjects: E display names as the source session spelled them.
        relations: E relations.
        objects: E display names as the source session spelled them.
        edge_vectors: float32 (E, d), unit length.
        weights: float32 (E,), importance w in (0, 1], equation (3).
        scores: float64 (E,), raw S, equation (2).
        created_s: float64 (E,), event time.
        accessed_s: float64 (E,), last retrieval, else event time.
        edge_turn: int32 (E,), index of the source turn.
        turn_ids: T ids.
        turn_session_ids: T ids of the turns' sessions.
        turn_indices: int32 (T,), position within the session, from 0.
        turn_speakers: T names as displayed.
        turn_texts: T texts.
        turn_times_s: float64 (T,), the turn's time, else its session's start.
        turn_vectors: float32 (T, d), unit length.
        offsets: int64 (N + 1,), CSR: entity i has ``incident_edges[offsets[i]:offsets[i + 1]]``.
        incident_edges: int32, edge indices by entity, in and out, ascending; a self-loop once.

    Raises:
        ValueError: an array has another length or an index points outside.
    """

    entity_ids: tuple[str, ...]
    entity_names: tuple[str, ...]
    entity_aliases: tuple[tuple[str, ...], ...]
    entity_vectors: Vectors
    edge_ids: tuple[str, ...]
    heads: NDArray[np.int32]
    tails: NDArray[np.int32]
    subjects: tuple[str, ...]
    relations: tuple[str, ...]
    objects: tuple[str, ...]
    edge_vectors: Vectors
    weights: NDArray[np.float32]
    scores: NDArray[np.float64]
    created_s: NDArray[np.float64]
    accessed_s: NDArray[np.float64]
    edge_turn: NDArray[np.int32]
    turn_ids: tuple[str, ...]
    turn_session_ids: tuple[str, ...]
    turn_indices: NDArray[np.int32]
    turn_speakers: tuple[str, ...]
    turn_texts: tuple[str, ...]
    turn_times_s: NDArray[np.float64]
    turn_vectors: Vectors
    offsets: NDArray[np.int64] = field(init=False)
    incident_edges: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        _check_lengths(
            "entity", self.n_entities, self.entity_names, self.entity_aliases, self.entity_vectors
        )
        names = (self.subjects, self.relations, self.objects)
        times = (self.created_s, self.accessed_s)
        ends = (self.heads, self.tails, self.edge_turn)
        values = (self.edge_vectors, self.weights, self.scores)
        _check_lengths("edge", self.n_edges, *names, *times, *ends, *values)
        speech = (self.turn_speakers, self.turn_texts, self.turn_times_s, self.turn_vectors)
        _check_lengths("turn", self.n_turns, self.turn_session_ids, self.turn_indices, *speech)
        _check_range("heads", self.heads, self.n_entities)
        _check_range("tails", self.tails, self.n_entities)
        _check_range("edge_turn", self.edge_turn, self.n_turns)
        offsets, incident_edges = _adjacency(self.heads, self.tails, self.n_entities)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "incident_edges", incident_edges)
        for array in self._arrays():
            array.setflags(write=False)

    @property
    def n_entities(self) -> int:
        """N."""
        return len(self.entity_ids)

    @property
    def n_edges(self) -> int:
        """E."""
        return len(self.edge_ids)

    @property
    def n_turns(self) -> int:
        """T."""
        return len(self.turn_ids)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; texts are left out."""
        return sum(array.nbytes for array in self._arrays())

    def _arrays(self) -> list[NDArray[np.generic]]:
        values = (getattr(self, f.name) for f in fields(self))
        return [value for value in values if isinstance(value, np.ndarray)]

    def incident(self, entities: ArrayLike) -> NDArray[np.int64]:
        """Edges in or out of any of the entities.

        Args:
            entities: entity indices, any order, repeats allowed.

        Returns:
            Edge indices, ascending, each once.
        """
        chosen = np.asarray(entities, dtype=np.int64).ravel()
        places, _ = slices(self.offsets[chosen], self.offsets[chosen + 1])
        touched = np.zeros(self.n_edges, np.bool_)
        touched[self.incident_edges[places]] = True
        return np.flatnonzero(touched)

    def edge(self, index: int) -> Edge:
        """One edge as a record."""
        turn = int(self.edge_turn[index])
        return Edge(
            edge_id=self.edge_ids[index],
            subject=self.subjects[index],
            relation=self.relations[index],
            object=self.objects[index],
            weight=float(self.weights[index]),
            created_at=_time(self.created_s[index]),
            accessed_at=_time(self.accessed_s[index]),
            session_id=self.turn_session_ids[turn],
            turn_index=int(self.turn_indices[turn]),
        )

    def turn(self, index: int) -> Turn:
        """One turn as a record; its time is the session's start where the turn has none."""
        return Turn(
            int(self.turn_indices[index]),
            self.turn_speakers[index],
            self.turn_texts[index],
            _time(self.turn_times_s[index]),
        )

    def to_networkx(self) -> "nx.MultiDiGraph[str]":
        """The same graph for networkx: nodes by entity id, parallel edges kept, keyed by edge id.

        Nodes carry ``name`` and ``aliases``; edges ``relation``, ``weight``, ``created_at`` and
        ``accessed_at`` (aware datetimes, or ``None`` where the data has no time).
        """
        import networkx as nx

        graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
        for entity, name, aliases in zip(
            self.entity_ids, self.entity_names, self.entity_aliases, strict=True
        ):
            graph.add_node(entity, name=name, aliases=aliases)
        for i, edge_id in enumerate(self.edge_ids):
            graph.add_edge(
                self.entity_ids[self.heads[i]],
                self.entity_ids[self.tails[i]],
                key=edge_id,
                relation=self.relations[i],
                weight=float(self.weights[i]),
                created_at=_time(self.created_s[i]),
                accessed_at=_time(self.accessed_s[i]),
            )
        return graph


def slices(
    starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All places of the slices ``starts[i]`` to ``ends[i]``, and for each place its i."""
    counts = ends - starts
    owners = np.repeat(np.arange(len(counts)), counts)
    # A running count, shifted at each slice to its start.
    shifts = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return shifts + np.arange(counts.sum()), owners


def _time(seconds: float) -> datetime | None:
    """Seconds since 1970 -> UTC; by addition, so that years before 1970 work on every platform."""
    return None if np.isnan(seconds) else _EPOCH + timedelta(seconds=float(seconds))


def _check_lengths(kind: str, n: int, *columns: Sequence[object] | NDArray[np.generic]) -> None:
    lengths = {len(column) for column in columns}
    if lengths != {n}:
        raise ValueError(
            f"{kind} columns have lengths {sorted(lengths)}; allowed: {n}, that of the ids."
        )


def _check_range(name: str, indices: NDArray[np.int32], n: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= n):
        raise ValueError(f"{name} spans {indices.min()} to {indices.max()}; allowed: 0 to {n - 1}.")


def _adjacency(
    heads: NDArray[np.int32], tails: NDArray[np.int32], n_entities: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """CSR of entity -> incident edges: a stable sort of (endpoint, edge) pairs by endpoint."""
    edges = np.arange(len(heads), dtype=np.int32)
    other = heads != tails  # a self-loop counts once
    endpoints = np.concatenate([heads, tails[other]])
    incident = np.concatenate([edges, edges[other]])
    order = np.lexsort((incident, endpoints))
    offsets = np.zeros(n_entities + 1, dtype=np.int64)
    np.cumsum(np.bincount(endpoints, minlength=n_entities), out=offsets[1:])
    return offsets, incident[order]
