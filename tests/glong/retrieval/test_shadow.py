"""Shadows of vectors: exact where a memory is small, good enough to pick candidates where not."""

from dataclasses import replace

import numpy as np
import pytest

from glong.config import HYBRID
from glong.retrieval import MemoryIndex, retrieve
from glong.retrieval.shadow import Shadow
from tests.glong.retrieval.long_talk import long_talk, questions
from tests.glong.retrieval.random_memories import snapshot


def like_sentences(n: int, seed: int) -> np.ndarray:
    """Unit vectors whose differences lie in few directions, as those of one memory do."""
    rng = np.random.default_rng(seed)
    scales = 1 / (1 + np.arange(384)) ** 0.7
    vectors = rng.standard_normal((n, 384)) * scales
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_a_small_memory_is_asked_exactly() -> None:
    turns, edges = like_sentences(40, 1), like_sentences(30, 2)
    shadow = Shadow.of(turns, edges)
    assert shadow.is_exact
    found = shadow.similarities(turns[3])
    assert found[0] == pytest.approx(turns @ turns[3])
    assert found[1] == pytest.approx(edges @ turns[3])


def test_a_memory_without_edges_has_none() -> None:
    turns, edges = Shadow.of(like_sentences(2, 1), np.zeros((0, 384), np.float32)).similarities(
        like_sentences(1, 3)[0]
    )
    assert (turns.shape, edges.shape) == ((2,), (0,))


def test_of_a_large_memory_the_shadow_keeps_the_nearest_among_its_candidates() -> None:
    turns, edges = like_sentences(4_000, 1), like_sentences(3_000, 2)
    shadow = Shadow.of(turns, edges)
    assert not shadow.is_exact
    assert [rows.shape for rows in shadow.rows] == [(7_000, 32)]
    for query in like_sentences(20, 4):
        nearest = np.argsort(-(turns @ query))[:5]
        picked = np.argsort(-shadow.similarities(query)[0])[:100]
        assert set(nearest.tolist()) <= set(picked.tolist())


def test_the_same_memory_casts_the_same_shadow() -> None:
    turns, edges = like_sentences(3_500, 1), like_sentences(10, 2)
    first, second = Shadow.of(turns, edges), Shadow.of(turns, edges)
    assert np.array_equal(first.rows[0], second.rows[0])


def test_hits_of_a_large_memory_are_nearly_those_of_exact_cosines() -> None:
    graph = long_talk(4_000)
    index = MemoryIndex.of(graph)
    assert not index.shadow.is_exact
    exact = replace(index, shadow=Shadow.exact(graph.turn_vectors, graph.edge_vectors))
    asked = questions(graph, 60)
    before = snapshot(index, *asked)
    shares = []
    for query in asked:
        hits, wanted = (retrieve(one, query, HYBRID.at_k(10)) for one in (index, exact))
        parts = {hit.turn: hit.parts for hit in wanted}
        shares.append(sum(hit.turn in parts for hit in hits) / 10)
        for hit in hits:  # shadows pick candidates and are part of no score
            if hit.turn in parts:
                for name in ("words", "turn", "around", "triplet", "before", "after"):
                    assert hit.parts[name] == pytest.approx(parts[hit.turn][name], abs=1e-5)
    assert np.mean(shares) >= 0.97
    assert snapshot(index, *asked) == before
