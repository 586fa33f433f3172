"""The native form: ``{"dialogue_id", "sessions": [{"session_id", "started_at", "turns": [...]}]}``.

A turn is ``{"speaker", "text", "time"?}``. Times are RFC 3339; one without a zone is taken as
UTC. Ids may be whole numbers. Parquet of the same shape gives the same records, with times as
timestamps.
"""

from collections.abc import Iterator
from dataclasses import replace

from glong.sources import times
from glong.sources.records import (
    Field,
    Heading,
    Item,
    assemble,
    each,
    is_object,
    read_turn,
    some_sessions,
)
from glong.types import Place, Turn

__all__ = ["recognise", "sessions"]


def recognise(record: object) -> str:
    """Why a record looks native, or an empty string."""
    return "has dialogue_id and sessions" if is_object(record, "dialogue_id", "sessions") else ""


def sessions(record: object, where: Place) -> Iterator[Item]:
    """The sessions of one dialogue."""
    return each([Field(record, where)], _dialogue)


def _dialogue(dialogue: Field) -> Iterator[Item]:
    dialogue_id = dialogue["dialogue_id"].identifier()
    raw_sessions = some_sessions(dialogue["sessions"])
    yield from each(raw_sessions, lambda session: _session(session, dialogue_id))


def _session(session: Field, dialogue_id: str) -> Iterator[Item]:
    session_id = session["session_id"].identifier()
    started_at = session["started_at"].time(times.rfc3339)
    yield from assemble(Heading(dialogue_id, session_id, started_at), session["turns"], _turn)


def _turn(field: Field, index: int) -> Turn:
    turn = read_turn(field, index)
    time = field.get("time")
    return replace(turn, time=time.time(times.rfc3339)) if time else turn
