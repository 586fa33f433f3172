"""The records that flow through glong: frozen, slotted, without behaviour.

Knows nothing of Arrow, models, Ray or HTTP. Times are aware ``datetime`` objects in UTC, or
``None`` where the data has none. Indices of turns count from 0 within their session.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Edge",
    "Entity",
    "Extraction",
    "Failure",
    "Generation",
    "GenerationRequest",
    "Hit",
    "Message",
    "Place",
    "Prompt",
    "Receipt",
    "Response",
    "Retrieval",
    "Session",
    "Triplet",
    "Turn",
    "Usage",
    "Vectors",
]

Vectors = NDArray[np.float32]
"""Shape (n, dimension), float32, each row of unit length."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance.

    Attributes:
        index: position in the session's input, from 0; a dropped bad turn leaves a gap.
        speaker: the name as displayed.
        text: what was said; a caption of a shared picture is part of it.
        time: when, if the data says it by turn; else the session's start counts.
    """

    index: int
    speaker: str
    text: str
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a dialogue: the unit of work.

    Attributes:
        dialogue_id: the scope of one memory; unique within a tenant.
        session_id: unique within the dialogue; where the data has no times, ids sort in its order.
        started_at: event time in UTC; ``None`` where the data has none.
        turns: in order, at least one.
    """

    dialogue_id: str
    session_id: str
    started_at: datetime | None
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Triplet:
    """One extracted fact, tied to the turn that states it (``turn_index`` is a ``Turn.index``)."""

    subject: str
    relation: str
    object: str
    turn_index: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where in an input a record stands: file, 1-based line or record number, field path."""

    file: str = ""
    line: int = 0
    field: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One item that could not be processed: stored, counted, never dropped.

    Attributes:
        stage: ``read``, ``extract``, ``weigh``, ``embed`` or ``write``.
        kind: a short snake_case word to count by, such as ``missing_field``.
        message: what was wrong, what is allowed, what to do.
        raw: the offending input or model output, cut to a bounded length.
        place: where it stood in the input, for failures of reading.
        turn_index: the turn, or the first turn of the window, for failures of a model; else -1.
        transient: the cause may pass by itself (an endpoint was down): a later run tries again.
    """

    stage: str
    kind: str
    message: str
    raw: str = ""
    place: Place = Place()
    turn_index: int = -1
    transient: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One call of a language model, as a value. Greedy: temperature is always 0.

    Attributes:
        messages: the chat, in order.
        max_tokens: the most tokens to generate.
        json_schema: JSON text of a schema that constrains the output, or empty for free text.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    json_schema: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of model calls: read (``tokens_in``) and written (``tokens_out``)."""

    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """Add two usages."""
        return Usage(self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out)


@dataclass(frozen=True, slots=True)
class Generation:
    """The answer to one request: text, or why this one request failed.

    Attributes:
        text: what the model wrote.
        usage: tokens read and written.
        finished: the model stopped by itself (not at ``max_tokens``).
        failure: set when this request alone failed; ``text`` is then empty.
    """

    text: str
    usage: Usage = Usage()
    finished: bool = True
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor found in one session.

    Attributes:
        triplets: in order of their turns; several a turn, none for most turns.
        failures: windows or items that could not be read.
        usage: tokens over all windows of the session.
        n_windows: model calls made for the session.
    """

    triplets: tuple[Triplet, ...] = ()
    failures: tuple[Failure, ...] = ()
    usage: Usage = Usage()
    n_windows: int = 0


@dataclass(frozen=True, slots=True)
class Entity:
    """A node: normalised id, display name, other spellings."""

    entity_id: str
    name: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A fact in the graph with its provenance.

    Attributes:
        edge_id: hash of session, turn and content.
        subject: display name of the tail-to-head start.
        relation: snake_case relation.
        object: display name.
        weight: importance within the session, in (0, 1]; equation (3).
        created_at: event time, or ``None``.
        accessed_at: last retrieval, or ``created_at``.
        session_id: source session.
        turn_index: source turn.
        valid_to: when a later fact closed this one; ``None`` where none did, or at no known time.
        closed_by: edge id of that later fact; empty where the fact still holds.
    """

    edge_id: str
    subject: str
    relation: str
    object: str
    weight: float
    created_at: datetime | None
    accessed_at: datetime | None
    session_id: str
    turn_index: int
    valid_to: datetime | None = None
    closed_by: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved memory: a turn with its triplets, or a triplet with its source turn.

    Attributes:
        turn: what was said, by whom and when.
        session_id: the turn's session.
        edges: the triplets that count, best first; none where only the turn was found.
        score: the combination of the parts.
        parts: name of each part of the score -> its value before its factor.
    """

    turn: Turn
    session_id: str
    edges: tuple[Edge, ...]
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def edge(self) -> Edge | None:
        """The best triplet, if any."""
        return self.edges[0] if self.edges else None

    @property
    def subject(self) -> str:
        """Display name of the best triplet's subject; of the speaker where there is none."""
        return self.edges[0].subject if self.edges else self.turn.speaker

    @property
    def relation(self) -> str:
        """Relation of the best triplet; ``said`` where there is none."""
        return self.edges[0].relation if self.edges else "said"

    @property
    def object(self) -> str:
        """Display name of the best triplet's object; the turn's text where there is none."""
        return self.edges[0].object if self.edges else self.turn.text


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The hits of one query, best first, and the version of the store that answered."""

    hits: tuple[Hit, ...]
    store_version: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a language model is asked: the memories and the recent dialogue in its messages.

    Attributes:
        messages: the chat, in order; the current message is the last one or the end of it.
        n_tokens: length of the messages' texts in tokens.
        counted_by: how they were counted; an estimate says so.
    """

    messages: tuple[Message, ...]
    n_tokens: int
    counted_by: str


@dataclass(frozen=True, slots=True)
class Response:
    """An answer with what it rests on.

    Attributes:
        text: what the model wrote.
        memories: the memories that were in the prompt, best first.
        usage: tokens as the model counted them.
        finished: the model stopped by itself (not at the limit).
        prompt: what was asked.
        store_version: the version of the store that the memories come from.
    """

    text: str
    memories: tuple[Hit, ...]
    usage: Usage
    finished: bool
    prompt: Prompt
    store_version: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was forgotten, for whoever asked for it.

    Attributes:
        scope: ``dialogue``, ``session``, ``turn``, ``edge`` or ``entity``.
        dialogue_id: of the memory.
        forgotten_at: when, in UTC.
        rows: table -> rows that no reader sees any more; tables without any are left out.
        versions: table -> the first version without them.
        purge_due: whether they are still on the disk, in old versions and files.
    """

    scope: str
    dialogue_id: str
    forgotten_at: datetime
    rows: Mapping[str, int]
    versions: Mapping[str, int]
    purge_due: bool
