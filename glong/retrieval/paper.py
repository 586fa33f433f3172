"""Retrieval as the paper describes it (METHOD section 2): anchors, expansion, coarse, fine.

Vectorised over the frozen graph. ``now_s`` is an argument, an age below 0 counts as 0, an edge
whose time is unknown has recency 0, and ties go to the edge that stands first in the graph.
"""

import numpy as np
from numpy.typing import NDArray

from glong.config import RetrievalConfig
from glong.graph import MemoryGraph
from glong.retrieval.query import Scored
from glong.retrieval.ranks import largest
from glong.types import Vectors

__all__ = ["anchors", "expand", "retrieve"]


def anchors(graph: MemoryGraph, query_vector: NDArray[np.float32], n: int) -> NDArray[np.intp]:
    """The ``n`` entities with the highest cosine to the query."""
    return largest(graph.entity_vectors @ query_vector, n)


def expand(graph: MemoryGraph, entities: NDArray[np.intp], hops: int) -> NDArray[np.intp]:
    """All edges within ``hops`` of the entities, both directions, each once, in order."""
    edges = graph.incident(entities)
    for _ in range(hops - 1):
        reached = np.union1d(graph.heads[edges], graph.tails[edges])
        edges = graph.incident(reached)
    return edges


def _cosines(
    vectors: Vectors, places: NDArray[np.intp], query_vector: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Cosines of the rows at the places; of all rows where taking most of them costs more."""
    if 3 * len(places) > len(vectors):
        return np.asarray((vectors @ query_vector)[places])
    return np.asarray(vectors[places] @ query_vector)


def retrieve(
    graph: MemoryGraph, query_vector: NDArray[np.float32], config: RetrievalConfig, now_s: float
) -> list[Scored]:
    """The ``config.k`` best edges, best first.

    Args:
        graph: one memory.
        query_vector: shape (dimension,), unit length.
        config: the numbers; :data:`glong.config.PAPER` are the paper's.
        now_s: the time of the query, seconds since 1970 UTC.

    Returns:
        At most k edges; fewer where the graph has fewer in reach.
    """
    candidates = expand(graph, anchors(graph, query_vector, config.n_anchors), config.hops)
    similarity = _cosines(graph.edge_vectors, candidates, query_vector)
    coarse = largest(similarity, config.n_semantic)
    edges, similarity = candidates[coarse], similarity[coarse]
    age_s = np.maximum(0.0, now_s - graph.accessed_s[edges])
    recency = np.nan_to_num(np.exp(-config.decay_per_s * age_s), nan=0.0)
    weight = graph.weights[edges]
    score = (
        config.similarity_share * similarity
        + config.weight_share * weight
        + config.recency_share * recency
    )
    # An equal score goes to the earlier edge, not to the nearer one, so that order is defined.
    best = np.lexsort((edges, -score))[: config.k]
    return [
        Scored(
            int(graph.edge_turn[edges[i]]),
            (int(edges[i]),),
            float(score[i]),
            {
                "similarity": float(similarity[i]),
                "weight": float(weight[i]),
                "recency": float(recency[i]),
            },
        )
        for i in best
    ]
