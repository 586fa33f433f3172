"""Metrics of one ranking, and means with intervals over many.

k counts distinct source turns, in the order of their first memory; ``recall_*@k_memories`` counts
memories. ``any``: one gold turn is among them; ``all``: every one; ``mean``: their share.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MRR_AT",
    "NDCG_AT",
    "Answer",
    "Difference",
    "Interval",
    "difference",
    "first_turns",
    "judge",
    "judge_cuts",
    "means",
    "ndcg",
    "reciprocal_rank",
]

Answer = Callable[[int], Sequence[int]]
"""Number of memories -> the source turn of each, best first; fewer where there are fewer."""

MRR_AT, NDCG_AT = 20, 10
N_RESAMPLES = 2_000


def first_turns(answer: Answer, k: int, allowed: NDArray[np.bool_] | None = None) -> list[int]:
    """The first k distinct turns of an answer, of as many memories as that takes.

    Args:
        answer: may be another ranking for every number of memories, as the paper's is.
        k: distinct turns.
        allowed: (n_turns,) which turns count; ``None`` for all.
    """
    n_memories = k
    while True:
        found = answer(n_memories)
        turns = [t for t in dict.fromkeys(found) if allowed is None or allowed[t]]
        if len(turns) >= k or len(found) < n_memories:
            return turns[:k]
        n_memories += k - len(turns)


def judge(
    answer: Answer,
    gold: frozenset[int],
    ks: Sequence[int],
    allowed: NDArray[np.bool_] | None = None,
) -> dict[str, float]:
    """Every metric of one question.

    Args:
        answer: of one method.
        gold: the turns that count, at least one.
        ks: cut-offs.
        allowed: which turns count as places of the ranking; ``None`` for all.
    """
    cuts = {k: first_turns(answer, k, allowed) for k in sorted({*ks, MRR_AT, NDCG_AT})}
    values = judge_cuts({k: cuts[k] for k in ks}, gold)
    if allowed is None:
        memories = judge_cuts({k: answer(k) for k in ks}, gold)
        values |= {f"{name}_memories": value for name, value in memories.items()}
    values[f"mrr@{MRR_AT}"] = reciprocal_rank(cuts[MRR_AT], gold)
    values[f"ndcg@{NDCG_AT}"] = ndcg(cuts[NDCG_AT], gold)
    return values


def judge_cuts(cuts: Mapping[int, Sequence[int]], gold: frozenset[int]) -> dict[str, float]:
    """Recall any, all and mean of what stands within each cut-off."""
    values = {}
    for k, turns in cuts.items():
        share = len(gold.intersection(turns)) / len(gold)
        values[f"recall_any@{k}"] = float(share > 0)
        values[f"recall_all@{k}"] = float(share == 1)
        values[f"recall_mean@{k}"] = share
    return values


def reciprocal_rank(turns: Sequence[int], gold: frozenset[int]) -> float:
    """1 / rank of the first gold turn; 0 where there is none."""
    return next((1 / rank for rank, turn in enumerate(turns, 1) if turn in gold), 0.0)


def ndcg(turns: Sequence[int], gold: frozenset[int], k: int = NDCG_AT) -> float:
    """Normalised discounted cumulative gain of the first k, gain 1 for a gold turn."""
    discounts = [1 / log2(rank + 1) for rank in range(1, k + 1)]
    found = sum(d for d, turn in zip(discounts, turns, strict=False) if turn in gold)
    return found / sum(discounts[: len(gold)])


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over n questions and its bootstrap 95 % interval."""

    mean: float
    ci95: tuple[float, float]
    n: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference over n questions that two methods both answered.

    Attributes:
        mean: ours - theirs.
        ci95: questions are drawn.
        ci95_by_dialogue: whole dialogues are drawn. Questions about one dialogue are not
            independent, so this one is the more careful; with few dialogues it is itself rough.
        n: questions.
    """

    mean: float
    ci95: tuple[float, float]
    ci95_by_dialogue: tuple[float, float]
    n: int


def means(values: NDArray[np.float64], seed: int) -> list[Interval]:
    """Mean and interval of every column; questions are drawn with replacement.

    Args:
        values: (n_questions, n_columns), at least one question.
        seed: of the draws; equal seeds and n draw equal questions.
    """
    n = len(values)
    intervals = _intervals(values, np.arange(n), seed)
    mean = values.mean(axis=0).tolist()
    return [Interval(m, ci95, n) for m, ci95 in zip(mean, intervals, strict=True)]


def difference(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], groups: Sequence[str], seed: int
) -> list[Difference]:
    """The difference in every column, paired by question.

    Args:
        ours: (n_questions, n_columns) of one method, at least one question.
        theirs: the same of another, the same questions in the same order.
        groups: the dialogue of each question.
        seed: of the draws.
    """
    values = ours - theirs
    n = len(values)
    _, owners = np.unique(np.asarray(groups), return_inverse=True)
    columns = zip(
        values.mean(axis=0).tolist(),
        _intervals(values, np.arange(n), seed),
        _intervals(values, owners, seed),
        strict=True,
    )
    return [Difference(mean, ci95, by_dialogue, n) for mean, ci95, by_dialogue in columns]


def _intervals(
    values: NDArray[np.float64], owners: NDArray[np.intp], seed: int
) -> list[tuple[float, float]]:
    """The 95 % interval of every column's mean."""
    low, high = np.percentile(_resampled(values, owners, seed), (2.5, 97.5), axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _resampled(
    values: NDArray[np.float64], owners: NDArray[np.intp], seed: int
) -> NDArray[np.float64]:
    """(N_RESAMPLES, n_columns) means over groups of rows drawn with replacement."""
    n_groups = int(owners.max()) + 1
    totals = np.zeros((n_groups, values.shape[1] + 1))
    np.add.at(totals, owners, np.column_stack([values, np.ones(len(values))]))
    sums = _draws(n_groups, seed) @ totals
    return np.asarray(sums[:, :-1] / sums[:, -1:])


@lru_cache(maxsize=32)
def _draws(n: int, seed: int) -> NDArray[np.float64]:
    """(N_RESAMPLES, n) how often each of n things is drawn; the same for every method."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n, np.full(n, 1.0 / n), size=N_RESAMPLES).astype(np.float64)
