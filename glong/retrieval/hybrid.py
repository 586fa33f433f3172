"""Our own retrieval: rankings of turns side by side, one score. Pure, over one frozen index."""

import numpy as np

from glong.config import HybridConfig
from glong.retrieval.index import MemoryIndex
from glong.retrieval.query import Query, Scored

__all__ = ["retrieve"]


def retrieve(index: MemoryIndex, query: Query, config: HybridConfig) -> list[Scored]:
    """The ``config.k`` best turns with their triplets, best first."""
    graph = index.graph
    dense = graph.turn_vectors @ query.vector
    best = np.argsort(-dense, kind="stable")[: config.k]
    return [Scored(int(t), (), float(dense[t]), {"dense_turns": float(dense[t])}) for t in best]
