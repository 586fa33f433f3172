"""When each fact of a memory held: which later edge closes which earlier one. Pure.

An edge is never deleted; it may be closed (METHOD section 4):

- Of a *single-valued* relation a subject has one object at a time: a later, different object closes
  the earlier edge, the same object again does not. Multi-valued relations never retire each other.
- A *denial* ("does not live in Bergen", ``not_x``) closes the earlier fact of the same subject and
  object, and a later fact closes the denial.

Later means: by event time, ties by turn, then by edge id. An edge without a time stands where its
turn stands among the sessions: after all that comes before it.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from glong.entities import normalise
from glong.errors import NotFoundError
from glong.graph import MemoryGraph
from glong.relations import DENIAL, base_form, relations
from glong.types import Edge

__all__ = ["Validity", "entity_index", "fact", "history", "holds_at", "intervals"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SAME_VALUE = {
    "live_in": "live_in_citystatecountry",
    "be_live_in": "live_in_citystatecountry",
    "move_to": "live_in_citystatecountry",
    "live_at": "live_in_general",
    "live_on": "live_in_general",
    "work_at": "employed_by_company",
    "work_for": "employed_by_company",
    "be_employed_by": "employed_by_company",
    "study_at": "attend_school",
    "be_called": "name",
    "be_named": "name",
    "be_aged": "has_age",
    "be_bear_in": "place_origin",
    "be_raise_in": "place_origin",
    "come_from": "place_origin",
    "grow_up_in": "place_origin",
}
"""Open verbs that say just what a single-valued relation says. Of the listed synonyms only these:
most others (``be``, ``have``, ``like``, ``call``, ``stay_in``) take many objects at one time."""

VAGUE = ("like", "have")
"""Synonyms that gather listed relations where a denial meets a fact of the same object: "does not
like tea" denies ``like_drink`` and ``favorite_drink``, "has no car" denies ``have_vehicle``."""


@dataclass(frozen=True, slots=True, eq=False)
class Validity:
    """When each edge of a graph held; arrays are read-only.

    Attributes:
        from_s: float64 (E,), seconds since 1970 UTC; -inf where no time is known at or before it.
        to_s: float64 (E,), the start of the edge that closed it; inf where it still holds. Never
            before ``from_s``; equal to it if another turn of the same time closed the edge.
        closed_by: int32 (E,), index of the edge that closed it first; -1 where none did.
    """

    from_s: NDArray[np.float64]
    to_s: NDArray[np.float64]
    closed_by: NDArray[np.int32]

    def __post_init__(self) -> None:
        for array in (self.from_s, self.to_s, self.closed_by):
            array.setflags(write=False)


def intervals(graph: MemoryGraph) -> Validity:
    """From when to when each edge held: sorting only, E log E."""
    from_s = _starts(graph)
    order = np.lexsort((_id_ranks(graph), graph.edge_turn, from_s))
    rank = np.empty(graph.n_edges, dtype=np.int64)
    rank[order] = np.arange(graph.n_edges)
    closer = np.minimum(_replacing(graph, rank), _contradicting(graph, rank))
    closed = closer < graph.n_edges
    closed_by = np.full(graph.n_edges, -1, dtype=np.int32)
    closed_by[closed] = order[closer[closed]]
    to_s = np.where(closed, from_s[closed_by], np.inf)
    return Validity(from_s, to_s, closed_by)


def holds_at(validity: Validity, time_s: float) -> NDArray[np.bool_]:
    """Which edges hold at a time, in seconds since 1970 UTC: started by then, not yet closed."""
    return (validity.from_s <= time_s) & (time_s < validity.to_s)


def fact(graph: MemoryGraph, validity: Validity, index: int) -> Edge:
    """One edge as a record, with when it was closed and by which edge."""
    closer = int(validity.closed_by[index])
    if closer < 0:
        return graph.edge(index)
    to_s = float(validity.to_s[index])
    valid_to = _EPOCH + timedelta(seconds=to_s) if np.isfinite(to_s) else None
    return replace(graph.edge(index), valid_to=valid_to, closed_by=graph.edge_ids[closer])


