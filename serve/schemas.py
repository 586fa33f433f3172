"""What goes over the wire: pydantic models with bounds and examples; the OpenAPI document.

Times are RFC 3339 with a zone on the way in and UTC on the way out. Knows nothing of the store but
which ids it keeps for itself.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from glong.sources.records import MAX_NAME_CHARS, MAX_TURN_CHARS
from glong.store import is_by_hand

__all__ = [
    "ERRORS",
    "MAX_BODY_BYTES",
    "MAX_K",
    "ChangedOut",
    "Correction",
    "DialogueOut",
    "Dialogues",
    "EdgeOut",
    "ErrorOut",
    "FactIn",
    "GraphOut",
    "HitOut",
    "Id",
    "IdText",
    "IngestOut",
    "Name",
    "PageSize",
    "ReceiptOut",
    "RespondIn",
    "RespondOut",
    "RetrieveIn",
    "RetrieveOut",
    "SessionId",
    "SessionIn",
    "SessionOut",
    "Sessions",
    "Text",
    "TurnIn",
    "TurnIndex",
    "TurnOut",
    "UsageOut",
    "recent_texts",
]

MAX_BODY_BYTES = 8 * 2**20
MAX_TURNS = 5_000
MAX_QUERY_CHARS = 20_000
MAX_RECENT = 50
MAX_K = 50
MAX_PAGE = 500
_ID_CHARS = 256
_PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
_NUMBER = re.compile(r"\s*[-+]?[\d.]+(?:[eE][-+]?\d+)?\s*")


def _utf8(text: str) -> str:
    """Refuse lone surrogates, which JSON can spell and no store can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("has a lone surrogate; send valid Unicode") from error
    return text


def _of_a_talk(session_id: str) -> str:
    """Refuse the ids under which facts by hand are stored."""
    if is_by_hand(session_id):
        raise ValueError(
            "is reserved for facts stated by hand; give the session another id, or post facts to"
            " .../facts"
        )
    return session_id


def _written_out(time: object) -> object:
    """Not a number, which would pass for seconds since 1970."""
    if isinstance(time, int | float) or (isinstance(time, str) and _NUMBER.fullmatch(time)):
        raise ValueError("a time is written out, as in 2026-01-05T10:00:00Z")
    return time


def _utc(time: datetime) -> datetime:
    """The same moment in UTC."""
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is outside the years 1 to 9999 in UTC") from error


Text = Annotated[str, AfterValidator(_utf8)]
Name = Annotated[Text, Field(min_length=1, max_length=MAX_NAME_CHARS)]
IdText = Annotated[Text, Field(min_length=1, max_length=_ID_CHARS, pattern=_PRINTABLE)]
SessionId = Annotated[IdText, AfterValidator(_of_a_talk)]
Time = Annotated[AwareDatetime, BeforeValidator(_written_out), AfterValidator(_utc)]
Id = Annotated[str, Path(min_length=1, max_length=_ID_CHARS, pattern=_PRINTABLE)]
TurnIndex = Annotated[int, Path(ge=0, lt=2**31)]
PageSize = Annotated[int, Query(ge=1, le=MAX_PAGE, description="rows of one page")]


def _with_example(**example: Any) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]})


class ErrorBody(BaseModel):
    """Why a request was not answered."""

    type: str = Field(examples=["not_found"])
    message: str
    hint: str
    request_id: str


class ErrorOut(BaseModel):
    """The body of every error."""

    error: ErrorBody


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorOut} for status in (401, 403, 404, 413, 422, 429, 500, 501, 502, 503)
}
"""For every route."""


class TurnIn(BaseModel):
    """One utterance."""

    model_config = _with_example(speaker="Mira", text="I got a greyhound.")
    speaker: Name
    text: Annotated[Text, Field(max_length=MAX_TURN_CHARS)]
    time: Time | None = None


class SessionIn(BaseModel):
    """A session to remember; posting it again changes nothing, a longer one replaces it."""

    model_config = _with_example(
        session_id="2026-01-05",
        started_at="2026-01-05T10:00:00Z",
        turns=[{"speaker": "Mira", "text": "I got a greyhound."}],
    )
    session_id: SessionId
    started_at: Time | None = Field(None, description="event time; default: that of the store, now")
    turns: Annotated[list[TurnIn], Field(min_length=1, max_length=MAX_TURNS)]


class IngestOut(BaseModel):
    """What became of a session."""

    dialogue_id: str
    session_id: str
    status: Literal["built", "unchanged", "failed", "forgotten"]
    n_turns: int
    n_triplets: int
    n_edges: int
    n_failures: int
    store_version: int


RecentTurn = Annotated[Text, Field(max_length=MAX_QUERY_CHARS)] | TurnIn


