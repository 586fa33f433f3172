"""Learning the factors of :mod:`glong.retrieval.hybrid` from questions with known turns. Pure.

A question's candidates compete in one softmax; the loss is the mean over its gold turns of their
negative log probability (listwise, as ListNet's top one). Every part has two factors, one for
dialogues whose speakers say equally much and one for those where one speaker says nearly all; a
dialogue takes the mixture that its ``one_sided`` says. Convex, solved by L-BFGS-B within the signs
that a part may have, so the same data gives the same factors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

__all__ = ["Asked", "fit"]

_ANY_SIGN = frozenset({"length", "first_person", "asks", "answers"})
_NOT_ABOVE_0 = frozenset({"closed"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """The candidates of one question.

    Attributes:
        parts: part -> (C,) values.
        is_gold: (C,) whether the turn answers it.
        one_sided: of its dialogue, 0 to 1.
        share: how much the question counts.
    """

    parts: Mapping[str, NDArray[np.float32]]
    is_gold: NDArray[np.bool_]
    one_sided: float
    share: float


def fit(
    asked: Sequence[Asked], parts: Sequence[str], *, shrink: float = 2.0, tie: float = 10.0
) -> dict[str, tuple[float, float]]:
    """Part -> its factor where speakers are equal, and where one says all.

    Args:
        asked: questions; those without a gold candidate are left out.
        parts: which parts may count.
        shrink: of each factor towards 0, in units of the part's standard deviation.
        tie: of the two factors towards each other, in the same units.

    Raises:
        ValueError: no question has a gold candidate.
    """
    rows = [one for one in asked if one.is_gold.any()]
    if not rows:
        raise ValueError(f"No question of {len(asked)} has a gold turn among its candidates.")
    values = np.concatenate([np.stack([one.parts[p] for p in parts], 1) for one in rows])
    scale = values.std(0).astype(np.float64) + 1e-6
    lengths = np.array([len(one.is_gold) for one in rows])
    side = np.repeat([one.one_sided for one in rows], lengths)[:, None]
    both = np.concatenate([values / scale * (1 - side), values / scale * side], axis=1)
    target = np.concatenate([one.is_gold / one.is_gold.sum() for one in rows])
    share = np.repeat([one.share for one in rows], lengths)
    starts = np.cumsum(lengths) - lengths
    n = len(parts)

    def loss(b: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = both @ b
        highest = np.maximum.reduceat(scores, starts)
        powers = np.exp(scores - np.repeat(highest, lengths))
        totals = np.add.reduceat(powers, starts)
        log_p = scores - np.repeat(highest + np.log(totals), lengths)
        gap = b[:n] - b[n:]
        value = -(share * target * log_p).sum() + shrink * (b @ b) + tie * (gap @ gap)
        slope = both.T @ (share * (powers / np.repeat(totals, lengths) - target))
        slope += 2 * shrink * b + 2 * tie * np.concatenate([gap, -gap])
        return float(value), slope

    found = minimize(
        loss, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=[_bounds(p) for p in parts] * 2
    )
    equal, one_side = found.x[:n] / scale, found.x[n:] / scale
    return {p: (float(equal[i]), float(one_side[i])) for i, p in enumerate(parts)}


def _bounds(part: str) -> tuple[float | None, float | None]:
    if part in _ANY_SIGN:
        return None, None
    return (None, 0.0) if part in _NOT_ABOVE_0 else (0.0, None)