def history(
    graph: MemoryGraph, validity: Validity, entity: str, relation: str | None = None
) -> tuple[Edge, ...]:
    """The facts of an entity, in and out, in order of time.

    Args:
        graph: one memory.
        validity: its :func:`intervals`.
        entity: its name, an alias, or its id; see :func:`entity_index`.
        relation: only facts of this relation in its other names, of its kinds (``like`` has
            ``like_food``) and of its denial; all if not given.

    Raises:
        NotFoundError: no such entity.
    """
    edges = graph.incident([entity_index(graph, entity)])
    if relation is not None:
        edges = edges[[_is_about(graph.relations[edge], relation) for edge in edges]]
    order = np.lexsort((_id_ranks(graph)[edges], graph.edge_turn[edges], validity.from_s[edges]))
    return tuple(fact(graph, validity, int(edge)) for edge in edges[order])


def _is_about(relation: str, asked: str) -> bool:
    """Whether a fact belongs to the history that was asked for; ``be`` is no other ``name``."""
    name = base_form(asked)
    (denies, states), (asks_denial, asked_states) = _stance(relation), _stance(asked)
    is_contrary = denies != asks_denial and bool(states & asked_states)
    is_kind_of = (name not in relations() or name in VAGUE) and bool(states & asked_states)
    same_slot = _slot(asked) != "" and _slot(asked) == _slot(relation)
    return base_form(relation) == name or is_contrary or is_kind_of or same_slot


def entity_index(graph: MemoryGraph, name: str) -> int:
    """The entity of a name or alias, spelled in any case, or of an id.

    Raises:
        NotFoundError: there is none; the message lists names that are like it.
    """
    wanted = normalise(name)
    named = {normalise(alias): i for i, row in enumerate(graph.entity_aliases) for alias in row}
    named |= {normalise(known): i for i, known in enumerate(graph.entity_names)}
    index = dict(zip(graph.entity_ids, range(graph.n_entities), strict=True)).get(name)
    if index is not None or wanted in named:
        return named[wanted] if index is None else index
    close = get_close_matches(name, graph.entity_names, n=5, cutoff=0.5)
    hint = f" Like it: {', '.join(map(repr, close))}." if close else ""
    raise NotFoundError(f"The memory has no entity {name!r} among {graph.n_entities}.{hint}")


def _starts(graph: MemoryGraph) -> NDArray[np.float64]:
    """Event times (E,); where there is none, the latest time of its own or an earlier turn."""
    known = np.where(np.isnan(graph.turn_times_s), -np.inf, graph.turn_times_s)
    latest = np.maximum.accumulate(known)
    missing = np.isnan(graph.created_s)
    starts = graph.created_s.copy()
    starts[missing] = latest[graph.edge_turn[missing]]
    return starts


def _id_ranks(graph: MemoryGraph) -> NDArray[np.int64]:
    ranks = np.empty(graph.n_edges, dtype=np.int64)
    ranks[sorted(range(graph.n_edges), key=graph.edge_ids.__getitem__)] = np.arange(graph.n_edges)
    return ranks


