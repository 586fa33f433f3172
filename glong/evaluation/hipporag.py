"""HippoRAG's retrieval over our triplets: personalised PageRank, turns as passages.

As HippoRAG 2 (Gutierrez et al., "From RAG to Memory", arXiv:2502.14802): nodes are entities and
passages; edges are facts, mentions of an entity in a passage, and likeness of two entities' names.
A walk restarts at the entities of the triplets that are nearest to the query, and lightly at every
passage by its cosine with the query. Passages rank by their PageRank. Left out is what needs a
large language model on every query: the filter of the linked triplets.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array

from glong.evaluation.baselines import Found, Method, Ranker, by_score
from glong.graph import MemoryGraph
from glong.retrieval import MemoryIndex, Query

__all__ = ["HIPPORAG", "PUBLISHED", "HippoRAGSettings", "hipporag_ppr", "pagerank", "transitions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HippoRAGSettings:
    """The numbers of HippoRAG 2; defaults are those of its paper and code.

    Attributes:
        n_facts: triplets linked to the query.
        synonym_cosine: entities at least this near are joined.
        passage_share: factor of the restart at passages.
        damping: chance to walk on instead of restarting.
    """

    n_facts: int = 5
    synonym_cosine: float = 0.8
    passage_share: float = 0.05
    damping: float = 0.5


PUBLISHED = HippoRAGSettings()
HIPPORAG = HippoRAGSettings(passage_share=1.0)
"""Its best on the tuning half of LoCoMo: R mean@5 .479 against .370 as published. Other values of
the other numbers (3, 10 or 20 facts, damping .3 to .8, synonyms from .7) gave nothing there."""
N_STEPS = 30
"""Steps of the walk: at damping .5 what is left after them is below 1e-9."""

Weights = NDArray[np.float64]


def hipporag_ppr(settings: HippoRAGSettings) -> Method:
    """The method with its settings."""

    def method(index: MemoryIndex) -> Ranker:
        graph = index.graph
        steps = transitions(graph, settings.synonym_cosine)
        passages = np.bincount(_mentions(graph)[0], minlength=graph.n_entities)

        def ranker(query: Query) -> Found:
            restart = _restart(graph, query, passages, settings)
            ranks = pagerank(steps, restart, settings.damping)
            return by_score(ranks[graph.n_entities :])

        return ranker

    return method


def _mentions(graph: MemoryGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each (entity, turn) pair of a triplet's end and its source turn, once."""
    pairs = np.concatenate(
        [
            np.column_stack([ends, graph.edge_turn]).astype(np.int64)
            for ends in (graph.heads, graph.tails)
        ]
    )
    pairs = np.unique(pairs, axis=0)
    return pairs[:, 0], pairs[:, 1]


def _synonyms(graph: MemoryGraph, at_least: float) -> tuple[NDArray[np.int64], ...]:
    """Pairs of entities whose names are near, and their cosine."""
    cosine = np.triu(graph.entity_vectors @ graph.entity_vectors.T, k=1)
    left, right = np.nonzero(cosine >= at_least)
    return left, right, cosine[left, right].astype(np.float64)


def transitions(graph: MemoryGraph, synonym_cosine: float) -> csr_array:
    """(N + T, N + T): column j holds the chances to go from node j to each other node.

    Nodes are the entities, then the turns. An edge counts both ways, parallel facts add up.
    """
    n, entities_turns = graph.n_entities, _mentions(graph)
    left, right, cosine = _synonyms(graph, synonym_cosine)
    other = graph.heads != graph.tails
    starts = np.concatenate([graph.heads[other], entities_turns[0], left])
    ends = np.concatenate([graph.tails[other], entities_turns[1] + n, right])
    weights = np.concatenate([np.ones(int(other.sum()) + len(entities_turns[0])), cosine])
    size = n + graph.n_turns
    half = coo_array((weights, (starts, ends)), shape=(size, size))
    both = csr_array(half + half.T)
    totals = np.asarray(both.sum(axis=0)).ravel()
    shares = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    return csr_array(both @ diags_array(shares))


def pagerank(steps: csr_array, restart: Weights, damping: float) -> Weights:
    """Chances to be at each node of a walk that restarts by ``restart``, which sums to 1.

    A node without edges restarts always.
    """
    ranks = restart
    for _ in range(N_STEPS):
        walked = damping * (steps @ ranks)
        ranks = walked + (1.0 - walked.sum()) * restart
    return np.asarray(ranks)


def _restart(
    graph: MemoryGraph, query: Query, passages: NDArray[np.int64], settings: HippoRAGSettings
) -> Weights:
    """Where the walk restarts: entities of the linked triplets, and all turns a little."""
    facts = _scaled(graph.edge_vectors @ query.vector)
    linked = np.argsort(-facts, kind="stable")[: settings.n_facts]
    ends = np.concatenate([graph.heads[linked], graph.tails[linked]])
    n_linked = np.bincount(ends, minlength=graph.n_entities)
    sums = np.bincount(ends, np.tile(facts[linked], 2), minlength=graph.n_entities)
    # The mean over an entity's linked facts, less for entities that are in many passages.
    entities = sums / np.maximum(n_linked, 1) / np.maximum(passages, 1)
    turns = settings.passage_share * _scaled(graph.turn_vectors @ query.vector)
    restart = np.concatenate([entities, turns])
    total = restart.sum()
    return restart / total if total > 0 else np.full(len(restart), 1.0 / max(len(restart), 1))


def _scaled(values: NDArray[np.float32]) -> Weights:
    """Values from 0 to 1, as HippoRAG scales them; all 1 where they are equal."""
    if not len(values):
        return np.zeros(0)
    low, high = float(values.min()), float(values.max())
    if high == low:
        return np.ones(len(values))
    return np.asarray((values.astype(np.float64) - low) / (high - low))
