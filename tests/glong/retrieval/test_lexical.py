"""BM25 against a worked example, against the formula, and against another library."""

import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.retrieval.lexical import Lexicon, numbered

K1, B = 1.5, 0.75


def lexicon_of(*collections: Sequence[Sequence[str]]) -> Lexicon:
    vocabulary: dict[str, int] = {}
    found = [numbered(documents, vocabulary) for documents in collections]
    return Lexicon.of(vocabulary, *found)


def by_formula(documents: Sequence[Sequence[str]], asked: Sequence[str]) -> list[float]:
    """Sum over terms of log(1 + (N - n + .5) / (n + .5)) * tf / (tf + k1 (1 - b + b l / mean))."""
    n = len(documents)
    mean = sum(map(len, documents)) / n if n else 0.0
    scores = []
    for document in documents:
        counts, score = Counter(document), 0.0
        for term in set(asked):
            n_with = sum(term in other for other in documents)
            if counts[term]:
                idf = np.log(1 + (n - n_with + 0.5) / (n_with + 0.5))
                norm = K1 * (1 - B + B * len(document) / mean)
                score += idf * counts[term] / (counts[term] + norm)
        scores.append(score)
    return scores


def test_a_worked_example() -> None:
    # N = 3, lengths 2, 1, 3: mean 2. "a" is in two, "b" in two:
    # idf = log(1 + (3 - 2 + .5) / (2 + .5)) = log(1.6) = 0.470004
    # document 0 ("a b"): norm = 1.5 (.25 + .75 * 2 / 2) = 1.5; two terms, each .470004 / 2.5
    # document 1 ("b"):   norm = 1.5 (.25 + .375) = .9375;      .470004 / 1.9375
    # document 2 ("a a c"): norm = 1.5 (.25 + 1.125) = 2.0625;  .470004 * 2 / 4.0625
    lexicon = lexicon_of([["a", "b"], ["b"], ["a", "a", "c"]])
    (found,) = lexicon.scores(["a", "b"])
    assert found == pytest.approx([0.376003, 0.242583, 0.231387], abs=1e-5)
    assert lexicon.scores(["b", "a", "b"])[0] == pytest.approx(found)


TERMS = st.sampled_from(["a", "b", "c", "d", "貓", "чай", "🐕"])
DOCUMENTS = st.lists(st.lists(TERMS, max_size=6), max_size=20)


@given(st.lists(DOCUMENTS, max_size=3), st.lists(TERMS, max_size=5))
@settings(max_examples=100, deadline=None)
def test_every_collection_has_the_scores_of_the_formula(
    collections: list[list[list[str]]], asked: list[str]
) -> None:
    found = lexicon_of(*collections).scores(asked)
    for scores, documents in zip(found, collections, strict=True):
        assert scores.dtype == np.float32
        assert scores == pytest.approx(by_formula(documents, asked), abs=1e-5)


def test_the_scores_are_those_of_bm25s(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its numba would stay loaded, and vLLM 0.32 does not start where llvmlite is.
    monkeypatch.setitem(sys.modules, "numba", None)
    import bm25s

    random = np.random.default_rng(0)
    documents = [
        [f"w{word}" for word in random.zipf(1.4, random.integers(1, 30))] for _ in range(300)
    ]
    other = bm25s.BM25(k1=K1, b=B, method="lucene")
    other.index(documents, show_progress=False)
    lexicon = lexicon_of(documents)
    for asked in (["w1"], ["w2", "w3", "w17"], ["w40", "w1", "w5"]):
        known = [term for term in asked if term in lexicon.vocabulary]
        (found,) = lexicon.scores(asked)
        np.testing.assert_allclose(found, other.get_scores(known), atol=1e-5)


def test_common_and_rare_terms_add_up_alike() -> None:
    documents = [["a"] * (i % 2) + ["b"] * (i % 11 == 0) + ["c", "d"] for i in range(44)]
    lexicon = lexicon_of(documents)
    assert len(lexicon.collections[0].dense) == 3
    (found,) = lexicon.scores(["a", "b", "c"])
    assert found == pytest.approx(by_formula(documents, ["a", "b", "c"]), abs=1e-5)


def test_a_term_of_a_later_collection_is_unknown_to_an_earlier_one() -> None:
    lexicon = lexicon_of([["a"]], [["b"]], [])
    first, second, third = lexicon.scores(["b", "zzz"])
    assert first.tolist() == [0]
    assert second[0] > 0
    assert third.tolist() == []
    assert lexicon.scores(["a"])[1].tolist() == [0]


def test_documents_without_terms_score_nothing() -> None:
    assert lexicon_of([[], []]).scores(["a"])[0].tolist() == [0, 0]
    assert lexicon_of([[], ["a"]]).scores(["a"])[0][0] == 0
    assert lexicon_of([["a"]]).scores([])[0].tolist() == [0]
