"""Personalised PageRank over one memory's triplets: entities and turns as nodes."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from glong.retrieval.index import MemoryIndex

__all__ = ["personalised_pagerank"]

_DAMPING, _N_STEPS = 0.5, 20


def personalised_pagerank(
    index: MemoryIndex, turn_scores: NDArray[np.float32], edge_scores: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(T,) share of a walk that starts at well-scored turns and triplets, over its largest.

    Args:
        index: one memory.
        turn_scores: (T,) where the walk starts among turns.
        edge_scores: (E,) where it starts among triplets, on their entities.
    """
    graph = index.graph
    n = graph.n_entities + graph.n_turns
    reset = np.zeros(n)
    best = np.argsort(-edge_scores, kind="stable")[: 2 * _N_STEPS]
    for ends in (graph.heads, graph.tails):
        np.maximum.at(reset, ends[best], np.maximum(0, edge_scores[best]))
    reset[: graph.n_entities] *= index.damping
    strongest = np.argsort(-turn_scores, kind="stable")[: 2 * _N_STEPS]
    reset[graph.n_entities + strongest] = 0.5 * np.maximum(0, turn_scores[strongest])
    total = reset.sum()
    if not total:
        return np.zeros(graph.n_turns, np.float32)
    walk = _transitions(index)
    rank = reset = reset / total
    for _ in range(_N_STEPS):
        rank = _DAMPING * (walk @ rank) + (1 - _DAMPING) * reset
    turns = rank[graph.n_entities :]
    share: NDArray[np.float32] = (turns / turns.max()).astype(np.float32)
    return share


def _transitions(index: MemoryIndex) -> sparse.csr_array:
    """(n, n) column-stochastic: subject with object, and each with the turn that names it."""
    graph = index.graph
    turn = graph.n_entities + graph.edge_turn.astype(np.int64)
    pairs = ((graph.heads, graph.tails), (graph.heads, turn), (graph.tails, turn))
    rows = np.concatenate([side for pair in pairs for side in pair])
    columns = np.concatenate([side for pair in pairs for side in reversed(pair)])
    n = graph.n_entities + graph.n_turns
    links = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    out = np.asarray(links.sum(axis=0)).ravel()
    return links @ sparse.diags_array(1 / np.maximum(out, 1e-12))
