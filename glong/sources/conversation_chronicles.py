"""Conversation Chronicles, the partial copy: fragments of the history, then ``session_5``.

There are no times. A fragment is a run of turns (``Speaker: text``) of sessions 1 to 4, in no
known order among themselves; each becomes a session of its own, ``history_01`` and so on, which
sort before ``session_5``.
"""

from collections.abc import Iterator

from glong.sources.records import (
    Assumed,
    Field,
    Heading,
    Item,
    assemble,
    each,
    is_object,
)
from glong.types import Place, Turn

__all__ = ["ASSUMED", "recognise", "sessions"]

ASSUMED = (
    "Conversation Chronicles has no times, and its history fragments no known order: "
    "sessions have no start, fragments keep the order of the file"
)


def recognise(record: object) -> str:
    """Why a record looks like Conversation Chronicles, or an empty string."""
    keys = ("session_5", "history_fragments_sessions_1_to_4")
    return f"has {keys[0]} and {keys[1]}" if is_object(record, *keys) else ""


def sessions(record: object, where: Place) -> Iterator[Item]:
    """The fragments of the history, then session 5."""
    return each([Field(record, where)], _episode)


def _episode(episode: Field) -> Iterator[Item]:
    dialogue_id = episode["id"].identifier()
    speakers = [speaker.name() for speaker in episode["speakers"].items()]
    yield Assumed(ASSUMED)
    history = episode.get("history_fragments_sessions_1_to_4")
    fragments = list(enumerate(history.items(), start=1)) if history else []

    def fragment(numbered: tuple[int, Field]) -> Iterator[Item]:
        number, lines = numbered
        split = [_split(line.value, speakers) for line in lines.items()]
        heading = Heading(dialogue_id, f"history_{number:02d}")
        yield from assemble(heading, lines, lambda line, i: _spoken(line, i, split))

    yield from each(fragments, fragment)
    yield from assemble(Heading(dialogue_id, "session_5"), episode["session_5"])


def _split(line: object, speakers: list[str]) -> tuple[str, str]:
    """Speaker, or nothing, and text of a line; a speaker's name may itself hold a colon."""
    text = line if isinstance(line, str) else ""
    speaker = next((name for name in speakers if text.startswith(f"{name}:")), "")
    return speaker, text[len(speaker) + 1 if speaker else 0 :].strip()


def _spoken(line: Field, index: int, split: list[tuple[str, str]]) -> Turn | None:
    """The turn of a line; its speaker may stand alone on the line before, which is no turn."""
    line.string()
    speaker, text = split[index]
    if speaker and not text and index + 1 < len(split) and not split[index + 1][0]:
        return None
    if not speaker and index and not split[index - 1][1]:
        speaker = split[index - 1][0]
    if not speaker:
        raise line.bad("unknown_speaker", "allowed: 'Speaker: text' with a speaker of the episode")
    return Turn(index, speaker, Field(text, line.place).speech())
