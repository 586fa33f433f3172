"""Retrieval: a query over one frozen memory. Pure: no clock, no I/O, no mutation."""

from collections.abc import Mapping

from glong.config import HybridConfig, RetrievalConfig
from glong.errors import ConfigError
from glong.retrieval import hybrid, paper
from glong.retrieval.index import MemoryIndex
from glong.retrieval.query import Query, Scored, query_text

__all__ = ["MemoryIndex", "Query", "Scored", "part_factors", "query_text", "retrieve"]


def retrieve(
    index: MemoryIndex, query: Query, config: RetrievalConfig | HybridConfig
) -> list[Scored]:
    """The ``config.k`` best hits, best first; fewer where the memory has fewer.

    Raises:
        ConfigError: the paper's retrieval is asked as of a time, which it does not know.
    """
    if isinstance(config, RetrievalConfig):
        if query.as_of_s is not None:
            raise ConfigError(
                "as_of is given with the profile 'paper', which knows no validity; allowed: the"
                " profile 'hybrid', or no as_of."
            )
        return paper.retrieve(index.graph, query.vector, config, query.now_s)
    return hybrid.retrieve(index, query, config)


def part_factors(index: MemoryIndex, config: RetrievalConfig | HybridConfig) -> Mapping[str, float]:
    """Part of a score -> its factor in this memory: a score is the sum of parts times factors."""
    if isinstance(config, RetrievalConfig):
        return {
            "similarity": config.similarity_share,
            "weight": config.weight_share,
            "recency": config.recency_share,
        }
    return hybrid.mixed(index.one_sided)