def _replacing(graph: MemoryGraph, rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rank of the edge that gives a single-valued relation another object; E where none does."""
    slots = _codes([_slot(relation) for relation in graph.relations])
    edges = np.flatnonzero(slots >= 0)
    groups = np.column_stack([graph.heads[edges], slots[edges]])
    return _closers(rank, edges, groups, graph.tails[edges])


def _contradicting(graph: MemoryGraph, rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rank of the edge that says the contrary of the same two entities; E where none does."""
    stances = [_stance(relation) for relation in graph.relations]
    # An edge stands once for each state that it may deny: "does not eat" is of eating and liking.
    edges = np.repeat(np.arange(graph.n_edges), [len(states) for _, states in stances])
    denies = np.array([denial for denial, _ in stances], dtype=bool)[edges]
    states = _codes([state for _, found in stances for state in sorted(found)])
    groups = np.column_stack([graph.heads[edges], graph.tails[edges], states])
    return _closers(rank, edges, groups, denies)


def _codes(names: list[str]) -> NDArray[np.int64]:
    """A number for each name, -1 for the empty one."""
    codes = {"": -1}
    return np.array([codes.setdefault(name, len(codes)) for name in names], dtype=np.int64)


def _closers(
    rank: NDArray[np.int64],
    edges: NDArray[np.int64],
    groups: NDArray[np.int64],
    values: NDArray[np.generic],
) -> NDArray[np.int64]:
    """Rank of the first later edge of the same group with another value; E where there is none.

    Args:
        rank: (E,) place of each edge in the order of time.
        edges: (M,) edge indices; an edge may stand in several groups.
        groups: (M, c) what an edge must share to close another.
        values: (M,) what must differ.

    Returns:
        int64 (E,), the lowest rank over an edge's groups.
    """
    closers = np.full(len(rank), len(rank), dtype=np.int64)
    if len(edges) < 2:
        return closers
    order = np.lexsort((rank[edges], *groups.T))
    edges, groups, values = edges[order], groups[order], values[order]
    same_group = (groups[1:] == groups[:-1]).all(axis=1)
    new_run = ~same_group | (values[1:] != values[:-1])
    run = np.concatenate([[0], np.cumsum(new_run)])
    starts = np.concatenate([[0], np.flatnonzero(new_run) + 1])
    # A run ends where the next one begins: a change of value if the group is the same, else an end.
    follows = np.append(starts[1:], 0)
    is_change = np.append(same_group[starts[1:] - 1], False)
    found = np.where(is_change, rank[edges[follows]], len(rank))
    np.minimum.at(closers, edges, found[run])
    return closers


@lru_cache(maxsize=65_536)
def _slot(relation: str) -> str:
    """The single-valued relation that an edge's relation is one value of; empty if of none."""
    base = base_form(relation)
    name = SAME_VALUE.get(base, base)
    listed = relations().get(name)
    return name if listed is not None and listed.single else ""


@lru_cache(maxsize=65_536)
def _stance(relation: str) -> tuple[bool, frozenset[str]]:
    """Whether a relation denies, and the states that it affirms or denies."""
    name = base_form(relation)
    if name in relations():
        denied = _negated(name)
        verbs = {s.removeprefix(DENIAL) for s in _synonyms(name) if s.startswith(DENIAL)}
        return bool(denied), _states(denied | verbs if denied else {name})
    meant = _meanings().get(name, ())
    denied = frozenset[str]().union(*meant)
    if name.startswith(DENIAL):
        denies, states = _stance(name.removeprefix(DENIAL))  # "does not hate" affirms
        return not denies, states | _states(denied)
    means_denial = bool(meant) and all(meant)  # "hate" is not listed; whatever it may mean denies
    return means_denial, _states(denied if means_denial else {name})


def _synonyms(name: str) -> frozenset[str]:
    return relations()[name].synonyms


def _negated(name: str) -> frozenset[str]:
    """The relations that a listed one denies, itself or by a denial that means the same."""
    own = {relations()[name].negates} - {""}
    meant = (relations()[s].negates for s in _synonyms(name) if s in relations())
    return frozenset(own or set(meant) - {""})


@cache
def _meanings() -> Mapping[str, list[frozenset[str]]]:
    """Synonym -> for each listed relation that it may mean, what that one denies."""
    found: dict[str, list[frozenset[str]]] = {}
    for name in relations():
        for synonym in _synonyms(name):
            found.setdefault(synonym, []).append(_negated(name))
    return found


def _states(names: AbstractSet[str]) -> frozenset[str]:
    return frozenset(map(_state, names))


def _state(name: str) -> str:
    """What an affirming relation says of its two entities, coarse enough to meet its denial."""
    name = SAME_VALUE.get(name, name)
    if name in SAME_VALUE.values():
        return name
    if name in relations():
        return next((verb for verb in VAGUE if verb == name or verb in _synonyms(name)), name)
    return "like" if name in _synonyms("like_general") else name