class RetrieveIn(BaseModel):
    """A question to one memory."""

    model_config = _with_example(query="Which pet does Mira have?", k=3)
    query: Annotated[Text, Field(min_length=1, max_length=MAX_QUERY_CHARS)]
    recent: Annotated[list[RecentTurn], Field(max_length=MAX_RECENT)] = []
    k: Annotated[int, Field(ge=1, le=MAX_K)] = 3
    profile: Literal["hybrid", "paper"] = "hybrid"
    now: Time | None = Field(None, description="time of the question; default: the clock's")
    as_of: Time | None = Field(None, description="answer as of then; default: all that is known")


class TurnOut(BaseModel):
    """A turn with its place."""

    session_id: str
    index: int
    speaker: str
    text: str
    time: datetime | None


class EdgeOut(BaseModel):
    """One fact."""

    id: str
    subject: str
    relation: str
    object: str
    weight: float
    created_at: datetime | None
    accessed_at: datetime | None
    valid_to: datetime | None = Field(description="when a later fact closed it; null if none did")
    closed_by: str | None = Field(description="the edge that closed it")
    session_id: str
    turn_index: int


class HitOut(BaseModel):
    """One memory: its best triplet, why it was chosen, and the turn that it comes from."""

    subject: str
    relation: str
    object: str
    score: float
    parts: dict[str, float]
    edges: list[EdgeOut]
    turn: TurnOut


class RetrieveOut(BaseModel):
    """The memories that answer a question, best first."""

    hits: list[HitOut]
    factors: dict[str, float] = Field(
        description="part -> its factor here; a score is the sum of parts times factors"
    )
    store_version: int
    timings_ms: dict[str, float]


class UsageOut(BaseModel):
    """Tokens; those of the prompt, and how they were counted."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    counted_by: str = Field(examples=["model"])


class RespondIn(BaseModel):
    """A message to answer with what is remembered."""

    model_config = _with_example(message="What should we cook for Mira?", k=3)
    message: Annotated[Text, Field(min_length=1, max_length=MAX_QUERY_CHARS)]
    recent: Annotated[list[RecentTurn], Field(max_length=MAX_RECENT)] = []
    k: Annotated[int, Field(ge=1, le=MAX_K)] = 3
    profile: Literal["hybrid", "paper"] = "hybrid"
    now: Time | None = None
    stream: bool = False
    max_tokens: Annotated[int, Field(ge=1, le=32_768)] = 512
    agent: Name = "the assistant"
    user: Name = "the user"


class RespondOut(BaseModel):
    """An answer and the memories that stood in its prompt."""

    response: str
    memories: list[HitOut]
    usage: UsageOut
    finished: bool
    store_version: int


class DialogueOut(BaseModel):
    """One memory in a list."""

    dialogue_id: str
    n_sessions: int
    n_turns: int
    n_edges: int
    first_at: datetime | None
    last_at: datetime | None


class Dialogues(BaseModel):
    """A page of memories; ``next`` is the cursor of the following page, if there is one."""

    dialogues: list[DialogueOut]
    next: str | None


class SessionOut(BaseModel):
    """One session in a list."""

    session_id: str
    started_at: datetime | None
    status: str
    n_turns: int
    n_triplets: int
    n_edges: int
    n_entities: int
    n_failures: int


class Sessions(BaseModel):
    """A page of sessions, by start."""

    sessions: list[SessionOut]
    next: str | None


class NodeOut(BaseModel):
    """An entity."""

    id: str
    name: str
    aliases: list[str]
    n_edges: int


class GraphEdgeOut(EdgeOut):
    """A fact between two nodes, with the words that it comes from and when it holds."""

    head: str
    tail: str
    valid_from: datetime | None
    turn: TurnOut


class GraphOut(BaseModel):
    """One memory as a graph."""

    dialogue_id: str
    nodes: list[NodeOut]
    edges: list[GraphEdgeOut]
    n_turns: int
    store_version: int


class FactIn(BaseModel):
    """A fact stated by hand; kept through rebuilds."""

    model_config = _with_example(subject="Mira", relation="has_pet", object="a greyhound")
    subject: Name
    relation: Name
    object: Name
    time: Time | None = Field(None, description="since when it holds; default: the session's start")
    session_id: IdText | None = Field(None, description="what it is about; forgotten with it")


class Correction(BaseModel):
    """What of a fact is to be put right; the rest stays."""

    model_config = _with_example(object="a whippet")
    subject: Name | None = None
    relation: Name | None = None
    object: Name | None = None


class ChangedOut(BaseModel):
    """The edge that states the fact now, and the version from which on it is visible."""

    edge_id: str
    store_version: int


class ReceiptOut(BaseModel):
    """What was forgotten."""

    scope: Literal["dialogue", "session", "turn", "edge", "entity"]
    dialogue_id: str
    forgotten_at: datetime
    rows: dict[str, int] = Field(description="table -> rows that no reader sees any more")
    versions: dict[str, int] = Field(description="table -> the first version without them")
    purge_due: bool = Field(description="whether they are still on the disk, until a purge")


def recent_texts(recent: Sequence[str | TurnIn]) -> tuple[str, ...]:
    """Turns before a message, as they are read."""
    return tuple(t if isinstance(t, str) else f"{t.speaker}: {t.text}" for t in recent)
