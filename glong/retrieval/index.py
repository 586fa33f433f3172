"""One memory ready to be searched: its graph and what is computed of it once.

Shapes as in :mod:`glong.graph`: T turns, E edges, N entities.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from glong.entities import normalise
from glong.graph import MemoryGraph, slices
from glong.retrieval.lexical import Lexicon
from glong.retrieval.shadow import Shadow
from glong.retrieval.terms import proper_names, terms
from glong.retrieval.times import says_time
from glong.validity import Validity, intervals
from glong.words import word_list

__all__ = ["FIRST_PERSON", "MemoryIndex", "best_of_groups"]

Floats = NDArray[np.float32]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_PERSON = re.compile(r"(?i:\b(?:i|my|me|mine|we|our)\b)|\b[Uu]s\b")  # not the US
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")  # also full-width, Arabic, Greek
_HUB = 4
"""Edges of an entity above which its own similarity says less about each of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryIndex:
    """What every query over one graph shares; made once a graph, then only read.

    Attributes:
        graph: the memory.
        validity: when each fact held.
        lexicon: collections 0: turns with their triplets, 1: turns with their neighbours,
            2: sessions.
        said_s: (T,) time of each turn; where it has none, the latest before it, or -inf.
        session: (T,) number of each turn's session, in order of the turns.
        n_sessions: how many.
        before: (T,) index of the turn before in its session, -1 for none.
        after: (T,) index of the turn after in its session, -1 for none.
        around: (T,) length of each turn's vector with half of each neighbour's added.
        edge_order: (E,) edges sorted by turn.
        edge_starts: (T + 1,) place in ``edge_order`` of each turn's first edge.
        damping: (N,) factor of an entity's similarity, below 1 for hubs.
        speakers: lower-case words of a speaker's name -> (T,) whether they speak.
        form: name -> (T,) what a turn is like in itself.
        names: (T,) words with a capital letter.
        weight: (T,) the largest weight among a turn's edges; 0 without.
        closed: (T,) 1 where later facts closed every edge of the turn.
        shadow: cosines of all turns and edges, short of exact in a large memory.
        one_sided: 0 where speakers say as much as one another, 1 where one says everything; what
            helps to find a turn differs between a talk of friends and a session with an assistant.
    """

    graph: MemoryGraph
    validity: Validity
    lexicon: Lexicon
    said_s: NDArray[np.float64]
    session: NDArray[np.int64]
    n_sessions: int
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    around: Floats
    edge_order: NDArray[np.int64]
    edge_starts: NDArray[np.int64]
    damping: Floats
    speakers: dict[str, NDArray[np.bool_]]
    form: dict[str, Floats]
    names: tuple[frozenset[str], ...]
    weight: Floats
    closed: Floats
    shadow: Shadow
    one_sided: float

    def __post_init__(self) -> None:
        values = [getattr(self, f.name) for f in fields(self)]
        for array in (*values, *self.speakers.values(), *self.form.values()):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @classmethod
    def of(cls, graph: MemoryGraph) -> "MemoryIndex":
        """Index a graph."""
        session, n_sessions = _sessions(graph)
        before, after = _neighbours(session)
        edge_order = np.argsort(graph.edge_turn, kind="stable")
        counts = np.bincount(graph.edge_turn, minlength=graph.n_turns)
        spread = graph.turn_vectors + 0.5 * (
            _taken(graph.turn_vectors, before) + _taken(graph.turn_vectors, after)
        )
        degree = np.diff(graph.offsets)
        starts = np.concatenate([[0], np.cumsum(counts)])
        validity = intervals(graph)
        holds = (validity.closed_by < 0).astype(np.float32)
        none_holds = best_of_groups(holds, edge_order, starts) == 0
        return cls(
            graph=graph,
            validity=validity,
            lexicon=_lexicon(graph, session, before, after, edge_order, counts),
            said_s=_said(graph),
            session=session,
            n_sessions=n_sessions,
            before=before,
            after=after,
            around=np.linalg.norm(spread, axis=1).clip(1e-6),
            edge_order=edge_order,
            edge_starts=starts,
            damping=np.sqrt(_HUB / np.maximum(_HUB, degree)).astype(np.float32),
            speakers=_speakers(graph),
            form=_form(graph, before),
            names=tuple(proper_names(text) for text in graph.turn_texts),
            weight=best_of_groups(graph.weights, edge_order, starts),
            closed=(none_holds & (counts > 0)).astype(np.float32),
            shadow=Shadow.of(graph.turn_vectors, graph.edge_vectors),
            one_sided=_one_sided(graph),
        )

    def edges_of(self, turn: int) -> NDArray[np.int64]:
        """The edges that a turn states, in order."""
        start, end = self.edge_starts[turn], self.edge_starts[turn + 1]
        return self.edge_order[start:end]

    def edges_of_all(self, turns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The edges of several turns, and for each the position of its turn among them."""
        places, owners = slices(self.edge_starts[turns], self.edge_starts[turns + 1])
        return self.edge_order[places], owners

    def best_edge(self, values: Floats) -> Floats:
        """(T,) the largest of (E,) values among each turn's edges; 0 for a turn without."""
        return best_of_groups(values, self.edge_order, self.edge_starts)


def best_of_groups(values: Floats, order: NDArray[np.int64], starts: NDArray[np.int64]) -> Floats:
    """The largest value of each group of ``values[order]``; 0 for an empty one.

    Args:
        values: (n,).
        order: (n,) values sorted by group.
        starts: (n_groups + 1,) first place of each group in the order.
    """
    best = np.zeros(len(starts) - 1, np.float32)
    has_any = starts[1:] > starts[:-1]
    if has_any.any():
        best[has_any] = np.maximum.reduceat(values[order], starts[:-1][has_any])
    return best


def _taken(values: NDArray[np.float32], places: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rows at the places; zeros where the place is -1."""
    if not len(values):
        return values
    taken: NDArray[np.float32] = values[places]
    taken[places < 0] = 0
    return taken


def _said(graph: MemoryGraph) -> NDArray[np.float64]:
    times = graph.turn_times_s
    latest = np.maximum.accumulate(np.where(np.isnan(times), -np.inf, times))
    return np.where(np.isnan(times), latest, times)


def _sessions(graph: MemoryGraph) -> tuple[NDArray[np.int64], int]:
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(one, len(numbers)) for one in graph.turn_session_ids]
    return np.array(found, dtype=np.int64), len(numbers)


def _neighbours(session: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index of the turn before and after within the session; -1 for none."""
    n = len(session)
    before, after = np.arange(n) - 1, np.arange(n) + 1
    changes = session[1:] != session[:-1]
    before[1:][changes] = -1
    after[:-1][changes] = -1
    if n:
        after[-1] = -1
    return before, after


def _lexicon(
    graph: MemoryGraph,
    session: NDArray[np.int64],
    before: NDArray[np.int64],
    after: NDArray[np.int64],
    edge_order: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> Lexicon:
    said = [terms(text) for text in graph.turn_texts]
    facts = [
        terms(f"{graph.subjects[i]} {graph.relations[i].replace('_', ' ')} {graph.objects[i]}")
        for i in edge_order
    ]
    turns, near = [], []
    sessions: list[list[str]] = [[] for _ in range(int(session.max()) + 1 if len(session) else 0)]
    done = 0
    for turn, own in enumerate(said):
        stated = [t for fact in facts[done : done + counts[turn]] for t in fact]
        done += counts[turn]
        headed = [*_heading(graph, turn), *own]
        turns.append([*headed, *stated])
        sides = [said[side] for side in (before[turn], after[turn]) if side >= 0]
        near.append([*headed, *(t for side in sides for t in side)])
        sessions[session[turn]] += headed
    return Lexicon.of(turns, near, sessions)


def _heading(graph: MemoryGraph, turn: int) -> Sequence[str]:
    """Date and speaker, as terms."""
    time_s = graph.turn_times_s[turn]
    day = "" if np.isnan(time_s) else f"{_EPOCH + timedelta(seconds=float(time_s)):%d %B %Y}"
    return terms(f"{day.lstrip('0')} {graph.turn_speakers[turn]}")


def _speakers(graph: MemoryGraph) -> dict[str, NDArray[np.bool_]]:
    """Each word of a speaker's name, where it is of one speaker alone -> who speaks."""
    names = np.array([normalise(name) for name in graph.turn_speakers])
    owners: dict[str, set[str]] = {}
    for name in dict.fromkeys(names.tolist()):
        for word in (name, *name.split()):
            owners.setdefault(word, set()).add(name)
    return {
        word: names == next(iter(who))
        for word, who in owners.items()
        if len(who) == 1 and word.strip("0123456789") and word not in word_list("stop_words")
    }


def _form(graph: MemoryGraph, before: NDArray[np.int64]) -> dict[str, Floats]:
    """What a turn is like, whatever is asked."""
    texts = graph.turn_texts
    n_words = np.array([len(text.split()) for text in texts], np.float32)
    n_first = np.array([len(FIRST_PERSON.findall(text)) for text in texts], np.float32)
    asks = np.array([text.rstrip().endswith(_QUESTION_MARKS) for text in texts], np.float32)
    times = np.array([says_time(text) for text in texts], np.float32)
    return {
        "length": (np.log1p(n_words) / 4).astype(np.float32),
        "first_person": 5 * n_first / (1 + n_words),
        "asks": asks,
        "answers": _taken(asks, before),
        "says_time": times,
    }


def _one_sided(graph: MemoryGraph) -> float:
    """How far the share of words of who says most is above an equal share."""
    said: Counter[str] = Counter()
    for speaker, text in zip(graph.turn_speakers, graph.turn_texts, strict=True):
        said[normalise(speaker)] += len(text.split())
    if not said.total():
        return 0.0
    equal = 1 / max(2, len(said))
    return (max(said.values()) / said.total() - equal) / (1 - equal)
