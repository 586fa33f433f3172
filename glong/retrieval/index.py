"""One memory ready to be searched: its graph and what is computed of it once.

Shapes as in :mod:`glong.graph`: T turns, E edges, N entities.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from glong.entities import normalise
from glong.graph import MemoryGraph, slices
from glong.retrieval.lexical import Lexicon, Occurrences, numbered
from glong.retrieval.shadow import Shadow
from glong.retrieval.terms import count_first_person, proper_names, terms
from glong.retrieval.times import says_time
from glong.validity import Validity, intervals
from glong.words import word_list

__all__ = ["MemoryIndex", "closed_turns"]

Floats = NDArray[np.float32]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")  # also full-width, Arabic, Greek
_HUB = 4
"""Edges of an entity above which its own similarity says less about each of them."""
_DAY_S = 86_400.0


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
        beside: (T, 3) indices of the turns before, after, and two before in its session, -1 for
            none.
        around: (T,) length of each turn's vector with half of each neighbour's added.
        edge_order: (E,) edges sorted by turn.
        edge_starts: (T + 1,) place in ``edge_order`` of each turn's first edge.
        stating: turns that have edges, ascending.
        damping: (N,) factor of an entity's similarity, below 1 for hubs.
        speakers: lower-case words of a speaker's name -> (T,) whether they speak.
        form: name -> (T,) what a turn is like in itself.
        names: word with a capital letter -> (n,) turns that have it, ascending.
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
    beside: NDArray[np.int64]
    around: Floats
    edge_order: NDArray[np.int64]
    edge_starts: NDArray[np.int64]
    stating: NDArray[np.int64]
    damping: Floats
    speakers: dict[str, NDArray[np.bool_]]
    form: dict[str, Floats]
    names: dict[str, NDArray[np.int64]]
    weight: Floats
    closed: Floats
    shadow: Shadow
    one_sided: float

    def __post_init__(self) -> None:
        values = [getattr(self, f.name) for f in fields(self)]
        held = (self.speakers, self.form, self.names)
        for array in chain(values, *(arrays.values() for arrays in held)):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @classmethod
    def of(cls, graph: MemoryGraph) -> "MemoryIndex":
        """Index a graph."""
        session, n_sessions = _sessions(graph)
        beside = _beside(session)
        edge_order = np.argsort(graph.edge_turn, kind="stable")
        counts = np.bincount(graph.edge_turn, minlength=graph.n_turns)
        degree = np.diff(graph.offsets)
        validity = intervals(graph)
        weight = np.zeros(graph.n_turns, np.float32)
        np.maximum.at(weight, graph.edge_turn, graph.weights)
        n_words = np.array([len(text.split()) for text in graph.turn_texts], np.float32)
        speaks = _Speakers.of(graph)
        return cls(
            graph=graph,
            validity=validity,
            lexicon=_lexicon(graph, session, n_sessions, beside),
            said_s=_said(graph),
            session=session,
            n_sessions=n_sessions,
            beside=beside,
            around=_around(graph.turn_vectors, beside),
            edge_order=edge_order,
            edge_starts=np.concatenate([[0], np.cumsum(counts)]),
            stating=np.flatnonzero(counts),
            damping=np.sqrt(_HUB / np.maximum(_HUB, degree)).astype(np.float32),
            speakers=speaks.by_word(),
            form=_form(graph.turn_texts, n_words, beside[:, 0]),
            names=_names(graph.turn_texts),
            weight=weight,
            closed=closed_turns(graph, validity.closed_by < 0),
            shadow=Shadow.of(graph.turn_vectors, graph.edge_vectors),
            one_sided=speaks.one_sided(n_words),
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
        best = np.zeros(self.graph.n_turns, np.float32)
        if len(self.stating):
            first = self.edge_starts[self.stating]
            best[self.stating] = np.maximum.reduceat(values[self.edge_order], first)
        return best


def closed_turns(graph: MemoryGraph, holds: NDArray[np.bool_]) -> Floats:
    """(T,) 1 where a turn states facts and none of them holds."""
    n_stated = np.bincount(graph.edge_turn, minlength=graph.n_turns)
    n_holding = np.bincount(graph.edge_turn[holds], minlength=graph.n_turns)
    closed: Floats = ((n_stated > 0) & (n_holding == 0)).astype(np.float32)
    return closed


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


def _beside(session: NDArray[np.int64]) -> NDArray[np.int64]:
    """(T, 3) the turns before, after and two before within the session; -1 for none."""
    turns = np.arange(len(session))
    same = session[1:] == session[:-1]
    beside = np.full((len(session), 3), -1)
    beside[1:, 0][same] = turns[:-1][same]
    beside[:-1, 1][same] = turns[1:][same]
    inside = beside[:, 0] >= 0
    beside[inside, 2] = beside[beside[inside, 0], 0]
    return beside


def _around(vectors: Floats, beside: NDArray[np.int64]) -> Floats:
    spread = vectors + 0.5 * (_taken(vectors, beside[:, 0]) + _taken(vectors, beside[:, 1]))
    lengths: Floats = np.linalg.norm(spread, axis=1).clip(1e-6)
    return lengths


def _lexicon(
    graph: MemoryGraph, session: NDArray[np.int64], n_sessions: int, beside: NDArray[np.int64]
) -> Lexicon:
    vocabulary: dict[str, int] = {}
    heading = numbered(_headings(graph), vocabulary)
    own = numbered(map(terms, graph.turn_texts), vocabulary)
    facts = numbered(_facts(graph), vocabulary)
    stated = _moved(facts, graph.edge_turn.astype(np.int64), graph.n_turns)
    # What a turn says is said before the one after it, and after the one before it.
    sides = [_moved(own, beside[:, side], graph.n_turns) for side in (1, 0)]
    turns, near = _joined(heading, own, stated), _joined(heading, own, *sides)
    sessions = _moved(_joined(heading, own), session, n_sessions)
    return Lexicon.of(vocabulary, turns, near, sessions)


def _moved(found: Occurrences, places: NDArray[np.int64], n_documents: int) -> Occurrences:
    """The same terms in other documents: those of document i now in ``places[i]``, -1 for none."""
    documents = places[found.documents]
    kept = documents >= 0
    return Occurrences(documents[kept], found.terms[kept], n_documents)


def _joined(*parts: Occurrences) -> Occurrences:
    """The terms of several parts of the same documents."""
    documents = np.concatenate([part.documents for part in parts])
    joined = np.concatenate([part.terms for part in parts])
    return Occurrences(documents, joined, parts[0].n_documents)


def _headings(graph: MemoryGraph) -> Iterator[tuple[str, ...]]:
    """Date and speaker of each turn, as terms."""

    @cache
    def heading(day: float, speaker: str) -> tuple[str, ...]:
        date = "" if np.isinf(day) else f"{_EPOCH + timedelta(days=day):%d %B %Y}"
        return terms(f"{date.lstrip('0')} {speaker}")

    days = np.floor(graph.turn_times_s / _DAY_S)
    return map(heading, np.where(np.isnan(days), np.inf, days).tolist(), graph.turn_speakers)


def _facts(graph: MemoryGraph) -> Iterator[tuple[str, ...]]:
    """Each edge's subject, relation and object, as terms."""
    known = cache(terms)  # of this memory alone: what is forgotten must not stay in the process
    for names in zip(graph.subjects, graph.relations, graph.objects, strict=True):
        subject, relation, thing = names
        yield known(subject) + known(relation.replace("_", " ")) + known(thing)


