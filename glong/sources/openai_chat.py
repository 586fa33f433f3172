"""Chat logs of OpenAI's form: ``{"messages": [{"role", "content"}]}`` or a list of messages.

One record is one session. Which dialogue it belongs to, that is, which memory it feeds:

- a record with ``dialogue_id`` or ``user`` is a session of that dialogue, named by its
  ``session_id``, ``conversation_id`` or ``id``;
- any other is a dialogue of its own, named by its ``conversation_id`` or ``id``, with the one
  session ``session_id`` or ``session_1``.

A name that is absent is made from the file's name and the record's number (``chats-000007``), so
that names sort in order. Speakers are the message's ``name`` or else its role. Messages of
system, developer, tools and functions are skipped and counted, as are tool calls without text.
Pictures and other parts that are not text stay visible as ``[image]``, ``[audio]``, ``[file]``.
The start is ``created_at``, ``create_time``, ``created`` or the first message's time; times are
epoch seconds or RFC 3339.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from glong.sources import times
from glong.sources.records import Field, Heading, Item, assemble, each, is_object
from glong.types import Place, Turn

__all__ = ["is_message", "recognise", "sessions"]

SPEAKING = ("user", "assistant")
SKIPPED = ("system", "developer", "tool", "function")
TIME_KEYS = ("created_at", "create_time", "created", "timestamp")


def is_message(record: object) -> bool:
    """Whether a record is a single message: a file of those is one dialogue."""
    return is_object(record, "role", "content")


def recognise(record: object) -> str:
    """Why a record looks like a chat log, or an empty string."""
    if is_object(record, "messages"):
        return "has messages"
    if is_message(record):
        return "has role and content: the file is one list of messages"
    if isinstance(record, list) and record and is_message(record[0]):
        return "is a list of messages"
    return ""


def sessions(record: object, where: Place) -> Iterator[Item]:
    """The one session of a record."""
    return each([Field(record, where)], _chat)


def _chat(chat: Field) -> Iterator[Item]:
    if isinstance(chat.value, list):
        heading = _heading(Field({}, chat.place))
        yield from assemble(heading, chat, _turn)
    else:
        yield from assemble(_heading(chat), chat["messages"], _turn)


def _heading(chat: Field) -> Heading:
    numbered = f"{_stem(chat.place.file)}-{chat.place.line:06d}"
    owner = chat.first("dialogue_id", "user")
    own_keys = ("conversation_id", "id")
    if owner:
        dialogue_id = owner.identifier()
        session_id = _identifier(chat.first("session_id", *own_keys), numbered)
    else:
        dialogue_id = _identifier(chat.first(*own_keys), numbered)
        session_id = _identifier(chat.get("session_id"), "session_1")
    time = chat.first(*TIME_KEYS)
    started_at = time.time(times.epoch_or_rfc3339) if time else None
    return Heading(dialogue_id, session_id, started_at)


def _identifier(field: Field | None, default: str) -> str:
    return field.identifier() if field else default


def _stem(file: str) -> str:
    """A file's name without its suffixes: ``chats.jsonl.gz`` -> ``chats``."""
    return PurePosixPath(file).name.split(".")[0] or "chat"


def _turn(field: Field, index: int) -> Turn | None:
    role = field["role"]
    if role.value in SKIPPED or (role.value == "assistant" and _only_calls_tools(field)):
        return None
    if role.value not in SPEAKING:
        raise role.bad("unknown_role", f"allowed: {', '.join((*SPEAKING, *SKIPPED))}")
    text = _content(field["content"])
    turn = Turn(index, (field.get("name") or role).name(), text)
    time = field.first(*TIME_KEYS)
    return replace(turn, time=time.time(times.epoch_or_rfc3339)) if time else turn


def _only_calls_tools(message: Field) -> bool:
    content = message.get("content")
    calls = message.first("tool_calls", "function_call")
    return calls is not None and (content is None or content.value in ("", []))


def _content(content: Field) -> str:
    if not isinstance(content.value, list):
        return content.speech()
    parts = [text for part in content.items() if (text := _part(part))]
    return Field("\n".join(parts), content.place).speech()


def _part(part: Field) -> str:
    """A part's text, or in brackets what kind of part it is."""
    if isinstance(part.value, str):
        return part.value
    kind = part["type"].name()
    if kind in ("text", "input_text", "output_text"):
        return part["text"].string()
    if kind == "refusal":
        return part["refusal"].string()
    for word in ("image", "audio", "video", "file"):
        if word in kind:
            return f"[{word}]"
    return f"[{kind}]"
