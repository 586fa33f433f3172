"""The numbers of retrieval: the paper's, and our own."""

import types
from collections.abc import Mapping
from dataclasses import dataclass, replace

from glong.config.loading import require

__all__ = ["HYBRID", "PAPER", "PROFILES", "HybridConfig", "RetrievalConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalConfig:
    """The numbers of the paper's retrieval; defaults are the paper's (METHOD section 2).

    Attributes:
        n_anchors: entities nearest to the query.
        hops: edges from an anchor to a candidate, 1 or 2.
        n_semantic: candidates kept by the coarse step.
        k: hits.
        similarity_share: factor of the cosine with the query.
        weight_share: factor of the stored weight.
        recency_share: factor of the recency.
        decay_per_s: lambda of the recency, per second.
    """

    n_anchors: int = 5
    hops: int = 1
    n_semantic: int = 5
    k: int = 3
    similarity_share: float = 0.5
    weight_share: float = 0.3
    recency_share: float = 0.2
    decay_per_s: float = 1e-7

    def __post_init__(self) -> None:
        """Check every value."""
        for name in ("n_anchors", "n_semantic", "k"):
            require(getattr(self, name) >= 1, f"retrieval.{name}", getattr(self, name), "1 or more")
        require(self.hops in (1, 2), "retrieval.hops", self.hops, "1, 2")
        for name in ("similarity_share", "weight_share", "recency_share", "decay_per_s"):
            require(getattr(self, name) >= 0, f"retrieval.{name}", getattr(self, name), "0 or more")

    def at_k(self, k: int) -> "RetrievalConfig":
        """The same settings with another number of hits; the coarse step keeps at least as many."""
        return replace(self, k=k, n_semantic=max(self.n_semantic, k))


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridConfig:
    """Our own retrieval: several rankings of a memory's turns side by side, then one score.

    Every generator and every later step has a switch, so that an ablation is one line.

    Attributes:
        k: hits, each another turn.
        anchors: the entities of the best turns as anchors, and one hop from them; hubs damped.
        dense_triplets: cosine of the query with triplets.
        lexical: BM25 over a turn's text with its triplets.
        dense_turns: cosine of the query with turns.
        neighbours: part of the score of the turn before and after.
        names: entities and speakers that the query names.
        times: time expressions of the query against the times of turns.
        form: what a turn is like whatever is asked: length, first person, question, answer.
        pagerank: personalised PageRank over the triplets, from the anchors.
        weight: importance of a turn's triplets.
        recency: age of a turn.
        validity: facts that a later one closed count less, unless the query asks as of a time.
        diversity: a hit that says again what a better one says goes behind, and where a query
            counts, adds up, orders or lists, hits of other sessions go before more of the same.
        n_candidates: turns that are looked at closely.
    """

    k: int = 3
    anchors: bool = True
    dense_triplets: bool = True
    lexical: bool = True
    dense_turns: bool = True
    neighbours: bool = True
    names: bool = True
    times: bool = True
    form: bool = True
    pagerank: bool = False
    weight: bool = True
    recency: bool = True
    validity: bool = True
    diversity: bool = True
    n_candidates: int = 100

    def __post_init__(self) -> None:
        """Check every value."""
        for name in ("n_candidates", "k"):
            require(getattr(self, name) >= 1, f"retrieval.{name}", getattr(self, name), "1 or more")

    def at_k(self, k: int) -> "HybridConfig":
        """The same settings with another number of hits."""
        return replace(self, k=k)


PAPER = RetrievalConfig()
HYBRID = HybridConfig()
PROFILES: Mapping[str, RetrievalConfig | HybridConfig] = types.MappingProxyType(
    {"hybrid": HYBRID, "paper": PAPER}
)
