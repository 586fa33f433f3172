"""LoCoMo: a dialogue a sample, its sessions the lists ``conversation.session_<n>``.

Only speaker, text, caption, time and order are read. The questions and what a model wrote about the
conversation (``observation``, ``session_summary``, ``event_summary``, the ``query`` of a picture)
are labels or come close to them. Some samples have dates of sessions that do not exist, so the
lists lead.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from glong.sources import times
from glong.sources.records import Field, Heading, Item, assemble, each, is_object
from glong.types import Place, Turn

__all__ = ["dia_id", "recognise", "sessions", "turn_place"]

_SESSION = re.compile(r"session_([1-9][0-9]{0,8})")
_DIA_ID = re.compile(r"D([0-9]{1,9}):([0-9]{1,9})")


def turn_place(dia_id: str) -> tuple[str, int]:
    """Session id and turn index that a ``dia_id`` names: ``D1:3`` -> (``session_1``, 2).

    Leading zeros are allowed (``D30:05``). A pure function of the id: the turn need not exist.

    Raises:
        ValueError: the text is not one such id.
    """
    match = _DIA_ID.fullmatch(dia_id)
    if match is None or int(match[1]) == 0 or int(match[2]) == 0:
        raise ValueError(f"{dia_id!r} is no turn of LoCoMo; allowed: such as 'D1:3'")
    return f"session_{int(match[1])}", int(match[2]) - 1


def dia_id(session_id: str, turn_index: int) -> str:
    """The reverse of :func:`turn_place`.

    Raises:
        ValueError: the session id is not ``session_<n>``.
    """
    match = _SESSION.fullmatch(session_id)
    if match is None:
        raise ValueError(f"{session_id!r} is no session of LoCoMo; allowed: such as 'session_1'")
    return f"D{match[1]}:{turn_index + 1}"


def recognise(record: object) -> str:
    """Why a record looks like LoCoMo, or an empty string."""
    conversation = record.get("conversation") if isinstance(record, Mapping) else None
    return "has conversation.session_1" if is_object(conversation, "session_1") else ""


def sessions(record: object, where: Place) -> Iterator[Item]:
    """The sessions of one sample, by number."""
    return each([Field(record, where)], _sample)


def _sample(sample: Field) -> Iterator[Item]:
    dialogue_id = sample["sample_id"].identifier()
    conversation = sample["conversation"]
    keys = conversation.mapping()
    numbers = sorted(int(match[1]) for key in keys if (match := _SESSION.fullmatch(key)))
    if not numbers:
        raise conversation.bad("empty_dialogue", "allowed: at least one list session_<n>")
    headings = [Heading(dialogue_id, f"session_{number}") for number in numbers]
    yield from each(headings, lambda heading: _session(conversation, heading))


def _session(conversation: Field, heading: Heading) -> Iterator[Item]:
    turns = conversation[heading.session_id]
    started_at = conversation[f"{heading.session_id}_date_time"].time(times.locomo)
    yield from assemble(replace(heading, started_at=started_at), turns, _turn)


def _turn(field: Field, index: int) -> Turn:
    speaker = field["speaker"].name()
    caption = field.get("blip_caption")
    if caption is None:
        return Turn(index, speaker, field["text"].speech())
    image = f"[image: {caption.speech().strip()}]"
    text = field.get("text")
    if text is None or text.value == "":
        return Turn(index, speaker, image)
    shown = Field(f"{text.speech()} {image}", text.place)
    return Turn(index, speaker, shown.speech())
