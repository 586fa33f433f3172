"""Facts, hits and times as text for people."""

from collections.abc import Sequence
from datetime import datetime

from glong.types import Edge, Hit

__all__ = ["fact_text", "history_text", "hits_text", "shorten", "time_text"]

LONGEST_TURN = 400
"""Characters of a turn that are shown to people; programs get all of it."""
MOST_PARTS = 6
"""Parts of a score that are shown to people; programs get all of them."""


def fact_text(edge: Edge) -> str:
    """``Mira -live_in-> Bergen``, and until when where a later fact closed it."""
    until = f"until {time_text(edge.valid_to)}" if edge.valid_to else "no longer"
    closed = f"  ({until})" if edge.closed_by else ""
    return f"{edge.subject} -{edge.relation}-> {edge.object}{closed}"


def hits_text(hits: Sequence[Hit]) -> str:
    """Each hit's facts, the best one with the score, then its turn; or the turn alone."""
    if not hits:
        return "No memory answers this."
    return "\n".join(_hit_text(rank, hit) for rank, hit in enumerate(hits, 1))


def _hit_text(rank: int, hit: Hit) -> str:
    said = shorten(hit.turn.text, LONGEST_TURN)
    lines = [*map(fact_text, hit.edges), f"{hit.turn.speaker}, {time_text(hit.turn.time)}: {said}"]
    lines[0] += f"  [{hit.score:.2f}: {_parts_text(hit)}]"
    return f"{rank}. " + "\n   ".join(lines)


def _parts_text(hit: Hit) -> str:
    """The largest parts of the score; ``--json`` has all."""
    ranked = sorted(hit.parts.items(), key=lambda part: -abs(part[1]))[:MOST_PARTS]
    kept = hit.parts if len(hit.parts) <= MOST_PARTS else dict(ranked)
    n_more = len(hit.parts) - len(kept)
    shown = ", ".join(f"{name} {value:.2f}" for name, value in kept.items())
    return f"{shown}, {n_more} more" if n_more else shown


def history_text(facts: Sequence[Edge]) -> str:
    """A line a fact, with the time from which it holds and where it was said."""
    if not facts:
        return "No such fact was ever said."
    return "\n".join(
        f"{time_text(fact.created_at):<16}  {fact_text(fact)}"
        f"  [session {fact.session_id}, turn {fact.turn_index}]"
        for fact in facts
    )


def time_text(time: datetime | None) -> str:
    """To the minute, in UTC."""
    return f"{time:%Y-%m-%d %H:%M}" if time else "no time"


def shorten(text: str, length: int) -> str:
    """On one line, and cut to ``length`` characters; any script, also one without spaces."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 3].rstrip() + "..."
