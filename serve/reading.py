"""The read side of a replica: graphs from the store, questions to them, lists. No Ray, no HTTP.

Everything here blocks and runs in a thread. Graphs are frozen, so threads share them.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glong.config import PROFILES
from glong.errors import NotFoundError
from glong.graph import MemoryGraph
from glong.ids import dialogue_key
from glong.memory import hit_of
from glong.retrieval import MemoryIndex, Query, part_factors, retrieve
from glong.store import Store
from glong.store.layout import translated
from glong.types import Edge, Hit, Retrieval
from glong.validity import fact
from serve.cache import Stamp, is_new
from serve.records import Answered, Ask, Document

__all__ = ["Held", "Reader", "edge_document", "hit_document"]

_SIGNATURE = ("session_key", "batch_id")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIALOGUE = ("dialogue_id", "n_sessions", "n_turns", "n_edges", "first_at", "last_at")
_SESSION = (
    "session_id", "started_at", "status", "n_turns", "n_triplets", "n_edges", "n_entities",
    "n_failures",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """One memory in the cache.

    Attributes:
        index: its graph, ready to be searched.
        stamp: versions of the store's tables when it was last compared with them.
        signature: the rows that it was made from; equal ones give an equal graph.
        nbytes: what it weighs.
        load_s: how long the load took.
    """

    index: MemoryIndex
    stamp: Stamp
    signature: frozenset[tuple[str, ...]]
    nbytes: int
    load_s: float


class Reader:
    """Reads one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._manifest = store.layout.dataset("sessions")

    def stamp(self) -> Stamp:
        """Version of the manifest, which names every row that a memory is made of.

        Of the latest commit, since it lists the table's versions each time.

        Raises:
            StoreError: the store cannot be read.
        """
        with translated(f"find the latest version of the store {self.store.uri}"):
            return (int(self._manifest.latest_version),)

    def load(self, tenant: str, dialogue_id: str, held: Held | None) -> Held:
        """The memory as it is now; the held one with a new stamp if nothing of it has changed.

        Raises:
            NotFoundError: the tenant has no such dialogue.
            StoreError: the store cannot be read.
        """
        began_s = perf_counter()
        stamp = self.stamp()
        key = dialogue_key(tenant, dialogue_id)
        signature = self._signature(key, stamp[0])
        if held is not None and held.signature == signature:
            return Held(held.index, stamp, signature, held.nbytes, 0.0)
        graph = self.store.read_graph(tenant, dialogue_id, stamp[0])
        index = MemoryIndex.of(graph)
        return Held(index, stamp, signature, _weight(index), perf_counter() - began_s)

    def changed(self, held: Mapping[str, Held | None]) -> list[str]:
        """Keys of those memories that the store has otherwise now, or no more.

        Raises:
            StoreError: the store cannot be read.
        """
        version = self.stamp()[0]
        return [
            key
            for key, one in held.items()
            if one and one.signature != self._signature(key, version)
        ]

    def _signature(self, key: str, version: int) -> frozenset[tuple[str, ...]]:
        """What the manifest says of one dialogue: forgetting and facts by hand change it too."""
        rows = self.store.visible(
            "sessions", dialogue_key=key, version=version, columns=list(_SIGNATURE)
        )
        return frozenset(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    def answer_held(self, held: Held | None, ask: Ask) -> Answered | None:
        """The answer from a memory that is as new as the store; ``None`` if it has to be loaded.

        Raises:
            StoreError: the store cannot be read.
        """
        began_s = perf_counter()
        if held is None or not is_new(held.stamp, self.stamp()):
            return None
        return self.answered(held, ask, perf_counter() - began_s)

    @classmethod
    def answered(cls, held: Held, ask: Ask, graph_s: float) -> Answered:
        """The answer with what it took, of which ``graph_s`` seconds to get the memory."""
        began_s = perf_counter()
        retrieval = cls.answer(held, ask)
        timings_ms = {"graph": 1000 * graph_s, "search": 1000 * (perf_counter() - began_s)}
        return Answered(retrieval, timings_ms, cls.factors(held, ask.question.profile))

    @staticmethod
    def answer(held: Held, ask: Ask) -> Retrieval:
        """The k memories that answer best; nothing is noted, nothing changes."""
        asked = ask.question
        query = Query(
            text=asked.query,
            vector=ask.vector,
            now_s=ask.now.timestamp(),
            recent=asked.recent,
            as_of_s=asked.as_of.timestamp() if asked.as_of else None,
        )
        graph = held.index.graph
        scored = retrieve(held.index, query, PROFILES[asked.profile].at_k(asked.k))
        hits = tuple(hit_of(graph, item, held.index.validity) for item in scored)
        return Retrieval(hits, held.stamp[0])

    @staticmethod
    def factors(held: Held, profile: str) -> dict[str, float]:
        """Part of a score -> its factor, for the memory and a profile."""
        return dict(part_factors(held.index, PROFILES[profile]))

    def touched(self, held: Held, retrieval: Retrieval, now: datetime) -> Held:
        """The same memory with the hits' triplets accessed now, as the next load would have it."""
        graph = held.index.graph
        used = {edge.edge_id for hit in retrieval.hits for edge in hit.edges}
        places = [i for i, edge_id in enumerate(graph.edge_ids) if edge_id in used]
        accessed_s = graph.accessed_s.copy()
        accessed_s[places] = np.fmax(accessed_s[places], now.timestamp())
        index = replace(held.index, graph=replace(graph, accessed_s=accessed_s))
        return replace(held, index=index)

    def dialogues(self, tenant: str, search: str, after: str, limit: int) -> Document:
        """A page of the tenant's dialogues by id, those only whose id has ``search`` in it."""
        rows = self.store.dialogues(tenant).select(list(_DIALOGUE))
        if search:
            rows = rows.filter(
                pc.match_substring(rows.column("dialogue_id"), search, ignore_case=True)
            )
        rows = rows.filter(pc.greater(rows.column("dialogue_id"), after)) if after else rows
        return _page(rows, "dialogues", "dialogue_id", limit)

    def sessions(self, tenant: str, dialogue_id: str, after: str, limit: int) -> Document:
        """A page of a dialogue's sessions, by start; ``after`` is a session's id.

        Raises:
            NotFoundError: no such dialogue, or ``after`` is none of its sessions.
        """
        rows = self.store.sessions_of(tenant, dialogue_id).select(list(_SESSION))
        if after:
            place = pc.index(rows.column("session_id"), after).as_py()
            if place < 0:
                raise NotFoundError(f"after is {after!r}; allowed: the id of a session.")
            rows = rows.slice(place + 1)
        return _page(rows, "sessions", "session_id", limit)

    def graph(self, dialogue_id: str, held: Held) -> Document:
        """Nodes and edges of one memory."""
        graph = held.index.graph
        nodes = [_node(graph, i) for i in range(graph.n_entities)]
        edges = [_graph_edge(held, i) for i in range(graph.n_edges)]
        return {
            "dialogue_id": dialogue_id,
            "nodes": nodes,
            "edges": edges,
            "n_turns": graph.n_turns,
            "store_version": held.stamp[0],
        }


def _page(rows: pa.Table, name: str, cursor: str, limit: int) -> Document:
    page = rows.slice(0, limit).to_pylist()
    return {name: page, "next": page[-1][cursor] if rows.num_rows > limit else None}


def _node(graph: MemoryGraph, i: int) -> Document:
    return {
        "id": graph.entity_ids[i],
        "name": graph.entity_names[i],
        "aliases": list(graph.entity_aliases[i]),
        "n_edges": int(graph.offsets[i + 1] - graph.offsets[i]),
    }


def _graph_edge(held: Held, i: int) -> Document:
    graph = held.index.graph
    edge = fact(graph, held.index.validity, i)
    from_s = float(held.index.validity.from_s[i])
    return edge_document(edge) | {
        "head": graph.entity_ids[graph.heads[i]],
        "tail": graph.entity_ids[graph.tails[i]],
        "valid_from": _EPOCH + timedelta(seconds=from_s) if np.isfinite(from_s) else None,
        "turn": _turn_document(
            Hit(graph.turn(int(graph.edge_turn[i])), edge.session_id, (edge,), 0.0)
        ),
    }


def edge_document(edge: Edge) -> Document:
    """As ``EdgeOut``."""
    names = (
        "subject", "relation", "object", "weight", "created_at", "accessed_at", "valid_to",
        "session_id", "turn_index",
    )  # fmt: skip
    values = {name: getattr(edge, name) for name in names}
    return {"id": edge.edge_id, **values, "closed_by": edge.closed_by or None}


def _turn_document(hit: Hit) -> Document:
    turn = hit.turn
    return {
        "session_id": hit.session_id,
        "index": turn.index,
        "speaker": turn.speaker,
        "text": turn.text,
        "time": turn.time,
    }


def hit_document(hit: Hit) -> Document:
    """As ``HitOut``."""
    return {
        "subject": hit.subject,
        "relation": hit.relation,
        "object": hit.object,
        "score": hit.score,
        "parts": dict(hit.parts),
        "edges": [edge_document(edge) for edge in hit.edges],
        "turn": _turn_document(hit),
    }


def _weight(value: object, seen: set[int] | None = None) -> int:
    """Bytes of a value with what it holds; an array that stands twice counts once."""
    seen = set() if seen is None else seen
    if isinstance(value, np.ndarray):
        known = id(value) in seen
        seen.add(id(value))
        return 0 if known else value.nbytes + 112
    own = sys.getsizeof(value, 64)
    if is_dataclass(value):
        return own + sum(_weight(getattr(value, field.name), seen) for field in fields(value))
    if hasattr(value, "__dict__"):
        return own + _weight(vars(value), seen)
    if isinstance(value, Mapping):
        return own + sum(_weight(k, seen) + _weight(v, seen) for k, v in value.items())
    if isinstance(value, tuple | list | set | frozenset):
        return own + sum(_weight(one, seen) for one in value)
    return own
