"""A query and what it finds, as values."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Query", "Scored", "query_text"]

N_RECENT = 2
"""Turns of the recent dialogue that join a query."""
_RECENT_CHARS = 2_000
"""Of each, its end: a long text before a question is no part of it, and takes long to encode."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Query:
    """What is asked of one memory.

    Attributes:
        text: the question or message.
        vector: float32 (d,), unit length, of :func:`query_text`.
        now_s: time of the query, seconds since 1970 UTC.
        recent: texts of the last turns before it, oldest first; what its pronouns stand for.
        as_of_s: answer as of this time: later turns do not count, and a fact that a later one
            closed holds if it held then; ``None`` for all that is known.
    """

    text: str
    vector: NDArray[np.float32]
    now_s: float
    recent: tuple[str, ...] = ()
    as_of_s: float | None = None


def query_text(text: str, recent: tuple[str, ...] = ()) -> str:
    """What the encoder reads of a query: the end of the recent dialogue, then the query."""
    return "\n".join((*(said[-_RECENT_CHARS:] for said in recent[-N_RECENT:]), text))


@dataclass(frozen=True, slots=True)
class Scored:
    """One hit by number.

    Attributes:
        turn: index of the turn in the graph.
        edges: its triplets, best first; may be none where the turn itself was found.
        score: the combination.
        parts: name -> value before its factor.
    """

    turn: int
    edges: tuple[int, ...]
    score: float
    parts: Mapping[str, float]
