"""Multi-Session Chat: a dialogue an episode, sessions 1 to 4, and 5 where it is there.

``persona_text`` and the personas are annotations and are not read. No session has a date.
Sessions 1 and 2 say how long before session 3 they took place; the gaps after it are not in the
data. So session 3 gets a nominal instant, and sessions 4 and 5 a nominal gap, that of figure 6 of
the paper (a memory of a session "5 days 1 hour" before session 3 is 13 days and 1 hour old in
session 5).
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from glong.sources import times
from glong.sources.records import (
    Assumed,
    Field,
    Heading,
    Item,
    assemble,
    each,
    is_object,
    some_sessions,
)
from glong.types import Place

__all__ = ["ASSUMED", "GAP", "SESSION_3", "recognise", "sessions"]

SESSION_3 = datetime(2021, 7, 15, 12, tzinfo=UTC)
GAP = timedelta(days=4)
ASSUMED = (
    "MSC has no dates: session 3 is put at 2021-07-15T12:00:00Z, "
    "sessions 4 and 5 each 4 days after the one before"
)


def recognise(record: object) -> str:
    """Why a record looks like MSC, or an empty string."""
    raw_sessions = record.get("sessions") if isinstance(record, Mapping) else None
    first = raw_sessions[0] if isinstance(raw_sessions, list) and raw_sessions else None
    return "has sessions[0].dialog" if is_object(first, "session", "dialog") else ""


def sessions(record: object, where: Place) -> Iterator[Item]:
    """The sessions of one episode."""
    return each([Field(record, where)], _episode)


def _episode(episode: Field) -> Iterator[Item]:
    dialogue_id = episode["id"].identifier()
    raw_sessions = some_sessions(episode["sessions"])
    yield Assumed(ASSUMED)
    yield from each(raw_sessions, lambda session: _session(session, dialogue_id))


def _session(session: Field, dialogue_id: str) -> Iterator[Item]:
    number = session["session"]
    if type(number.value) is not int or not 1 <= number.value <= 5:
        raise number.bad("wrong_type", "allowed: a session's number, 1 to 5")
    started_at = _started_at(session, number.value)
    heading = Heading(dialogue_id, f"session_{number.value}", started_at)
    yield from assemble(heading, session["dialog"])


def _started_at(session: Field, number: int) -> datetime:
    if number >= 3:
        return SESSION_3 + (number - 3) * GAP
    return session["time_back_at_session_3"].time(lambda value: SESSION_3 - times.ago(value))
