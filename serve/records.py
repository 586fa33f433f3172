"""What travels between the replicas: small values that can be pickled."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from glong.types import Retrieval, Turn, Vectors

__all__ = [
    "Answered",
    "Ask",
    "Changed",
    "Document",
    "FactChange",
    "Forget",
    "Ingested",
    "Posted",
    "Question",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a client asks of one memory.

    ``recent`` are the turns before, oldest first; ``now`` is the moment of the answer if it is
    ``None``.
    """

    tenant: str
    dialogue_id: str
    query: str
    recent: tuple[str, ...] = ()
    k: int = 3
    profile: str = "hybrid"
    now: datetime | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question with its time and its vector, shape (d,), of the query with its recent turns."""

    question: Question
    vector: Vectors
    now: datetime


@dataclass(frozen=True, slots=True)
class Answered:
    """The hits, how long each step took, and what parts count.

    Attributes:
        retrieval: the hits.
        timings_ms: step -> milliseconds.
        factors: part of a score -> its factor.
    """

    retrieval: Retrieval
    timings_ms: Mapping[str, float]
    factors: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A session to commit.

    Attributes:
        tenant: whose.
        dialogue_id: its memory.
        session_id: its id.
        started_at: event time; ``None``: that of the store, else now.
        turns: in order, numbered from 0.
        append: the turns come after those that are stored for the session, and have their times.
    """

    tenant: str
    dialogue_id: str
    session_id: str
    started_at: datetime | None
    turns: tuple[Turn, ...]
    append: bool = False


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of a posted session.

    Attributes:
        status: ``built``, ``unchanged``, ``failed`` (no model could read it; its turns are there),
            ``pending`` (a cause that may pass; nothing is stored) or ``forgotten``.
        counts: ``n_turns``, ``n_triplets``, ``n_edges``, ``n_failures``.
        store_version: from which on it is visible.
    """

    status: str
    counts: Mapping[str, int]
    store_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """What to forget: the whole dialogue unless something narrower is named.

    With ``turns`` also every turn that the entity speaks or is named in.
    """

    tenant: str
    dialogue_id: str
    session_id: str | None = None
    turn_index: int | None = None
    edge_id: str | None = None
    entity: str | None = None
    turns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChange:
    """A fact stated by hand, or, with ``edge_id``, what of that edge is put right.

    ``session_id`` is the session that a new fact is about; forgetting it forgets the fact.
    """

    tenant: str
    dialogue_id: str
    edge_id: str | None = None
    subject: str | None = None
    relation: str | None = None
    object: str | None = None
    time: datetime | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The edge that states the fact now, and the version from which on it is visible."""

    edge_id: str
    store_version: int


Document = dict[str, Any]
"""JSON, but for times."""
