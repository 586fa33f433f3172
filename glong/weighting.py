"""Importance of a triplet within its session: equations (1) to (3), without a model.

Knows how the triplets of a session become source text, how a long session is cut into windows, and
how cross-attention becomes one score a triplet and then a weight. Knows nothing of T5 or torch:
:mod:`glong.models.t5` brings the attention, and training reads its prompts from here.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glong.errors import ModelError
from glong.types import Edge, Triplet

__all__ = [
    "SEPARATOR",
    "SOURCE_PREFIX",
    "merge_windows",
    "normalise",
    "plan_windows",
    "pool",
    "summary_mask",
    "triplet_text",
    "turn_text",
]

SOURCE_PREFIX = "summarize:"
"""What T5 was trained to read before a text to summarise; its tokens belong to no triplet."""

SEPARATOR = "."
"""Ends every triplet in the source; its tokens belong to no triplet."""

SMALLEST = float(np.finfo(np.float32).tiny)
"""Smallest normal float32. Weights are stored as float32 and must stay above 0 there."""


def triplet_text(triplet: Triplet | Edge) -> str:
    """The one text of a fact, for the scorer's source and for the edge's vector.

    ``("Mira", "likes", "grilled peppers")`` -> ``"Mira likes grilled peppers"``; underscores of the
    relation become spaces, runs of white space one space.
    """
    relation = triplet.relation.replace("_", " ")
    return " ".join(f"{triplet.subject} {relation} {triplet.object}".split())


def turn_text(speaker: str, text: str) -> str:
    """The one text of a turn, for its vector."""
    return f"{speaker}: {text}"


def plan_windows(
    token_counts: Sequence[int], max_tokens: int, overlap_tokens: int
) -> tuple[slice, ...]:
    """Cut a session into windows of whole triplets, so that none is left out.

    Args:
        token_counts: for each triplet its tokens, separator included.
        max_tokens: the most tokens of a window, 1 or more.
        overlap_tokens: the most tokens of whole triplets that a window shares with the one before.

    Returns:
        Slices over the triplets, in order; each brings at least one triplet that the one before it
        lacks. A triplet longer than ``max_tokens`` is a window of its own, which the caller cuts.
    """
    n, windows, start = len(token_counts), [], 0
    while start < n:
        stop = start + 1
        while stop < n and sum(token_counts[start : stop + 1]) <= max_tokens:
            stop += 1
        windows.append(slice(start, stop))
        if stop == n:
            break
        start = _next_start(token_counts[: stop + 1], start + 1, max_tokens, overlap_tokens)
    return tuple(windows)


def _next_start(counts: Sequence[int], start: int, max_tokens: int, overlap_tokens: int) -> int:
    """First triplet of the next window, which must have room for the last of ``counts``."""
    last = len(counts) - 1
    while start < last and (
        sum(counts[start:last]) > overlap_tokens or sum(counts[start:]) > max_tokens
    ):
        start += 1
    return start


def summary_mask(summary: NDArray[np.int64], eos_id: int) -> NDArray[np.bool_]:
    """Which generated tokens are y_1 to y_M: all up to the end token, which counts, none after it.

    Args:
        summary: (n, T) generated ids without the decoder's start token, padded on the right.
        eos_id: the end token.

    Returns:
        (n, T), true for summary tokens.
    """
    is_eos = summary == eos_id
    n_before = np.cumsum(is_eos, axis=1) - is_eos
    return np.asarray(n_before == 0, dtype=np.bool_)


def pool(
    attention: NDArray[np.floating],
    source_spans: Sequence[tuple[int, int]],
    target_mask: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Raw scores S of one window: equations (1) and (2).

    Args:
        attention: (H, T, N) cross-attention of the last decoder layer: heads, summary tokens,
            source tokens.
        source_spans: for each triplet its source tokens [start, stop).
        target_mask: (T,), false where a summary is padded (METHOD section 3, row 3).

    Returns:
        (n_triplets,), above 0: mass that underflows counts as the smallest float32.
    """
    mean_of_heads = attention.astype(np.float64).mean(axis=0)  # (T, N), equation (1)
    mass = mean_of_heads[target_mask].sum(axis=0)  # (N,)
    scores = np.array([mass[start:stop].sum() for start, stop in source_spans], dtype=np.float64)
    # `maximum` keeps a NaN, so that `normalise` can refuse it.
    return np.asarray(np.maximum(scores, SMALLEST))


def merge_windows(
    windows: Sequence[slice],
    scores: Sequence[NDArray[np.float64]],
    token_counts: Sequence[int],
) -> NDArray[np.float64]:
    """One score a triplet from the windows of its session.

    Attention of one summary token sums to 1 over its window, so a triplet in a short window gets
    more of it than in a long one. A window's scores are therefore multiplied by its share of the
    session's tokens (1 if it is the only window: equation (2) to the letter). A triplet in two
    windows gets the mean of its two values.

    Args:
        windows: slices from :func:`plan_windows`, which cover every triplet.
        scores: for each window the scores of its triplets.
        token_counts: for each triplet its tokens.

    Returns:
        (n_triplets,).
    """
    n = len(token_counts)
    total, n_values = np.zeros(n), np.zeros(n)
    for window, values in zip(windows, scores, strict=True):
        share = sum(token_counts[window]) / sum(token_counts)
        total[window] += values * share
        n_values[window] += 1
    return np.asarray(np.maximum(total / n_values, SMALLEST))


def normalise(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights w of one session: equation (3), w_k = S(t_k) / max S.

    Args:
        scores: (n,) raw scores of one session; may be empty.

    Returns:
        (n,) in (0, 1], the largest exactly 1.0; still above 0 as float32.

    Raises:
        ModelError: a score is not finite or not above 0.
    """
    bad = scores[~(np.isfinite(scores) & (scores > 0))]
    if bad.size:
        raise ModelError(
            f"The scorer gave a score of {bad[0]}; allowed: finite and above 0.",
            hint="Check the weights of the scorer's model.",
        )
    if not scores.size:
        return np.zeros(0)
    return np.asarray(np.maximum(scores / scores.max(), SMALLEST))
