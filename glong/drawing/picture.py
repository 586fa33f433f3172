"""What of a memory is shown: the heaviest facts of all of it, or around hits or an entity. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glong.drawing.wording import fact_text, shorten, time_text
from glong.graph import MemoryGraph
from glong.types import Hit
from glong.validity import Validity, fact

__all__ = ["Link", "Node", "Picture", "picture_of"]

LONGEST_SAID = 300
"""Characters of a turn in the note of a fact."""


@dataclass(frozen=True, slots=True)
class Node:
    """An entity: its name, the sum of the weights of its shown facts, and whether it was asked."""

    name: str
    weight: float
    is_asked: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A fact.

    Attributes:
        head: place of the subject among the picture's nodes.
        tail: place of the object.
        relation: its label.
        weight: importance, in (0, 1].
        is_closed: a later fact closed it.
        is_hit: it answers the query.
        note: the fact, when and by whom it was said, in three lines at most.
    """

    head: int
    tail: int
    relation: str
    weight: float
    is_closed: bool
    is_hit: bool
    note: str


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn; ``n_left_out`` facts were lighter than all that are shown."""

    title: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    n_left_out: int
    hits: tuple[Hit, ...] = ()


def picture_of(
    graph: MemoryGraph,
    validity: Validity,
    title: str,
    *,
    max_links: int,
    hits: Sequence[Hit] = (),
    entity: int | None = None,
) -> Picture:
    """Choose what is shown.

    Args:
        graph: one memory.
        validity: its intervals.
        title: of the picture.
        max_links: facts at most; hits always come first, then the heaviest.
        hits: of a query: highlighted, and what touches them is shown instead of all.
        entity: show what touches this entity instead of all.
    """
    is_hit = np.isin(np.array(graph.edge_ids, str), [e.edge_id for hit in hits for e in hit.edges])
    asked = _asked(graph, is_hit, hits, entity)
    around = graph.incident(asked) if hits or entity is not None else np.arange(graph.n_edges)
    order = np.lexsort((around, -_interest(graph, asked)[around], ~is_hit[around]))
    shown = around[order[:max_links]]
    entities, places = np.unique(
        np.concatenate([graph.heads[shown], graph.tails[shown]]), return_inverse=True
    )
    heads, tails = places[: len(shown)], places[len(shown) :]
    weights = np.bincount(places, np.tile(graph.weights[shown], 2), len(entities))
    nodes = (
        Node(graph.entity_names[e], float(w), bool(e in asked))
        for e, w in zip(entities, weights, strict=True)
    )
    links = (
        _link(graph, validity, int(e), (int(h), int(t)), bool(is_hit[e]))
        for e, h, t in zip(shown, heads, tails, strict=True)
    )
    return Picture(title, tuple(nodes), tuple(links), len(around) - len(shown), tuple(hits))


def _asked(
    graph: MemoryGraph, is_hit: NDArray[np.bool_], hits: Sequence[Hit], entity: int | None
) -> NDArray[np.int64]:
    """The entities that the picture is about: of the hits' facts, else those who said the hits."""
    found = [] if entity is None else [entity]
    found += [*graph.heads[is_hit].tolist(), *graph.tails[is_hit].tolist()]
    if not found:
        speakers = {hit.turn.speaker for hit in hits}
        found = [i for i, name in enumerate(graph.entity_names) if name in speakers]
    return np.unique(np.array(found, dtype=np.int64))


def _interest(graph: MemoryGraph, asked: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weight of each edge; around asked entities, shared among all facts of its rarest one.

    A speaker has hundreds of facts: without it they would drown those of the thing asked about.
    """
    degrees = np.full(graph.n_entities, np.inf)
    degrees[asked] = np.maximum(np.diff(graph.offsets)[asked], 1)
    rarest = np.minimum(degrees[graph.heads], degrees[graph.tails])
    return np.where(np.isfinite(rarest), graph.weights / rarest, graph.weights)


def _link(
    graph: MemoryGraph, validity: Validity, edge: int, ends: tuple[int, int], is_hit: bool
) -> Link:
    record = fact(graph, validity, edge)
    turn = graph.turn(int(graph.edge_turn[edge]))
    said = f"{turn.speaker}, {time_text(turn.time)}: {shorten(turn.text, LONGEST_SAID)}"
    note = f"{fact_text(record)}\nweight {record.weight:.2f}\n{said}"
    return Link(*ends, record.relation, record.weight, bool(record.closed_by), is_hit, note)
