"""Memories, recent dialogue and a message -> the prompt of one answer (METHOD section 2, step 6).

Pure: the time is an argument, and tokens are counted by a counter that the caller gives, or
estimated, which the prompt then says. Every text in it that people wrote is kept on one line, so
that no turn can pose as another part of the prompt.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from glong import prompts
from glong.types import Edge, Hit, Message, Prompt, Turn

__all__ = [
    "ESTIMATE",
    "Counter",
    "Layout",
    "age_text",
    "build_prompt",
    "estimate_tokens",
    "memory_block",
    "memory_lines",
    "with_memories",
]

Counter = Callable[[str], int]
"""Text -> number of tokens."""
ESTIMATE = "estimate: 4 UTF-8 bytes a token"
_BYTES_PER_TOKEN = 4
_AGES = (("year", 365.25 * 86_400), ("month", 30.44 * 86_400), ("week", 7 * 86_400))
_SHORT_AGES = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def estimate_tokens(text: str) -> int:
    """Tokens by a rule of thumb for English: a quarter of the bytes, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a prompt looks and is counted.

    Attributes:
        agent: in whose voice to answer.
        user: who wrote the message.
        ages: say how old each memory is, and quote its source turn, which keeps what a triplet
            loses; the paper's prompt does neither.
        count: tokens of a text.
        counted_by: what to call the counter.
    """

    agent: str = "the assistant"
    user: str = "the user"
    ages: bool = True
    count: Counter = estimate_tokens
    counted_by: str = ESTIMATE


def build_prompt(
    message: str,
    hits: Sequence[Hit],
    recent: Sequence[str] = (),
    *,
    now: datetime,
    layout: Layout = Layout(),
) -> Prompt:
    """The whole prompt of one answer: instruction, recent dialogue, memories, current message.

    Args:
        message: what the user says now.
        hits: the memories, best first.
        recent: the last turns before it as they should be read, oldest first.
        now: time of the message, aware; ages count from it.
        layout: names, ages, counter.
    """
    agent, user = prompts.clean(layout.agent), prompts.clean(layout.user)
    parts = []
    if recent:
        parts.append("\n".join([prompts.RECENT_HEADER, *map(prompts.clean, recent)]))
    parts.append(memory_block(hits, now=now, ages=layout.ages))
    parts.append(prompts.RESPONSE_REQUEST.format(agent=agent, user=user))
    parts.append(f"{user}: {prompts.clean(message)}")
    messages = (
        Message("system", prompts.RESPONSE_SYSTEM.format(agent=agent)),
        Message("user", "\n\n".join(parts)),
    )
    return _counted(messages, layout)


def with_memories(
    messages: Sequence[Message],
    hits: Sequence[Hit],
    *,
    now: datetime,
    layout: Layout = Layout(),
) -> Prompt:
    """A chat with the memories added to its system message, which is made if there is none.

    The chat's own words stay as they are. Into the first message, since many chat templates allow a
    system message only there.
    """
    block = memory_block(hits, now=now, ages=layout.ages)
    if messages and messages[0].role == "system":
        first = Message("system", f"{messages[0].content}\n\n{block}")
        return _counted((first, *messages[1:]), layout)
    system = prompts.RESPONSE_SYSTEM.format(agent=prompts.clean(layout.agent))
    return _counted((Message("system", f"{system}\n\n{block}"), *messages), layout)


def _counted(messages: tuple[Message, ...], layout: Layout) -> Prompt:
    n_tokens = sum(layout.count(message.content) for message in messages)
    return Prompt(messages, n_tokens, layout.counted_by)


def memory_block(hits: Sequence[Hit], *, now: datetime, ages: bool) -> str:
    """The memories under their header, one a line."""
    lines = memory_lines(hits, now=now, ages=ages)
    return "\n".join([prompts.MEMORY_HEADER, *(lines or [prompts.NO_MEMORIES])])


def memory_lines(hits: Sequence[Hit], *, now: datetime, ages: bool) -> list[str]:
    """``s -r-> o`` for each triplet, best hit first; equal lines once.

    With ages each hit ends with its turn's words; the paper's prompt knows only triplets.
    """
    return list(dict.fromkeys(line for hit in hits for line in _lines(hit, now, ages)))


def _lines(hit: Hit, now: datetime, ages: bool) -> Iterator[str]:
    for edge in hit.edges:
        yield _fact(edge) + (_age(edge.created_at or hit.turn.time, now) if ages else "")
    if ages:
        yield _quote(hit.turn) + _age(hit.turn.time, now)


def _fact(edge: Edge) -> str:
    subject, relation, object_ = map(prompts.clean, (edge.subject, edge.relation, edge.object))
    return f"{subject} -{relation}-> {object_}"


def _quote(turn: Turn) -> str:
    return f'{prompts.clean(turn.speaker)} said: "{prompts.clean(turn.text)}"'


def _age(time: datetime | None, now: datetime) -> str:
    return "" if time is None else f" ({age_text(time, now)})"


def age_text(time: datetime, now: datetime) -> str:
    """How long ago, in the largest unit that fits, cut down; a time to come counts as now."""
    seconds = max(0.0, (now - time).total_seconds())
    for unit, length in (*_AGES, *_SHORT_AGES):
        n = int(seconds // length)
        if n:
            return f"{n} {unit}{'s' if n > 1 else ''} ago"
    return "just now"
