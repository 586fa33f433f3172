"""Memories as tools of a language model, by the Model Context Protocol.

The one place that says what the tools are called, what they take and return, and what they are
for. Where the memories are is the caller's: ``glong mcp`` has a store, ``python -m serve.mcp`` a
service. Needs the extra ``mcp``; importing this module without it is a :class:`ConfigError`.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, Protocol

from glong._version import __version__
from glong.errors import GlongError
from glong.models.extras import extra

with extra("mcp"):
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations
    from pydantic import AwareDatetime, Field

__all__ = [
    "Fact",
    "Forgotten",
    "Kept",
    "Memories",
    "Recalled",
    "Recollection",
    "Said",
    "said_document",
    "tool_server",
]

MAX_HITS = 20
_INSTRUCTIONS = (
    "A long-term memory of conversations. Call retrieve before you answer something that may have"
    " been said earlier, add_session after a conversation, and forget when a user asks for it."
)


@dataclass(frozen=True, slots=True)
class Said:
    """One utterance of a session."""

    speaker: Annotated[str, Field(min_length=1, description="Name of who says it, e.g. 'Mira'.")]
    text: Annotated[str, Field(description="What is said, word for word.")]
    time: Annotated[
        AwareDatetime | None, Field(description="When; the session's start if left out.")
    ] = None


def said_document(said: Said) -> dict[str, str]:
    """An utterance as JSON, in the native form."""
    time = {"time": said.time.isoformat()} if said.time else {}
    return {"speaker": said.speaker, "text": said.text, **time}


# What a tool returns has no slots: the protocol's library takes them for defaults.
@dataclass(frozen=True)
class Kept:
    """What became of a session; the numbers are of what is new."""

    status: Literal["built", "unchanged", "failed"]
    n_turns: int
    n_facts: int


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact with the id by which it can be forgotten."""

    edge_id: str
    subject: str
    relation: str
    object: str
    held_until: Annotated[
        datetime | None, Field(description="when a later fact took its place; null if none did")
    ]


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was said, by whom and when, with the facts that it states."""

    speaker: str
    said: str
    time: datetime | None
    facts: list[Fact]
    session_id: str
    turn_index: int
    score: float


@dataclass(frozen=True)
class Recollection:
    """Memories, best first; none where nothing fits."""

    memories: list[Recalled]


@dataclass(frozen=True)
class Forgotten:
    """Table -> rows that nobody sees any more."""

    scope: str
    rows: dict[str, int]


class Memories(Protocol):
    """Where the memories are; every method raises :class:`~glong.errors.GlongError`."""

    def add_session(
        self,
        dialogue_id: str,
        turns: Sequence[Said],
        *,
        session_id: str,
        started_at: datetime | None,
    ) -> Kept:
        """Remember a session."""
        ...

    def retrieve(
        self, dialogue_id: str, query: str, *, recent: Sequence[str], k: int
    ) -> list[Recalled]:
        """What answers a query, best first."""
        ...

    def forget(
        self,
        dialogue_id: str,
        *,
        session_id: str | None,
        turn_index: int | None,
        edge_id: str | None,
        entity: str | None,
        turns: bool,
    ) -> Forgotten:
        """Forget a part of a memory, or all of it if no part is named."""
        ...


_Id = Annotated[str, Field(min_length=1, max_length=256)]
_DialogueId = Annotated[
    _Id, Field(description="Whose memory: one id for each user or conversation, e.g. 'user-7'.")
]


class _Tools:
    """The tools; a docstring is what the model reads."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories

    def add_session(
        self,
        dialogue_id: _DialogueId,
        session_id: Annotated[
            _Id, Field(description="Id of the session within the memory, e.g. '2026-01-05'.")
        ],
        turns: Annotated[list[Said], Field(min_length=1, description="All turns, in order.")],
        started_at: Annotated[
            AwareDatetime | None,
            Field(description="RFC 3339 with a zone, e.g. 2026-01-05T10:00:00Z; default: now."),
        ] = None,
    ) -> Kept:
        """Remember a session of a conversation: its turns, and the facts that they state.

        Adding the same session again changes nothing. With other turns it replaces what was stored
        under its id, so give all turns of the session each time. The status "failed" means that the
        turns are stored, but no fact could be read from them.
        """
        try:
            return self._memories.add_session(
                dialogue_id, turns, session_id=session_id, started_at=started_at
            )
        except GlongError as error:
            raise ToolError(str(error)) from error

    def retrieve(
        self,
        dialogue_id: _DialogueId,
        query: Annotated[str, Field(min_length=1, description="A question or message.")],
        recent: Annotated[
            tuple[str, ...],
            Field(description="The last turns before it, oldest first; what 'she' and 'it' mean."),
        ] = (),
        k: Annotated[int, Field(ge=1, le=MAX_HITS, description="Memories at most.")] = 5,
    ) -> Recollection:
        """Recall what was said that answers a question: turns with speaker, time and facts."""
        try:
            found = self._memories.retrieve(dialogue_id, query, recent=recent, k=k)
        except GlongError as error:
            raise ToolError(str(error)) from error
        return Recollection(found)

    def forget(
        self,
        dialogue_id: _DialogueId,
        session_id: Annotated[str | None, Field(description="A session to forget.")] = None,
        turn_index: Annotated[
            int | None, Field(ge=0, description="With session_id: only this turn, from 0.")
        ] = None,
        edge_id: Annotated[str | None, Field(description="A fact to forget.")] = None,
        entity: Annotated[
            str | None, Field(description="A person or thing to forget, by name.")
        ] = None,
        turns: Annotated[
            bool, Field(description="With entity: also every turn that it speaks or is named in.")
        ] = False,
        everything: Annotated[bool, Field(description="Forget the whole memory.")] = False,
    ) -> Forgotten:
        """Forget for good: a session, a turn, a fact, a person or thing, or the whole memory.

        Name one of session_id, edge_id and entity, or say everything=true. Retrieve first: it tells
        the ids. What is forgotten cannot be brought back.
        """
        named = [part is not None for part in (session_id, edge_id, entity)]
        if sum(named) + everything != 1 or (turn_index is not None and session_id is None):
            raise ToolError(
                "What to forget is not clear. Give one of: session_id (with turn_index for one of"
                " its turns), edge_id, entity, or everything=true."
            )
        try:
            return self._memories.forget(
                dialogue_id,
                session_id=session_id,
                turn_index=turn_index,
                edge_id=edge_id,
                entity=entity,
                turns=turns,
            )
        except GlongError as error:
            raise ToolError(str(error)) from error


def tool_server(memories: Memories) -> MCPServer:
    """A server of the tools; ``run()`` speaks over standard input and output until they close."""
    server: MCPServer = MCPServer(
        "glong", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    tools = _Tools(memories)
    kinds: dict[Callable[..., Any], ToolAnnotations] = {
        tools.add_session: ToolAnnotations(destructive_hint=False, idempotent_hint=True),
        tools.retrieve: ToolAnnotations(read_only_hint=True),
        tools.forget: ToolAnnotations(destructive_hint=True, idempotent_hint=True),
    }
    for tool, kind in kinds.items():
        server.add_tool(tool, description=inspect.getdoc(tool), annotations=kind)
    return server
