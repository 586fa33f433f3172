"""LongMemEval: a dialogue a question, its sessions the haystack.

Labels must not leak. The ids of evidence sessions begin with ``answer_`` and ``has_answer``
stands only on their turns, so neither reaches a session: sessions are named by their position in
the input, from ``session_001``, and of a turn only role and content are read. The raw id serves
for one thing: telling whether the haystack holds one session twice.
"""

from collections.abc import Iterator

from glong.sources import times
from glong.sources.records import (
    Field,
    Heading,
    Item,
    assemble,
    each,
    is_object,
    some_sessions,
)
from glong.types import Place, Turn

__all__ = ["recognise", "session_id", "sessions"]

ROLES = ("user", "assistant")


def session_id(position: int) -> str:
    """Name of the haystack's session at a position from 0: ``session_001``."""
    return f"session_{position + 1:03d}"


def recognise(record: object) -> str:
    """Why a record looks like LongMemEval, or an empty string."""
    return "has haystack_sessions" if is_object(record, "question_id", "haystack_sessions") else ""


def sessions(record: object, where: Place) -> Iterator[Item]:
    """The haystack of one question, in the order of the input."""
    return each([Field(record, where)], _question)


def _question(question: Field) -> Iterator[Item]:
    dialogue_id = question["question_id"].identifier()
    haystack = some_sessions(question["haystack_sessions"])
    dates = question["haystack_dates"].items()
    raw_ids = question["haystack_session_ids"].items()
    if not len(haystack) == len(dates) == len(raw_ids):
        lengths = f"{len(haystack)} sessions, {len(dates)} dates, {len(raw_ids)} ids"
        raise question.bad(
            "unequal_lists", f"allowed: haystack lists of one length, here {lengths}"
        )

    def session(position: int) -> Iterator[Item]:
        started_at = dates[position].time(times.longmemeval)
        raw_id = raw_ids[position].identifier()
        heading = Heading(dialogue_id, session_id(position), started_at, raw_id)
        yield from assemble(heading, haystack[position], _turn)

    yield from each(range(len(haystack)), session)


def _turn(field: Field, index: int) -> Turn:
    role = field["role"]
    if role.value not in ROLES:
        raise role.bad("unknown_role", f"allowed: {' or '.join(ROLES)}")
    return Turn(index, role.name(), field["content"].speech())
