"""Retrieval of the paper, on a graph small enough to work it out by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from glong.config import PAPER, RetrievalConfig
from glong.graph import MemoryGraph
from glong.retrieval import Scored
from glong.retrieval.paper import anchors, expand, retrieve

NOW = 1_700_000_000.0
DAY = 86_400.0
NAN = float("nan")


def unit(*values: float) -> list[float]:
    """A vector of three numbers at unit length."""
    return list(np.asarray(values) / np.linalg.norm(values))


def at(cosine: float) -> list[float]:
    """A unit vector with this cosine to the query, which is the first axis."""
    return [cosine, float(np.sqrt(1 - cosine**2)), 0.0]


QUERY = np.array([1, 0, 0], dtype=np.float32)


def graph(
    entity_cosines: ArrayLike,
    edges: list[tuple[int, int, float, float, float]],
) -> MemoryGraph:
    """Edges are (head, tail, cosine with the query, weight, accessed_s); one turn for all."""
    n, count = len(np.atleast_1d(entity_cosines)) if np.size(entity_cosines) else 0, len(edges)
    columns: list[Any] = list(zip(*edges, strict=True)) or [()] * 5
    heads, tails, cosines, weights, accessed = columns
    return MemoryGraph(
        entity_ids=tuple(f"n{i}" for i in range(n)),
        entity_names=tuple(f"N{i}" for i in range(n)),
        entity_aliases=((),) * n,
        entity_vectors=vectors(np.atleast_1d(entity_cosines)),
        edge_ids=tuple(f"e{i}" for i in range(count)),
        heads=np.array(heads, dtype=np.int32),
        tails=np.array(tails, dtype=np.int32),
        subjects=("s",) * count,
        relations=("r",) * count,
        objects=("o",) * count,
        edge_vectors=vectors(cosines),
        weights=np.array(weights, dtype=np.float32),
        scores=np.array(weights, dtype=np.float64),
        created_s=np.array(accessed, dtype=np.float64),
        accessed_s=np.array(accessed, dtype=np.float64),
        edge_turn=np.zeros(count, dtype=np.int32),
        turn_ids=("t",),
        turn_session_ids=("s",),
        turn_indices=np.zeros(1, dtype=np.int32),
        turn_speakers=("Mira",),
        turn_texts=("Hello.",),
        turn_times_s=np.full(1, NAN),
        turn_vectors=vectors([1.0]),
    )


def vectors(cosines: ArrayLike) -> np.ndarray:
    rows = [at(c) for c in np.asarray(cosines, dtype=np.float64)]
    return np.array(rows, dtype=np.float32).reshape(-1, 3)


# Seven entities: n0..n4 are the five anchors (n5 and n6 are farther from the query). Edges:
#   e0 n0->n5, e1 n1->n0, e2 n6->n2, e3 n3->n4, e4 n5->n4, e5 n0->n1: within one hop of an anchor;
#   e6 n5->n6: nearest of all to the query, but two hops away.
# Coarse keeps the five nearest of e0..e5: 0.8 (e1), 0.7 (e0), 0.6 (e3), 0.5 (e4), 0.4 (e2);
# e5 (0.1) goes, though its weight and recency would give it 0.05 + 0.3 + 0.2 = 0.55.
# Fine, 0.5 s + 0.3 w + 0.2 r, with r = exp(-1e-7 * age):
#   e0: 0.35 + 0.30 * 0.2 + 0.2 * exp(-0.864)  = 0.35 + 0.06 + 0.2 * 0.42147 = 0.49429
#   e1: 0.40 + 0.30 * 0.1 + 0.2 * 0 (no time)  = 0.43
#   e2: 0.20 + 0.30 * 1.0 + 0.2 * 1 (age 0)    = 0.70
#   e3: 0.30 + 0.30 * 0.5 + 0.2 * 1 (in future)= 0.65
#   e4: 0.25 + 0.30 * 0.4 + 0.2 * exp(-8.64)   = 0.37 + 0.2 * 0.000177 = 0.370035
ENTITIES = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
EDGES = [
    (0, 5, 0.7, 0.2, NOW - 100 * DAY),
    (1, 0, 0.8, 0.1, NAN),
    (6, 2, 0.4, 1.0, NOW),
    (3, 4, 0.6, 0.5, NOW + DAY),
    (5, 4, 0.5, 0.4, NOW - 1000 * DAY),
    (0, 1, 0.1, 1.0, NOW),
    (5, 6, 0.99, 1.0, NOW),
]


def golden(config: RetrievalConfig = PAPER) -> list[Scored]:
    return retrieve(graph(ENTITIES, EDGES), QUERY, config, NOW)


def test_the_worked_example_gives_its_hits_in_order() -> None:
    hits = golden()
    assert [hit.edges[0] for hit in hits] == [2, 3, 0]
    assert [hit.score for hit in hits] == pytest.approx([0.70, 0.65, 0.494292], abs=1e-5)
    assert hits[2].parts == pytest.approx(
        {"similarity": 0.7, "weight": 0.2, "recency": np.exp(-0.864)}, abs=1e-6
    )


def test_parts_with_their_shares_give_the_score() -> None:
    for hit in golden(PAPER.at_k(5)):
        assert hit.score == pytest.approx(
            0.5 * hit.parts["similarity"] + 0.3 * hit.parts["weight"] + 0.2 * hit.parts["recency"],
            abs=1e-6,
        )


def test_an_unknown_time_has_no_recency_and_the_future_counts_as_now() -> None:
    recency = {hit.edges[0]: hit.parts["recency"] for hit in golden(PAPER.at_k(5))}
    assert recency[1] == 0.0
    assert recency[3] == recency[2] == 1.0


def test_the_coarse_step_cuts_before_weight_and_recency_count() -> None:
    hits = golden(PAPER.at_k(5))
    assert [hit.edges[0] for hit in hits] == [2, 3, 0, 1, 4]
    assert [hit.edges[0] for hit in golden(PAPER.at_k(6))] == [2, 3, 5, 0, 1, 4]
    assert golden(RetrievalConfig(n_semantic=1)) == [hits[3]]


def test_two_hops_reach_what_one_does_not() -> None:
    hits = golden(RetrievalConfig(hops=2))
    assert hits[0].edges[0] == 6
    assert hits[0].score == pytest.approx(0.5 * 0.99 + 0.3 + 0.2, abs=1e-6)


def test_anchors_are_the_nearest_entities() -> None:
    shuffled = graph([0.3, 0.9, 0.5, 0.8], [])
    assert list(anchors(shuffled, QUERY, 3)) == [1, 3, 2]
    assert list(anchors(graph([0.5, 0.5, 0.5], []), QUERY, 2)) == [0, 1]


def test_expansion_follows_edges_both_ways_and_names_each_once() -> None:
    chain = graph([0.5] * 4, [(0, 1, 0.1, 1, 0), (1, 2, 0.1, 1, 0), (2, 3, 0.1, 1, 0)])
    assert list(expand(chain, np.array([1]), 1)) == [0, 1]
    assert list(expand(chain, np.array([3]), 1)) == [2]
    assert list(expand(chain, np.array([3]), 2)) == [1, 2]
    assert list(expand(chain, np.array([0, 1]), 2)) == [0, 1, 2]


def test_parallel_edges_and_self_loops_are_candidates_of_their_own() -> None:
    loops = graph([0.9], [(0, 0, 0.5, 1.0, NOW), (0, 0, 0.5, 1.0, NOW)])
    assert [hit.edges[0] for hit in retrieve(loops, QUERY, PAPER, NOW)] == [0, 1]


def test_equal_scores_go_to_the_earlier_edge() -> None:
    # e1 is nearer but lighter, so that both score 0.5: 0.25 + 0.05 + 0.2 and 0.15 + 0.15 + 0.2.
    exact = RetrievalConfig(similarity_share=0.5, weight_share=0.5, recency_share=0.0)
    pair = graph([0.9], [(0, 0, 0.25, 0.75, NOW), (0, 0, 0.75, 0.25, NOW)])
    assert [hit.edges[0] for hit in retrieve(pair, QUERY, exact, NOW)] == [0, 1]
    many = graph([0.9], [(0, 0, 0.5, 0.5, NOW)] * 9)
    assert [hit.edges[0] for hit in retrieve(many, QUERY, PAPER, NOW)] == [0, 1, 2]


def test_fewer_edges_than_k_give_fewer_hits() -> None:
    one = graph([0.9, 0.1], [(0, 1, 0.5, 1.0, NOW)])
    assert [hit.edges[0] for hit in retrieve(one, QUERY, PAPER, NOW)] == [0]


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("entities", [[], [0.5, 0.2]])
def test_a_graph_without_edges_gives_no_hits(entities: list[float], hops: int) -> None:
    assert retrieve(graph(entities, []), QUERY, RetrievalConfig(hops=hops), NOW) == []


def test_retrieval_changes_nothing_in_the_graph() -> None:
    memory = graph(ENTITIES, EDGES)
    arrays = {
        name: value.copy()
        for name in memory.__slots__
        if isinstance(value := getattr(memory, name), np.ndarray)
    }
    first = retrieve(memory, QUERY, PAPER, NOW)
    assert retrieve(memory, QUERY, PAPER, NOW) == first
    for name, before in arrays.items():
        np.testing.assert_array_equal(getattr(memory, name), before)


EDGE = st.tuples(
    st.integers(0, 5),
    st.integers(0, 5),
    st.floats(-1, 1, width=32),
    st.floats(0.015625, 1, width=32),
    st.one_of(st.just(NAN), st.floats(0, 2 * NOW)),
)


@given(st.lists(EDGE, max_size=20), st.integers(1, 8), st.sampled_from([1, 2]))
@settings(max_examples=60, deadline=None)
def test_hits_are_at_most_k_distinct_edges_best_first_with_parts_in_range(
    edges: list[tuple[int, int, float, float, float]], k: int, hops: int
) -> None:
    memory = graph([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], edges)
    hits = retrieve(memory, QUERY, RetrievalConfig(hops=hops).at_k(k), NOW)
    assert len(hits) <= min(k, len(edges))
    assert len({hit.edges[0] for hit in hits}) == len(hits)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= hit.parts["recency"] <= 1 and 0 < hit.parts["weight"] <= 1 for hit in hits)
    more = retrieve(memory, QUERY, RetrievalConfig(hops=hops, n_semantic=20).at_k(20), NOW)
    if k <= 5:
        assert {hit.edges[0] for hit in hits} <= {hit.edges[0] for hit in more}
