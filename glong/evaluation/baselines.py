"""Baselines over the very same turns, triplets and vectors as our own retrieval.

BM25, dense and their untuned sum are the recipes of METHOD section 5; HippoRAG's personalised
PageRank is in :mod:`~glong.evaluation.hipporag`. Each is made once a memory, then asked: a
:data:`Ranker` takes a query, and what it returns gives as many memories as one wants.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from glong.graph import MemoryGraph
from glong.retrieval import MemoryIndex, Query, Scored

__all__ = [
    "BASELINE_SETTINGS",
    "BM25",
    "BaselineSettings",
    "Found",
    "Method",
    "Ranker",
    "bm25",
    "by_score",
    "dense",
    "neighbour_sum",
    "stem",
    "tokens",
    "turn_key",
    "turns_hybrid",
]

Found = Callable[[int], list[Scored]]
"""Number of memories -> them, best first; fewer where there are fewer."""
Ranker = Callable[[Query], Found]
Method = Callable[[MemoryIndex], Ranker]
"""Made of one memory once; what it then needs for a query is counted as its latency."""

Scores = NDArray[np.float64]
"""(n_turns,) a score for each turn of a memory."""

K1, B = 1.5, 0.75
_TOKEN = re.compile(r"[a-z0-9']+")
_SUFFIXES = ("ing", "ed", "ies", "es", "s", "ly")
MIN_STEM = 3
_STOPPED = """
a about after all also am an and any are as at be because been before being but by can could did
do does doing for from had has have having he her hers him his how i if in into is it its itself
just me more most my no not of off on once only or other our ours out over own same she should so
some such than that the their theirs them then there these they this those through to too under
until up us very was we were what when where which while who whom why will with would you your
yours"""
STOP_WORDS = frozenset(_STOPPED.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSettings:
    """What the recipes of METHOD section 5 set by data set.

    Attributes:
        dated: BM25's key begins with the date of the turn.
        dense_share: factor of the dense cosine in ``turns_hybrid``.
        neighbour_share: part of the sum of the turns before and after.
    """

    dated: bool
    dense_share: float
    neighbour_share: float


BASELINE_SETTINGS = {
    "locomo": BaselineSettings(dated=True, dense_share=0.5, neighbour_share=0.4),
    "longmemeval": BaselineSettings(dated=False, dense_share=1.0, neighbour_share=0.0),
    "msc": BaselineSettings(dated=False, dense_share=0.5, neighbour_share=0.4),
}
"""MSC was not measured before: it takes LoCoMo's, without dates, which are nominal there."""


def by_score(scores: Scores) -> Found:
    """The turns by score, ties in turn order; each is a memory."""
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return lambda n: [Scored(turn, (), float(scores[turn]), {}) for turn in order[:n]]


def stem(word: str) -> str:
    """A word without the first English ending that leaves at least ``MIN_STEM`` letters."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= MIN_STEM:
            return word[: -len(suffix)] + ("y" if suffix == "ies" else "")
    return word


def tokens(text: str) -> list[str]:
    """Stems of the words ``[a-z0-9']+``, stop words left out."""
    return [stem(word) for word in _TOKEN.findall(text.lower()) if word not in STOP_WORDS]


def turn_key(graph: MemoryGraph, turn: int, dated: bool) -> str:
    """``date speaker: text``, or without the date where there is none or none is wanted."""
    said = f"{graph.turn_speakers[turn]}: {graph.turn_texts[turn]}"
    time_s = float(graph.turn_times_s[turn])
    if not dated or np.isnan(time_s):
        return said
    time = datetime.fromtimestamp(time_s, UTC)
    return f"{time.day} {time:%B} {time.year} {said}"


class BM25:
    """Okapi BM25 with ``idf = log(1 + (N - n + .5) / (n + .5))`` over a list of texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(tokens(text)) for text in texts]
        self._terms = {t: i for i, t in enumerate(dict.fromkeys(t for c in counts for t in c))}
        self._n = len(texts)
        terms = np.array([self._terms[t] for c in counts for t in c], np.int64)
        documents = np.repeat(np.arange(self._n), [len(c) for c in counts])
        frequency = np.array([n for c in counts for n in c.values()], float)
        lengths = np.array([c.total() for c in counts], float)
        share = lengths / max(lengths.mean(), 1e-9) if self._n else lengths
        n_containing = np.bincount(terms, minlength=len(self._terms))
        idf = np.log(1 + (self._n - n_containing + 0.5) / (n_containing + 0.5))
        saturated = frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * share[documents]))
        shape = (len(self._terms), self._n)
        self._weights = csr_array((idf[terms] * saturated, (terms, documents)), shape=shape)

    def scores(self, query: str) -> Scores:
        """(n_texts,) the score of each text."""
        rows, weights = self._weights, np.zeros(self._n)
        for term in tokens(query):
            row = self._terms.get(term)
            if row is not None:
                span = slice(rows.indptr[row], rows.indptr[row + 1])
                weights[rows.indices[span]] += rows.data[span]
        return weights


def _turn_bm25(index: MemoryIndex, dated: bool) -> BM25:
    graph = index.graph
    return BM25([turn_key(graph, turn, dated) for turn in range(graph.n_turns)])


def bm25(settings: BaselineSettings) -> Method:
    """BM25 over turns."""

    def method(index: MemoryIndex) -> Ranker:
        lexical = _turn_bm25(index, settings.dated)
        return lambda query: by_score(lexical.scores(query.text))

    return method


def dense(index: MemoryIndex) -> Ranker:
    """Cosine of the query with each turn (``speaker: text``), by the index's own encoder."""
    return lambda query: by_score(_cosines(index, query))


def _cosines(index: MemoryIndex, query: Query) -> Scores:
    return np.asarray(index.graph.turn_vectors @ query.vector, dtype=np.float64)


def turns_hybrid(settings: BaselineSettings) -> Method:
    """BM25 over its maximum + a share of the cosine + a share of each neighbour turn's sum."""

    def method(index: MemoryIndex) -> Ranker:
        lexical = _turn_bm25(index, settings.dated)

        def ranker(query: Query) -> Found:
            words = lexical.scores(query.text)
            both = words / (words.max(initial=0.0) or 1.0)
            both = both + settings.dense_share * _cosines(index, query)
            return by_score(neighbour_sum(index.graph, both, settings.neighbour_share))

        return ranker

    return method


def neighbour_sum(graph: MemoryGraph, scores: Scores, share: float) -> Scores:
    """Each turn's score + ``share`` of those of the turns before and after it in its session."""
    sessions = np.asarray(graph.turn_session_ids)
    joined = sessions[1:] == sessions[:-1]
    total = scores.copy()
    total[1:] += np.where(joined, share * scores[:-1], 0.0)
    total[:-1] += np.where(joined, share * scores[1:], 0.0)
    return total
