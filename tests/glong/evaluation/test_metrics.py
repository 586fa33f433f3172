"""Metrics against another implementation, and what intervals must be."""

from collections.abc import Sequence

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.evaluation.metrics import (
    Answer,
    difference,
    first_turns,
    judge,
    means,
    ndcg,
    reciprocal_rank,
)

KS = (1, 3, 5, 10, 20)


def ranking(*turns: int) -> Answer:
    return lambda n_memories: turns[:n_memories]


# Against trec_eval


def by_trec_eval(turns: Sequence[int], gold: frozenset[int]) -> dict[str, float]:
    """The same metrics by pytrec_eval, which orders by score, so scores fall by rank."""
    measures = {"recall", "success", "ndcg_cut", "recip_rank"}
    judged = {"q": {str(turn): 1 for turn in gold}}
    scores = {"q": {str(turn): 1000.0 - rank for rank, turn in enumerate(turns)}}
    cuts = ",".join(map(str, KS))
    wanted = {f"{m}.{cuts}" if m != "recip_rank" else m for m in measures}
    found: dict[str, float] = pytrec_eval.RelevanceEvaluator(judged, wanted).evaluate(scores)["q"]
    return found


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=20, unique=True),
    st.frozensets(st.integers(0, 40), min_size=1, max_size=8),
)
def test_metrics_agree_with_trec_eval(turns: list[int], gold: frozenset[int]) -> None:
    ours, theirs = judge(ranking(*turns), gold, KS), by_trec_eval(turns, gold)
    for k in KS:
        assert ours[f"recall_mean@{k}"] == pytest.approx(theirs[f"recall_{k}"])
        assert ours[f"recall_any@{k}"] == theirs[f"success_{k}"]
        assert ours[f"recall_all@{k}"] == float(theirs[f"recall_{k}"] == 1)
    assert ours["mrr@20"] == pytest.approx(theirs["recip_rank"])
    assert ours["ndcg@10"] == pytest.approx(theirs["ndcg_cut_10"])


# Turns and memories


def test_k_counts_distinct_turns_and_k_memories_counts_memories() -> None:
    values = judge(ranking(4, 4, 4, 7, 9), frozenset({7}), (3,))
    assert values["recall_mean@3"] == 1.0
    assert values["recall_mean@3_memories"] == 0.0
    assert values["mrr@20"] == 0.5


def test_an_answer_that_changes_with_its_length_is_asked_at_that_length() -> None:
    def paper_like(n_memories: int) -> list[int]:
        return [3, 1, 2][:n_memories] if n_memories < 3 else [2, 1, 3]

    assert first_turns(paper_like, 1) == [3]
    assert first_turns(paper_like, 3) == [2, 1, 3]


def test_more_memories_are_asked_for_until_there_are_k_turns() -> None:
    asked = []

    def answer(n_memories: int) -> list[int]:
        asked.append(n_memories)
        return [1, 1, 1, 2, 2, 3, 4][:n_memories]

    assert first_turns(answer, 3) == [1, 2, 3]
    assert asked == [3, 5, 6]


def test_turns_that_do_not_count_take_no_place() -> None:
    allowed = np.array([True, False, True, True])
    assert first_turns(ranking(1, 0, 1, 2, 3), 2, allowed) == [0, 2]
    values = judge(ranking(1, 0, 2), frozenset({2}), (1,), allowed)
    assert values["mrr@20"] == 0.5
    assert "recall_mean@1_memories" not in values


def test_nothing_found_is_zero() -> None:
    assert set(judge(ranking(), frozenset({1}), KS).values()) == {0.0}
    assert reciprocal_rank([], frozenset({1})) == 0
    assert ndcg([2], frozenset({1})) == 0


# Intervals

VALUES = np.random.default_rng(3).random((200, 2))
GROUPS = [f"d{i % 5}" for i in range(200)]


def test_an_interval_holds_its_mean_and_shrinks_with_n() -> None:
    whole, part = means(VALUES, 0)[0], means(VALUES[:50], 0)[0]
    assert whole.ci95[0] < whole.mean < whole.ci95[1]
    assert whole.ci95[1] - whole.ci95[0] < part.ci95[1] - part.ci95[0]
    assert (whole.n, part.n) == (200, 50)
    # The normal approximation of the standard error, which a bootstrap of a mean has to meet.
    half = 1.96 * VALUES[:, 0].std() / np.sqrt(200)
    assert whole.ci95 == pytest.approx((whole.mean - half, whole.mean + half), abs=0.006)


def test_equal_seeds_give_equal_intervals() -> None:
    assert means(VALUES, 5) == means(VALUES, 5)
    assert means(VALUES, 5) != means(VALUES, 6)


def test_a_method_differs_from_itself_by_nothing() -> None:
    gap = difference(VALUES, VALUES, GROUPS, 0)[0]
    assert (gap.mean, gap.ci95, gap.ci95_by_dialogue) == (0, (0, 0), (0, 0))


def test_a_paired_interval_is_narrower_than_the_methods_own() -> None:
    better = VALUES + 0.01 + 0.001 * np.random.default_rng(4).random(VALUES.shape)
    gap, own = difference(better, VALUES, GROUPS, 0)[0], means(VALUES, 0)[0]
    assert gap.ci95[0] > 0
    assert gap.ci95[1] - gap.ci95[0] < (own.ci95[1] - own.ci95[0]) / 10


def test_questions_of_one_dialogue_that_go_together_widen_the_interval_by_dialogue() -> None:
    shift = np.array([[0.1 * int(group[1])] for group in GROUPS])
    gap = difference(shift, np.zeros_like(shift), GROUPS, 0)[0]
    width, width_by_dialogue = (b[1] - b[0] for b in (gap.ci95, gap.ci95_by_dialogue))
    assert width_by_dialogue > 2 * width


def test_where_every_question_has_its_own_dialogue_both_intervals_agree() -> None:
    own = [str(i) for i in range(200)]
    gap = difference(VALUES, np.zeros_like(VALUES), own, 0)[0]
    assert gap.ci95 == pytest.approx(gap.ci95_by_dialogue, abs=0.01)
