"""Every prompt text for extraction, a constant with a version: training and inference build the same chat.

The system message is the same for every call, so that an engine with a prefix cache reads it once; what
changes comes last. Turns are numbered from 1 within a call. Knows nothing of windows, answers or models.
"""

from collections.abc import Sequence

from glong.types import Message, Turn

__all__ = [
    "EXTRACTION_PROMPT_VERSION",
    "EXTRACTION_SYSTEM",
    "clean",
    "extraction_messages",
    "turn_line",
]

EXTRACTION_PROMPT_VERSION = "extraction-1"
"""Changes with the text below or with the layout of the user message."""

# The paper's appendix to the same effect: an expert in knowledge graphs, triplets, JSON. Ours adds the turn's
# number, which ties a fact to its source. 112 tokens for SmolLM2: a small model on a CPU has to read it.
EXTRACTION_SYSTEM = """\
You are an expert in building knowledge graphs from dialogue. Extract the facts that the numbered turns state \
as (subject, relation, object) triplets. Answer with a JSON list only, one object for each fact, with the keys \
"turn" (its number), "subject", "relation" (a verb in snake_case) and "object" (a short phrase). Use names \
instead of pronouns. Keep what people are, have, do, like, feel and plan. Skip greetings and questions. If there \
is no fact, answer []."""

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
