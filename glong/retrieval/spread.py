"""The best turns -> k hits that differ: not the same words twice, not one session alone. Pure."""

import re

import numpy as np
from numpy.typing import NDArray

__all__ = ["AGAIN", "asks_for_several", "different", "in_same_session"]

Floats = NDArray[np.float32]
Order = NDArray[np.intp]

AGAIN = -0.6
"""Factor of the part ``again``: how many better hits the same session has, where several are asked
for. Of -.3, -.6 and -1 the best on the questions that the other factors were learnt on."""
_SAME = 0.97
"""Cosine from which two turns say the same."""
_SEVERAL = re.compile(
    r"\bhow (?:many|much)\b|\btotal\b|\border\b(?! to\b)|\bdifferent\b|\ball (?:the|my|of|our)\b",
    re.IGNORECASE,
)


def asks_for_several(text: str) -> bool:
    """Whether a query counts, adds up, orders or lists: its answer is spread over sessions."""
    return bool(_SEVERAL.search(text))


def in_same_session(score: Floats, sessions: NDArray[np.int64], n: int) -> tuple[Floats, Order]:
    """Choose again and again the best turn, those of a session already chosen from set back.

    Args:
        score: (C,) of each candidate.
        sessions: (C,) number of its session.
        n: how many are chosen so; the rest follows by score.

    Returns:
        (C,) of how many chosen before it each shares the session, and the order.
    """
    again = np.zeros(len(score), np.float32)
    left = score.copy()
    chosen: list[int] = []
    for _ in range(min(n, len(score))):
        best = int(left.argmax())
        chosen.append(best)
        left[best] = -np.inf
        same = (sessions == sessions[best]) & (left > -np.inf)
        again[same] += 1
        left[same] += np.float32(AGAIN)
    rest = np.argsort(-left, kind="stable")[: len(score) - len(chosen)]
    return again, np.concatenate([np.array(chosen, np.intp), rest])


def different(
    vectors: Floats, turns: NDArray[np.int64], order: Order, n: int
) -> tuple[Order, Order]:
    """Part the order: turns that say something else than a better one, and those that say it again.

    Args:
        vectors: (T, d) of all turns.
        turns: (C,) index of each candidate.
        order: (C,) places of candidates, best first.
        n: of the first kind, at least if there are as many; what follows is not looked at.
    """
    first = vectors[turns[order[:n]]]
    if np.count_nonzero(first @ first.T >= _SAME) <= len(first):  # each only with itself
        return order, order[:0]
    kept: list[int] = []
    again: list[int] = []
    for i in order.tolist():
        if len(kept) == n:
            break
        said = vectors[turns[kept]] @ vectors[turns[i]] if kept else np.zeros(1)
        (again if said.max() >= _SAME else kept).append(i)
    return np.array(kept, np.intp), np.array(again, np.intp)
