"""Personalised PageRank against networkx, and where the walk starts."""

import networkx as nx
import numpy as np
import pytest

from glong.evaluation.hipporag import HIPPORAG, hipporag_ppr, pagerank, transitions
from glong.retrieval import MemoryIndex
from tests.glong.evaluation.memories import TALK, memory, query


def test_every_node_with_an_edge_goes_somewhere() -> None:
    graph = memory()
    totals = np.asarray(transitions(graph, 0.8).sum(axis=0)).ravel()
    assert totals[: graph.n_entities] == pytest.approx(1)
    without_facts = [1, 4]
    assert totals[graph.n_entities :][without_facts].tolist() == [0, 0]


def test_pagerank_agrees_with_networkx() -> None:
    graph = memory()
    steps = transitions(graph, 0.8)
    size = steps.shape[0]
    restart = np.random.default_rng(0).random(size)
    restart /= restart.sum()
    # networkx reads A[i, j] as the edge i -> j; ours holds the chance to go from j to i.
    walk = nx.from_scipy_sparse_array(steps.T, create_using=nx.DiGraph)
    chances = dict(enumerate(restart))
    theirs = nx.pagerank(walk, 0.5, personalization=chances, dangling=chances, tol=1e-12)
    assert pagerank(steps, restart, 0.5) == pytest.approx(
        [theirs[i] for i in range(size)], abs=1e-8
    )


def test_a_turn_two_facts_away_is_reached_through_the_graph() -> None:
    """Nothing but the walk ties turn 2 to the query: Mira -> Pixel -> Leipzig."""
    ranked = hipporag_ppr(HIPPORAG)(MemoryIndex.of(memory()))(query("Mira has_pet Pixel"))(6)
    assert {scored.turn for scored in ranked[:2]} == {0, 2}
    assert sum(scored.score for scored in ranked) < 1


def test_memories_without_facts_or_turns_are_answered() -> None:
    asked = query("Which dog?")
    without_facts = hipporag_ppr(HIPPORAG)(MemoryIndex.of(memory(TALK, [])))(asked)(6)
    assert len(without_facts) == len(TALK)
    assert hipporag_ppr(HIPPORAG)(MemoryIndex.of(memory([], [])))(asked)(6) == []