def _names(texts: tuple[str, ...]) -> dict[str, NDArray[np.int64]]:
    """Turns by the words with a capital letter that they have."""
    found: dict[str, list[int]] = {}
    for turn, text in enumerate(texts):
        for name in proper_names(text):
            found.setdefault(name, []).append(turn)
    return {name: np.array(turns, np.int64) for name, turns in sorted(found.items())}


@dataclass(frozen=True, slots=True, eq=False)
class _Speakers:
    """Who speaks: different names, normalised, and (T,) the number of each turn's."""

    names: tuple[str, ...]
    numbers: NDArray[np.int64]

    @classmethod
    def of(cls, graph: MemoryGraph) -> "_Speakers":
        numbers: dict[str, int] = {}
        spelled = {
            spelling: numbers.setdefault(normalise(spelling), len(numbers))
            for spelling in dict.fromkeys(graph.turn_speakers)
        }
        found = [spelled[spelling] for spelling in graph.turn_speakers]
        return cls(tuple(numbers), np.array(found, np.int64))

    def by_word(self) -> dict[str, NDArray[np.bool_]]:
        """Each word of a speaker's name, where it is of one speaker alone -> who speaks."""
        owners: dict[str, set[int]] = {}
        for number, name in enumerate(self.names):
            for word in (name, *name.split()):
                owners.setdefault(word, set()).add(number)
        return {
            word: self.numbers == next(iter(who))
            for word, who in owners.items()
            if len(who) == 1 and word.strip("0123456789") and word not in word_list("stop_words")
        }

    def one_sided(self, n_words: Floats) -> float:
        """How far the share of words of who says most is above an equal share."""
        said = np.bincount(self.numbers, n_words.astype(np.float64))
        if not said.sum():
            return 0.0
        equal = 1 / max(2, len(said))
        return float((said.max() / said.sum() - equal) / (1 - equal))


def _form(texts: tuple[str, ...], n_words: Floats, before: NDArray[np.int64]) -> dict[str, Floats]:
    """What a turn is like, whatever is asked."""
    n_first = np.array([count_first_person(text) for text in texts], np.float32)
    asks = np.array([text.rstrip().endswith(_QUESTION_MARKS) for text in texts], np.float32)
    times = np.array([says_time(text) for text in texts], np.float32)
    return {
        "length": (np.log1p(n_words) / 4).astype(np.float32),
        "first_person": 5 * n_first / (1 + n_words),
        "asks": asks,
        "answers": _taken(asks, before),
        "says_time": times,
    }
