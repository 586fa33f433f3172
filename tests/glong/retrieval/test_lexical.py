"""BM25 against a worked example and against the formula."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.retrieval.lexical import Lexicon

K1, B = 1.5, 0.75


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
    lexicon = Lexicon.of([["a", "b"], ["b"], ["a", "a", "c"]])
    found = lexicon.scores(0, ["a", "b"], 3)
    assert found == pytest.approx([0.376003, 0.242583, 0.231387], abs=1e-5)
    assert lexicon.scores(0, ["b", "a", "b"], 3) == pytest.approx(found)


TERMS = st.sampled_from(["a", "b", "c", "d", "貓", "чай", "🐕"])
DOCUMENTS = st.lists(st.lists(TERMS, max_size=6), max_size=6)


@given(st.lists(DOCUMENTS, max_size=3), st.lists(TERMS, max_size=5))
@settings(max_examples=100, deadline=None)
def test_every_collection_has_the_scores_of_the_formula(
    collections: list[list[list[str]]], asked: list[str]
) -> None:
    lexicon = Lexicon.of(*collections)
    for i, documents in enumerate(collections):
        found = lexicon.scores(i, asked, len(documents))
        assert found.dtype == np.float32
        assert found == pytest.approx(by_formula(documents, asked), abs=1e-5)


def test_a_term_of_a_later_collection_is_unknown_to_an_earlier_one() -> None:
    lexicon = Lexicon.of([["a"]], [["b"]], [])
    assert lexicon.scores(0, ["b"], 1).tolist() == [0]
    assert lexicon.scores(1, ["a"], 1).tolist() == [0]
    assert lexicon.scores(1, ["b", "zzz"], 1)[0] > 0
    assert lexicon.scores(2, ["a"], 0).tolist() == []


def test_documents_without_terms_score_nothing() -> None:
    assert Lexicon.of([[], []]).scores(0, ["a"], 2).tolist() == [0, 0]
    assert Lexicon.of([[], ["a"]]).scores(0, ["a"], 2)[0] == 0
    assert Lexicon.of([["a"]]).scores(0, [], 1).tolist() == [0]
