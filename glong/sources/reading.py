"""From a file to sessions: which format it has, its sessions, and what was left out.

The one place where sources meet files, and where a session that comes twice is recognised.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TypeAlias

from glong.errors import ConfigError, SourceError
from glong.ids import content_hash, text_hash
from glong.sources import (
    conversation_chronicles,
    locomo,
    longmemeval,
    msc,
    native,
    openai_chat,
)
from glong.sources.files import Raw, raw_records
from glong.sources.records import Assumed, Counted, Found, Item, failure
from glong.types import Failure, Place, Session

__all__ = ["FORMATS", "Detection", "Reader", "detect"]

Source: TypeAlias = Callable[[object, Place], Iterator[Item]]

_SOURCES: dict[str, Source] = {
    "native": native.sessions,
    "openai_chat": openai_chat.sessions,
    "locomo": locomo.sessions,
    "longmemeval": longmemeval.sessions,
    "msc": msc.sessions,
    "conversation_chronicles": conversation_chronicles.sessions,
}
_RECOGNISERS: dict[str, Callable[[object], str]] = {
    "native": native.recognise,
    "openai_chat": openai_chat.recognise,
    "locomo": locomo.recognise,
    "longmemeval": longmemeval.recognise,
    "msc": msc.recognise,
    "conversation_chronicles": conversation_chronicles.recognise,
}
FORMATS = tuple(_SOURCES)
"""Every format by name; ``auto`` looks which one it is."""

HEAD = 100
"""Records that detection looks at before it gives up."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The format of a file and, for a person, why it was taken for that."""

    format: str
    reason: str


def detect(path: str) -> Detection:
    """The format of a file, from the first record that can be read (of the first ``HEAD``).

    Raises:
        SourceError: no record has the shape of a known format.
    """
    seen = ""
    for raw in islice(raw_records(path), HEAD):
        if isinstance(raw, Failure):
            continue
        for name, recognise in _RECOGNISERS.items():
            if reason := recognise(raw.value):
                return Detection(name, f"{path}: record {raw.place.line} {reason}")
        seen = seen or f"record {raw.place.line} is {_outline(raw.value)}"
    raise SourceError(
        f"{path}: no format is recognised ({seen or 'no record can be read'}); "
        f"allowed: {', '.join(FORMATS)}. Name one, or bring the records into the native form."
    )


class Reader:
    """The sessions of one file, and a failure for each thing that could not be read.

    Each iteration reads the file anew. Memory: one record, and two hashes for each session seen.

    Attributes:
        path: as the user gave it; the file of every :class:`~glong.types.Place`.
        counts: of the last iteration: ``sessions``, ``turns``, ``failures``, ``duplicates`` (left
            out, same content), ``renamed`` (same id, other content), ``skipped_messages``.
    """

    def __init__(self, path: str, format_name: str = "auto") -> None:
        if format_name != "auto" and format_name not in FORMATS:
            allowed = ", ".join(("auto", *FORMATS))
            raise ConfigError(f"format is {format_name!r}; allowed: {allowed}.")
        self.path = path
        self.counts: Counter[str] = Counter()
        self._format_name = format_name
        self._assumed: dict[str, None] = {}

    @cached_property
    def detection(self) -> Detection:
        """The format, and why.

        Raises:
            SourceError: it was to be found out and cannot be.
        """
        if self._format_name == "auto":
            return detect(self.path)
        return Detection(self._format_name, f"{self.path}: as asked for")

    @property
    def format(self) -> str:
        """The format's name; see :attr:`detection` for what it raises."""
        return self.detection.format

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the data did not say and was assumed, in the last iteration."""
        return tuple(self._assumed)

    def __iter__(self) -> Iterator[Session | Failure]:
        """Sessions and failures, in the order of the file."""
        self.counts.clear()
        self._assumed.clear()
        once = _Once()
        for item in self._items():
            match item:
                case Found():
                    session = once.admit(item)
                    if session is None:
                        self.counts["duplicates"] += 1
                        continue
                    self.counts["sessions"] += 1
                    self.counts["turns"] += len(session.turns)
                    if session.session_id != item.session.session_id:
                        self.counts["renamed"] += 1
                    yield session
                case Failure():
                    self.counts["failures"] += 1
                    yield item
                case Counted(name):
                    self.counts[name] += 1
                case Assumed(text):
                    self._assumed[text] = None

    def _items(self) -> Iterator[Item]:
        try:
            sessions = _SOURCES[self.format]
        except SourceError as error:
            yield from _unrecognised(self.path, str(error))
            return
        for raw in _dialogues(raw_records(self.path), self.format, self.path):
            if isinstance(raw, Failure):
                yield raw
            else:
                yield from sessions(raw.value, raw.place)


class _Once:
    """Recognises what comes twice in one file, by hashes of ids and content."""

    def __init__(self) -> None:
        self._contents: set[str] = set()
        self._uses: dict[str, int] = {}

    def admit(self, found: Found) -> Session | None:
        """The session, its id made unique; ``None`` if its raw id came with this content before."""
        session = found.session
        content = text_hash(session.dialogue_id, found.raw_id, content_hash(session))
        if content in self._contents:
            return None
        self._contents.add(content)
        return replace(session, session_id=self._free(session.dialogue_id, session.session_id))

    def _free(self, dialogue_id: str, session_id: str) -> str:
        """The id, or with the next suffix ``#2``, ``#3`` that no session of the dialogue has."""
        key = text_hash(dialogue_id, session_id)
        while True:
            uses = self._uses.get(key, 0) + 1
            self._uses[key] = uses
            if uses == 1:
                return session_id
            suffixed = f"{session_id}#{uses}"
            suffixed_key = text_hash(dialogue_id, suffixed)
            if suffixed_key not in self._uses:
                self._uses[suffixed_key] = 1
                return suffixed


def _dialogues(
    raws: Iterator[Raw | Failure], format_name: str, path: str
) -> Iterator[Raw | Failure]:
    """The records; a chat log whose records are single messages is one record, their list."""
    if format_name != "openai_chat":
        yield from raws
        return
    messages: list[object] = []
    single: bool | None = None
    for raw in raws:
        if single is None and isinstance(raw, Raw):
            single = openai_chat.is_message(raw.value)
        if single and isinstance(raw, Raw):
            messages.append(raw.value)
        else:
            yield raw
    if messages:
        yield Raw(messages, Place(path, 1))


def _unrecognised(path: str, message: str) -> Iterator[Failure]:
    """Why a file gives no session: its records that cannot be read, or their shape."""
    head = list(islice(raw_records(path), HEAD))
    broken = [raw for raw in head if isinstance(raw, Failure)]
    yield from broken
    if not head:
        yield failure("empty_file", Place(path), f"{path}: the file has no record; remove it.")
    elif len(broken) < len(head):
        shown = next(raw.value for raw in head if isinstance(raw, Raw))
        yield failure("unknown_format", Place(path), message, shown)
    elif len(head) == HEAD:
        yield failure("unknown_format", Place(path), message)


def _outline(value: object) -> str:
    """A record's shape in a few words."""
    if isinstance(value, dict):
        return f"an object with the keys {', '.join(map(str, islice(value, 8)))}"
    return f"of type {type(value).__name__}"
