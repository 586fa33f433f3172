"""Every prompt text, a constant with a version; extraction's for training and inference alike.

The system message is the same for every call, so that an engine with a prefix cache reads it once;
what changes comes last. Turns are numbered from 1 within a call. Knows nothing of windows, answers
or models.
"""

from collections.abc import Sequence

from glong.types import Message, Turn

__all__ = [
    "EXAMPLE_OBJECTS",
    "EXTRACTION_PROMPT_VERSION",
    "EXTRACTION_SYSTEM",
    "MEMORY_HEADER",
    "NO_MEMORIES",
    "RECENT_HEADER",
    "RESPONSE_PROMPT_VERSION",
    "RESPONSE_REQUEST",
    "RESPONSE_SYSTEM",
    "clean",
    "extraction_messages",
    "turn_line",
]

EXTRACTION_PROMPT_VERSION = "extraction-1"
"""Changes with the texts below or with the layout of the user message."""

# To the effect of the paper's prompt: an expert in knowledge graphs, triplets, JSON. Ours adds the
# turn's number, which ties a fact to its source. 147 tokens for SmolLM2, which a CPU has to read.
# Without an example of two turns an untuned small model answers []; placeholders it copies.
EXTRACTION_SYSTEM = (
    "You are an expert in building knowledge graphs from dialogue. Extract (subject, relation, "
    "object) triplets from the numbered turns: who is, has, does, likes, feels or plans what. "
    "Answer with a JSON list only. Use names instead of pronouns and relations in snake_case. "
    "Example:\n"
    "1. Ana: I got a puppy last week!\n"
    "2. Ben: Cool! I prefer cats.\n"
    '[{"turn": 1, "subject": "Ana", "relation": "got", "object": "a puppy last week"}, '
    '{"turn": 2, "subject": "Ben", "relation": "prefers", "object": "cats"}]\n'
    "Skip greetings and questions."
)
EXAMPLE_OBJECTS = ("a puppy last week", "cats")
"""Objects of the example above: in an answer about other turns they are copies."""

_CONTEXT_HEADER = "Earlier turns, for reference only:"
_TURNS_HEADER = "Extract triplets from these turns:"
_SPEAKER_CHARS = 60


def clean(text: str) -> str:
    """One line without control tokens, so that no turn can end its line or its message."""
    return " ".join(text.split()).replace("<|", "< |")


def turn_line(turn: Turn) -> str:
    """``speaker: text`` on one line; the name is cut at 60 characters."""
    return f"{clean(turn.speaker)[:_SPEAKER_CHARS]}: {clean(turn.text)}"


def extraction_messages(turns: Sequence[Turn], context: Sequence[Turn] = ()) -> tuple[Message, ...]:
    """The chat that asks for the facts of ``turns``; ``context`` is shown without numbers.

    Args:
        turns: what to extract from, numbered 1, 2, ... in this order.
        context: what was said just before.
    """
    lines: list[str] = []
    if context:
        lines += [_CONTEXT_HEADER, *map(turn_line, context), ""]
    lines.append(_TURNS_HEADER)
    lines += [f"{number}. {turn_line(turn)}" for number, turn in enumerate(turns, 1)]
    return Message("system", EXTRACTION_SYSTEM), Message("user", "\n".join(lines))


RESPONSE_PROMPT_VERSION = "response-1"
"""Changes with the texts below or with the layout in :mod:`glong.prompting`."""

# To the effect of the paper's figure 8: a role, the recent dialogue, the memories, the request to
# go on. Ours adds that the memories may be of no use, since a retrieval always returns some.
RESPONSE_SYSTEM = (
    "You talk with people over many sessions and remember what they told you. Answer the last "
    "message in the voice of {agent}: short, concrete, in its language. Use a memory where it "
    "helps, the newest where two disagree; do not list them, and make nothing up."
)
RECENT_HEADER = "<<CONTEXT>>\nThe recent conversation:"
MEMORY_HEADER = "<<MEMORY>>\nWhat you remember that may matter now:"
NO_MEMORIES = "(nothing)"
RESPONSE_REQUEST = "Continue the conversation as {agent}; answer {user}."
