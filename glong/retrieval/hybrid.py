"""Our own retrieval: what is known of each turn, added up, and k hits that differ. Pure.

The factors are learnt (``jobs/train_fusion.py``) on five conversations of LoCoMo and half of the
questions of a sample of LongMemEval, and lie in ``fusion.toml`` with what they were learnt on.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from glong.config import HybridConfig
from glong.retrieval.index import MemoryIndex
from glong.retrieval.parts import candidates
from glong.retrieval.query import Query, Scored
from glong.validity import holds_at

__all__ = ["combined", "factors", "mixed", "retrieve"]

_SAME = 0.97
"""Cosine from which two turns say the same."""
_MOST_EDGES = 5
"""Triplets of a hit that are shown."""


@cache
def factors() -> Mapping[str, tuple[float, float]]:
    """Part -> its factor where speakers say equally much, and where one says everything."""
    text = files("glong.retrieval").joinpath("fusion.toml").read_text(encoding="utf-8")
    pairs = tomllib.loads(text)["factors"].items()
    return MappingProxyType({part: (equal, one_side) for part, (equal, one_side) in pairs})


def mixed(one_sided: float) -> Mapping[str, float]:
    """Part -> its factor in a dialogue: the mixture of the two that its ``one_sided`` says."""
    pairs = factors().items()
    return {part: equal + one_sided * (one_side - equal) for part, (equal, one_side) in pairs}


def combined(parts: Mapping[str, NDArray[np.float32]], one_sided: float) -> NDArray[np.float32]:
    """(C,) scores: each part times the dialogue's mixture of its two factors."""
    score = np.zeros(len(next(iter(parts.values()), ())), np.float32)
    factor = mixed(one_sided)
    for name, values in parts.items():
        score += np.float32(factor[name]) * values
    return score


def retrieve(index: MemoryIndex, query: Query, config: HybridConfig) -> list[Scored]:
    """The ``config.k`` best turns with their triplets, best first; ties in order of the turns."""
    found = candidates(index, query, config)
    score = combined(found.parts, index.one_sided)
    order = np.argsort(-score, kind="stable")
    best = _different(index, found.turns, order, config.k) if config.diversity else order
    return [
        Scored(
            int(found.turns[i]),
            _shown(index, query, int(found.turns[i])),
            float(score[i]),
            {name: float(values[i]) for name, values in found.parts.items()},
        )
        for i in best[: config.k]
    ]


def _different(
    index: MemoryIndex, turns: NDArray[np.int64], order: NDArray[np.intp], k: int
) -> NDArray[np.intp]:
    """The order with turns that say again what a better one says behind the first k others."""
    vectors = index.graph.turn_vectors
    kept: list[int] = []
    again: list[int] = []
    for i in order.tolist():
        if len(kept) == k:
            break
        said = vectors[turns[kept]] @ vectors[turns[i]] if kept else np.zeros(1)
        (again if said.max() >= _SAME else kept).append(i)
    return np.array([*kept, *again], dtype=np.intp)


def _shown(index: MemoryIndex, query: Query, turn: int) -> tuple[int, ...]:
    """The turn's triplets, nearest to the query first; what did not hold then is left out."""
    edges = index.edges_of(turn)
    if query.as_of_s is not None:
        edges = edges[holds_at(index.validity, query.as_of_s)[edges]]
    similarity = index.graph.edge_vectors[edges] @ query.vector
    return tuple(edges[np.argsort(-similarity, kind="stable")][:_MOST_EDGES].tolist())
