"""Our own retrieval: what is known of each turn, added up, and k hits that differ. Pure.

Best first; turns that say again what a better one says are behind all others.

The factors are learnt (``jobs/train_fusion.py``) on five conversations of LoCoMo and half of the
questions of a sample of LongMemEval, and lie in ``fusion.toml`` with what they were learnt on; that
of ``again``, which depends on the other hits, is in :mod:`glong.retrieval.spread`.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from glong.config import HybridConfig
from glong.retrieval.index import MemoryIndex
from glong.retrieval.parts import candidates
from glong.retrieval.query import Query, Scored
from glong.retrieval.spread import AGAIN, asks_for_several, different, in_same_session
from glong.validity import holds_at

__all__ = ["combined", "factors", "mixed", "retrieve"]

_LOOK_AHEAD = 2
"""Times k turns are looked at for what says the same, so that those of other sessions are there."""
_MOST_EDGES = 5
"""Triplets of a hit that are shown."""


@cache
def factors() -> Mapping[str, tuple[float, float]]:
    """Part -> its factor where speakers say equally much, and where one says everything."""
    text = files("glong.retrieval").joinpath("fusion.toml").read_text(encoding="utf-8")
    pairs = tomllib.loads(text)["factors"].items()
    learnt = {part: (equal, one_side) for part, (equal, one_side) in pairs}
    return MappingProxyType(learnt | {"again": (AGAIN, AGAIN)})


def mixed(one_sided: float) -> Mapping[str, float]:
    """Part -> its factor in a dialogue: the mixture of the two that its ``one_sided`` says."""
    pairs = factors().items()
    return {part: equal + one_sided * (one_side - equal) for part, (equal, one_side) in pairs}


def combined(
    values: NDArray[np.float32], parts: tuple[str, ...], one_sided: float
) -> NDArray[np.float32]:
    """(P, C) values of parts -> (C,) scores: each times the dialogue's mixture of its factors."""
    # Row by row, so that equal columns have equal sums: a matrix product promises no such thing.
    score: NDArray[np.float32] = (values * _shares(parts, one_sided)).sum(axis=0)
    return score


@lru_cache(maxsize=1_024)
def _shares(parts: tuple[str, ...], one_sided: float) -> NDArray[np.float32]:
    """(P, 1) factor of each part."""
    factor = mixed(one_sided)
    shares = np.array([[factor[name]] for name in parts], np.float32).reshape(len(parts), 1)
    shares.setflags(write=False)
    return shares


def retrieve(index: MemoryIndex, query: Query, config: HybridConfig) -> list[Scored]:
    """The ``config.k`` best turns with their triplets, best first; ties in order of the turns."""
    found = candidates(index, query, config)
    if not found.parts:  # all are switched off
        return []
    names = tuple(found.parts)
    values = np.array([*found.parts.values()], np.float32)
    score = combined(values, names, index.one_sided)
    order, repeats = np.argsort(-score, kind="stable"), np.empty(0, np.intp)
    several = config.diversity and asks_for_several(query.text)
    if config.diversity:
        n = _LOOK_AHEAD * config.k if several else config.k
        order, repeats = different(index.graph.turn_vectors, found.turns, order, n)
    if several:
        sessions = index.session[found.turns[order]]
        before, chosen = in_same_session(score[order], sessions, config.k)
        again = np.zeros(len(score), np.float32)
        again[order] = before
        names, values = (*names, "again"), np.vstack([values, again])
        score, order = score + np.float32(AGAIN) * again, order[chosen]
    order = np.concatenate([order, repeats])
    best = order[: config.k]
    turns: list[int] = found.turns[best].tolist()
    shown = _shown(index, query, turns)
    rows = values[:, best].T.tolist()
    parts = [dict(zip(names, row, strict=True)) for row in rows]
    return list(map(Scored, turns, shown, score[best].tolist(), parts))


def _shown(index: MemoryIndex, query: Query, turns: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Each turn's triplets, nearest to the query first; what did not hold then is left out."""
    held = None if query.as_of_s is None else holds_at(index.validity, query.as_of_s)
    for turn in turns:
        edges = index.edges_of(turn)
        if held is not None:
            edges = edges[held[edges]]
        if len(edges) > 1:
            similarity = index.graph.edge_vectors[edges] @ query.vector
            edges = edges[np.argsort(-similarity, kind="stable")][:_MOST_EDGES]
        yield tuple(edges.tolist())
