"""Personalised PageRank against networkx, whose walk runs until it stands still."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.graph import MemoryGraph
from glong.retrieval import MemoryIndex
from glong.retrieval.pagerank import personalised_pagerank
from tests.glong.evaluation.memories import memory
from tests.glong.retrieval.random_memories import memories


def by_networkx(
    index: MemoryIndex, turn_scores: np.ndarray, edge_scores: np.ndarray
) -> list[float]:
    """The same walk: entities ``("n", i)`` and turns ``("t", i)``, damping .5."""
    graph = index.graph
    walk: nx.DiGraph[tuple[str, int]] = nx.DiGraph()
    reset = {("t", i): 0.5 * max(0.0, float(score)) for i, score in enumerate(turn_scores)}
    reset |= {("n", i): 0.0 for i in range(graph.n_entities)}
    walk.add_nodes_from(reset)
    for edge, score in enumerate(edge_scores):
        head, tail = ("n", int(graph.heads[edge])), ("n", int(graph.tails[edge]))
        turn = ("t", int(graph.edge_turn[edge]))
        for a, b in ((head, tail), (head, turn), (tail, turn)):
            for source, target in ((a, b), (b, a)):
                old = walk.get_edge_data(source, target, {"weight": 0})["weight"]
                walk.add_edge(source, target, weight=old + 1)
        for node in (head, tail):
            reset[node] = max(reset[node], float(score) * float(index.damping[node[1]]))
    if not sum(reset.values()):
        return [0.0] * graph.n_turns
    rank = nx.pagerank(walk, alpha=0.5, personalization=reset, tol=1e-10, max_iter=500)
    turns = np.array([rank["t", i] for i in range(graph.n_turns)])
    found: list[float] = (turns / turns.max()).tolist()
    return found


def test_it_is_the_walk_of_networkx_on_a_small_memory() -> None:
    index = MemoryIndex.of(memory())
    turn_scores = np.array([1, 0, 0.2, 0, 0, -0.5], np.float32)
    edge_scores = np.array([0.9, 0.3, 0, -0.2, 0, 0.1], np.float32)
    found = personalised_pagerank(index, turn_scores, edge_scores)
    assert found == pytest.approx(by_networkx(index, turn_scores, edge_scores), abs=1e-5)


@given(memories(), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_it_is_the_walk_of_networkx_on_any_memory(graph: MemoryGraph, seed: int) -> None:
    index = MemoryIndex.of(graph)
    numbers = np.random.default_rng(seed)
    turn_scores = numbers.uniform(-1, 1, graph.n_turns).astype(np.float32)
    edge_scores = numbers.uniform(-1, 1, graph.n_edges).astype(np.float32)
    found = personalised_pagerank(index, turn_scores, edge_scores)
    assert found == pytest.approx(by_networkx(index, turn_scores, edge_scores), abs=1e-5)
    assert np.isfinite(found).all()


def test_the_walk_reaches_a_turn_over_a_shared_entity() -> None:
    index = MemoryIndex.of(memory())
    only_first = np.array([1, 0, 0, 0, 0, 0], np.float32)
    found = personalised_pagerank(index, only_first, np.zeros(6, np.float32))
    assert found[0] == 1  # the walk starts here
    assert found[0] > found[2] > found[5] > found[3] > 0  # over Pixel, then Leipzig, then Tom
    assert found[1] == 0


@pytest.mark.parametrize("n", [0, 3])
def test_nothing_to_start_from_gives_zeros(n: int) -> None:
    index = MemoryIndex.of(memory([("s", "Mira", "Hi")] * n, []))
    found = personalised_pagerank(index, np.zeros(n, np.float32), np.zeros(0, np.float32))
    assert found.tolist() == [0] * n


def test_a_memory_without_facts_ranks_by_where_the_walk_starts() -> None:
    index = MemoryIndex.of(memory([("s", "Mira", "Hi")] * 3, []))
    scores = np.array([0.2, 0.4, -1], np.float32)
    found = personalised_pagerank(index, scores, np.zeros(0, np.float32))
    assert found == pytest.approx([0.5, 1, 0])
