"""What a source is made of: checked access to raw records, and the items that a source yields.

A source is a pure generator ``sessions(record, where)`` that never raises on bad data. The
accessors of :class:`Field` raise :class:`BadItem` with a finished :class:`~glong.types.Failure`;
:func:`each` and :func:`assemble` catch it, yield the failure and go on with the siblings. Knows
nothing of files.
"""

import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar

from glong.types import Failure, Place, Session, Turn

__all__ = [
    "MAX_NAME_CHARS",
    "MAX_RAW_CHARS",
    "MAX_TURN_CHARS",
    "NO_ZONE",
    "Assumed",
    "BadItem",
    "Counted",
    "Field",
    "Found",
    "Heading",
    "Item",
    "assemble",
    "each",
    "failure",
    "is_object",
    "read_turn",
    "some_sessions",
]

MAX_TURN_CHARS = 100_000
MAX_NAME_CHARS = 1_000
MAX_RAW_CHARS = 2_000

T = TypeVar("T")
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)

NO_ZONE = "times have no zone: taken as UTC"


@dataclass(frozen=True, slots=True)
class Found:
    """A session, and the id by which the input itself would call two sessions the same one."""

    session: Session
    raw_id: str


@dataclass(frozen=True, slots=True)
class Counted:
    """Something left out on purpose, to be counted under ``name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Assumed:
    """Something that the data does not say and the source had to assume."""

    text: str


Item: TypeAlias = Found | Failure | Counted | Assumed


@dataclass(frozen=True, slots=True)
class Heading:
    """A session before its turns; ``raw_id`` defaults to the session id."""

    dialogue_id: str
    session_id: str
    started_at: datetime | None = None
    raw_id: str = ""


class BadItem(Exception):
    """One record, session or turn cannot be used; never leaves :mod:`glong.sources`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Field:
    """A raw value and where it stands: ``Field(record, place)["sessions"].items()``."""

    value: object
    place: Place

    def __getitem__(self, key: str) -> "Field":
        """A field that must be there; an absent one and ``null`` are the same."""
        field = self.get(key)
        if field is None:
            where = self._inside(f".{key}")
            message = f"{where.field} is missing; add it."
            raise BadItem(failure("missing_field", where, message, self.value))
        return field

    def get(self, key: str) -> "Field | None":
        """A field that may be absent or ``null``."""
        value = self.mapping().get(key)
        return None if value is None else Field(value, self._inside(f".{key}"))

    def first(self, *keys: str) -> "Field | None":
        """The first of the fields that is there."""
        return next((field for key in keys if (field := self.get(key))), None)

    def mapping(self) -> Mapping[str, object]:
        """The value as a JSON object."""
        if not isinstance(self.value, Mapping):
            raise self.wrong("an object")
        return self.value

    def items(self) -> "list[Field]":
        """The values of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [Field(value, self._inside(f"[{i}]")) for i, value in enumerate(self.value)]

    def string(self) -> str:
        """A string that encodes as UTF-8; may be empty."""
        if not isinstance(self.value, str):
            raise self.wrong("a string")
        if _encodable(self.value) != self.value:
            advice = "allowed: Unicode text. Repair the half surrogate pair or the broken UTF-8"
            raise self.bad("invalid_text", advice)
        return self.value

    def identifier(self) -> str:
        """The name of a dialogue or session: a string or a whole number."""
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return str(self.value)
        return self.name()

    def name(self) -> str:
        """A name, without white space around it."""
        text = self.string().strip()
        if not text:
            raise self.bad("missing_field", "allowed: a name. Add one")
        if len(text) > MAX_NAME_CHARS:
            allowed = f"at most {MAX_NAME_CHARS} characters, here are {len(text)}"
            raise self.bad("name_too_long", f"allowed: {allowed}")
        return text

    def speech(self) -> str:
        """What was said, unchanged: not blank, at most ``MAX_TURN_CHARS`` characters."""
        text = self.string()
        if not text.strip():
            raise self.bad("empty_turn", "allowed: text that is not blank. The turn is left out")
        if len(text) > MAX_TURN_CHARS:
            allowed = f"at most {MAX_TURN_CHARS} characters, here are {len(text)}"
            raise self.bad("turn_too_long", f"allowed: {allowed}. Split the turn")
        return text

    def time(self, parse: Callable[[object], datetime]) -> datetime:
        """The time as ``parse`` reads it; naive where the data has no zone."""
        try:
            return parse(self.value)
        except (ValueError, OverflowError) as error:
            raise self.bad("bad_time", str(error)) from error

    def wrong(self, allowed: str) -> BadItem:
        """The value has another type than is allowed."""
        return self.bad("wrong_type", f"allowed: {allowed}")

    def bad(self, kind: str, advice: str) -> BadItem:
        """A failure that says the value, then ``advice``: what is allowed, what to do."""
        shown = reprlib.repr(self.value)
        subject = self.place.field or "the record"
        message = f"{subject} is {shown} ({type(self.value).__name__}); {advice}."
        return BadItem(failure(kind, self.place, message, self.value))

    def _inside(self, step: str) -> Place:
        place = self.place
        return Place(place.file, place.line, (place.field + step).removeprefix("."))


def failure(kind: str, where: Place, message: str, raw: object = "") -> Failure:
    """A failure of reading whose strings are bounded and always encode as UTF-8."""
    place = Place(_encodable(where.file), where.line, _encodable(where.field))
    cut = _encodable(_rendered(raw))[:MAX_RAW_CHARS]
    return Failure("read", kind, _encodable(message), cut, place)


def is_object(value: object, *keys: str) -> bool:
    """Whether a value is a JSON object that has all the keys."""
    return isinstance(value, Mapping) and all(key in value for key in keys)


def each(values: Iterable[T], read: Callable[[T], Iterator[Item]]) -> Iterator[Item]:
    """What ``read`` finds in each value; a bad one becomes a failure and the next ones go on."""
    for value in values:
        try:
            yield from read(value)
        except BadItem as bad:
            yield bad.failure


def some_sessions(field: Field) -> list[Field]:
    """The sessions of a list that must have one."""
    sessions = field.items()
    if not sessions:
        raise field.bad("empty_dialogue", "allowed: at least one session")
    return sessions


def read_turn(field: Field, index: int) -> Turn:
    """A turn of the common shape ``{"speaker", "text"}``."""
    return Turn(index, field["speaker"].name(), field["text"].speech())


def assemble(
    heading: Heading,
    turns: Field,
    read: Callable[[Field, int], Turn | None] = read_turn,
) -> Iterator[Item]:
    """The session of a heading and its turns, with a failure for each turn that is left out.

    Args:
        heading: ids and start; without a start, the first time of a turn is taken.
        turns: the list of raw turns.
        read: a raw turn and its index -> the turn, or ``None`` for a message that is none.
    """
    kept: list[Turn] = []
    for index, field in enumerate(turns.items()):
        try:
            turn = read(field, index)
        except BadItem as bad:
            yield bad.failure
            continue
        if turn is None:
            yield Counted("skipped_messages")
        else:
            kept.append(turn)
    if not kept:
        raise turns.bad("empty_session", "allowed: at least one usable turn")
    times = [time for time in (heading.started_at, *(turn.time for turn in kept)) if time]
    if any(time.tzinfo is None for time in times):
        yield Assumed(NO_ZONE)
    started_at = _utc(times[0]) if times else None
    in_utc = tuple(replace(turn, time=_utc(turn.time)) if turn.time else turn for turn in kept)
    session = Session(heading.dialogue_id, heading.session_id, started_at, in_utc)
    yield Found(session, heading.raw_id or heading.session_id)


def _rendered(raw: object) -> str:
    """The start of a value as JSON, without rendering the rest."""
    if isinstance(raw, str):
        return raw[:MAX_RAW_CHARS]
    text = ""
    try:
        for chunk in _ENCODER.iterencode(raw):
            text += chunk
            if len(text) > MAX_RAW_CHARS:
                break
    except RecursionError:
        text += " (nested too deep)"
    return text


def _utc(time: datetime | None) -> datetime | None:
    return time.replace(tzinfo=UTC) if time and time.tzinfo is None else time


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
