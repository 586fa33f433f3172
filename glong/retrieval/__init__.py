"""Retrieval: a query over one frozen memory. Pure: no clock, no I/O, no mutation."""

from glong.config import HybridConfig, RetrievalConfig
from glong.retrieval import hybrid, paper
from glong.retrieval.index import MemoryIndex
from glong.retrieval.query import Query, Scored, query_text

__all__ = ["MemoryIndex", "Query", "Scored", "query_text", "retrieve"]


def retrieve(
    index: MemoryIndex, query: Query, config: RetrievalConfig | HybridConfig
) -> list[Scored]:
    """The ``config.k`` best hits, best first; fewer where the memory has fewer."""
    if isinstance(config, RetrievalConfig):
        return paper.retrieve(index.graph, query.vector, config, query.now_s)
    return hybrid.retrieve(index, query, config)
