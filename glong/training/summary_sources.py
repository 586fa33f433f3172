"""Sessions with what their annotators or makers kept of them, from the research data as it lies.

What may be trained on, what is held out for tuning and what only reports is decided here: training
reads MSC valid, Synthetic-Persona-Chat valid and, in the research variant, SAMSum train and
DialogSum's first 601 and dev. MSC test and SAMSum validation are for reporting alone. An episode of
MSC valid whose id's SHA-256 is 0 modulo 10 is held out.
"""

import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from glong.errors import ConfigError, SourceError
from glong.ids import text_hash
from glong.types import Session, Turn

__all__ = [
    "EVALUATION_SETS",
    "FILES",
    "SOURCES",
    "Annotated",
    "evaluation_set",
    "is_held_out",
    "third_person",
    "training_set",
]

SOURCES = ("default", "research")
EVALUATION_SETS = ("msc_valid_heldout", "msc_test", "samsum_validation")
FILES = {
    "msc_valid": "msc/msc_valid.jsonl.gz",
    "msc_test": "msc/msc_test.jsonl.gz",
    "spc_valid": "synthetic_persona_chat/Synthetic-Persona-Chat_valid.csv.gz",
    "samsum_train": "samsum_train/samsum_train_decoded.jsonl.gz",
    "samsum_validation": "samsum_eval/val.json.gz",
    "dialogsum_train": "dialogsum/dialogsum.train.first601.jsonl.gz",
    "dialogsum_dev": "dialogsum/dialogsum.dev.jsonl.gz",
}
"""Set -> file below the data folder."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_LINE = re.compile(r"([^:\n]{1,40}): ?(.*)")
_ATTACHMENT = re.compile(r"<file_\w+>|<link>")
_PERSON = re.compile(r"#Person(\d)#")
_FIRST_PERSON = {
    "i am": "{} is",
    "i'm": "{} is",
    "im": "{} is",
    "i have": "{} has",
    "i've": "{} has",
    "i do": "{} does",
    "i don't": "{} doesn't",
    "i was": "{} was",
    "i'd": "{} would",
    "i'll": "{} will",
    "my": "{}'s",
    "i": "{}",
}


@dataclass(frozen=True, slots=True)
class Annotated:
    """A session beside the sentences that a summary of it kept.

    Attributes:
        dataset: the set that it comes from, a key of :data:`FILES`.
        session: speakers and turns.
        kept: sentences in the third person, in order.
    """

    dataset: str
    session: Session
    kept: tuple[str, ...]


def training_set(data: Path, sources: str) -> list[Annotated]:
    """Everything that a variant may learn from; no session of an evaluation set.

    Args:
        data: the folder with the data sets.
        sources: ``default`` (MSC, Synthetic-Persona-Chat) or ``research`` (SAMSum and DialogSum
            too, for non-commercial use).

    Raises:
        ConfigError: no such variant.
        SourceError: a file is missing or is not what its name says.
    """
    if sources not in SOURCES:
        raise ConfigError(f"sources is {sources!r}; allowed: {', '.join(SOURCES)}.")
    found = [one for one in _msc(data, "msc_valid") if not is_held_out(one.session.dialogue_id)]
    found += _personas(data)
    if sources == "research":
        found += [*_samsum_train(data), *_dialogsum(data)]
    reported = {
        _said(one) for name in ("msc_test", "samsum_validation") for one in _set(data, name)
    }
    return [one for one in found if _said(one) not in reported]


def evaluation_set(data: Path, name: str) -> list[Annotated]:
    """One of :data:`EVALUATION_SETS`.

    Raises:
        ConfigError: no such set.
        SourceError: a file is missing or is not what its name says.
    """
    if name not in EVALUATION_SETS:
        raise ConfigError(f"set is {name!r}; allowed: {', '.join(EVALUATION_SETS)}.")
    return list(_set(data, name))


def is_held_out(dialogue_id: str) -> bool:
    """Whether an episode of MSC valid is kept from training, for tuning."""
    return int(sha256(dialogue_id.encode()).hexdigest(), 16) % 10 == 0


def third_person(sentence: str, name: str) -> str:
    """A sentence about its speaker with the speaker's name for the first person.

    ``("I'm a nurse.", "Mira")`` -> ``"Mira is a nurse"``. Only the beginning is looked at; verbs
    beside "be", "have" and "do" stay as they are.
    """
    text = " ".join(sentence.split()).rstrip(".!? ")
    words = text.split(" ")
    for n in (2, 1):
        opening = _FIRST_PERSON.get(" ".join(words[:n]).lower().replace("\u2019", "'"))
        if opening and len(words) > n:
            return " ".join([opening.format(name), *words[n:]])
    return text


def _set(data: Path, name: str) -> Iterable[Annotated]:
    if name == "samsum_validation":
        return _samsum_validation(data)
    if name == "msc_valid_heldout":
        return (o for o in _msc(data, "msc_valid") if is_held_out(o.session.dialogue_id))
    return _msc(data, name)


def _msc(data: Path, name: str) -> Iterator[Annotated]:
    """Sessions 1 and 2 with the summary before session 3, 3 and 4 with their own ``persona_text``.

    That summary is what the later sessions' speakers were shown: annotators kept some of the facts.
    """
    for row in _rows(data, name):
        later = _sentences_of(enumerate(row["personas_before_session_3"], 1))
        for session in row["sessions"]:
            number, turns = session["session"], session["dialog"]
            if number > 4:
                continue  # session 5 has no annotation
            own = _sentences_of(
                (int(turn["speaker"][-1]), [turn["persona_text"]])
                for turn in turns
                if "persona_text" in turn
            )
            said = [(turn["speaker"], turn["text"]) for turn in turns]
            yield Annotated(
                name, _session(row["id"], f"session_{number}", said), later if number < 3 else own
            )


def _sentences_of(personas: Iterable[tuple[int, Sequence[str]]]) -> tuple[str, ...]:
    """Sentences of ``Speaker N`` in the third person, each once."""
    found = [
        third_person(sentence, f"Speaker {number}")
        for number, texts in personas
        for text in texts
        for sentence in _SENTENCE_END.split(text.strip())
        if sentence.strip()
    ]
    return tuple(dict.fromkeys(found))


def _personas(data: Path) -> Iterator[Annotated]:
    """Synthetic-Persona-Chat: conversations with the persona sentences they were written for."""
    text = _read(data, "spc_valid").decode("utf-8")
    for n, row in enumerate(csv.DictReader(io.StringIO(text))):
        try:
            lines = row["Best Generated Conversation"].splitlines()
            personas = [(i, row[f"user {i} personas"].splitlines()) for i in (1, 2)]
        except (KeyError, AttributeError) as error:
            raise _not_what_it_says(data, "spc_valid", error) from error
        kept = [third_person(s, f"User {i}") for i, texts in personas for s in texts if s.strip()]
        if said := _turns(lines):
            yield Annotated("spc_valid", _session(f"spc_{n}", "session_1", said), tuple(kept))


def _samsum_train(data: Path) -> Iterator[Annotated]:
    """Decoded without line breaks: turns are parted again before each known name."""
    for n, row in enumerate(_rows(data, "samsum_train")):
        segments: list[str] = row["dialogue_segments"]
        names = {match[1] for segment in segments if (match := _LINE.match(segment))}
        parted = re.compile(rf"\s+(?={'|'.join(map(re.escape, sorted(names))) or '$'}:)")
        lines = [line for segment in segments for line in parted.split(segment)]
        yield from _summarised("samsum_train", f"samsum_{n}", lines, row["summary"])


def _samsum_validation(data: Path) -> Iterator[Annotated]:
    name = "samsum_validation"
    try:
        rows = json.loads(_read(data, name))
        pairs = [(row["id"], row["dialogue"].splitlines(), row["summary"]) for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise _not_what_it_says(data, name, error) from error
    for dialogue_id, lines, summary in pairs:
        yield from _summarised(name, f"samsum_{dialogue_id}", lines, summary)


def _dialogsum(data: Path) -> Iterator[Annotated]:
    for name in ("dialogsum_train", "dialogsum_dev"):
        for row in _rows(data, name):
            dialogue, summary = (_PERSON.sub(r"Person \1", row[k]) for k in ("dialogue", "summary"))
            yield from _summarised(name, row["fname"], dialogue.splitlines(), summary)


def _summarised(
    dataset: str, dialogue_id: str, lines: Sequence[str], summary: str
) -> Iterator[Annotated]:
    """A dialogue of named lines with a summary in the third person; nothing without a turn."""
    said = _turns(lines)
    kept = [s.strip().rstrip(".") for s in _SENTENCE_END.split(summary.strip()) if s.strip()]
    if said:
        yield Annotated(dataset, _session(dialogue_id, "session_1", said), tuple(kept))


def _turns(lines: Iterable[str]) -> list[tuple[str, str]]:
    """``Name: text`` lines; a line without a name goes on with the turn before it."""
    turns: list[tuple[str, str]] = []
    for line in lines:
        text = " ".join(_ATTACHMENT.sub(" ", line).split())
        match = _LINE.fullmatch(text)
        if match:
            turns.append((match[1].strip(), match[2].strip()))
        elif text and turns:
            turns[-1] = (turns[-1][0], f"{turns[-1][1]} {text}".strip())
    return [(speaker, text) for speaker, text in turns if text]


def _session(dialogue_id: str, session_id: str, said: Sequence[tuple[str, str]]) -> Session:
    turns = tuple(Turn(i, speaker, text) for i, (speaker, text) in enumerate(said))
    return Session(dialogue_id, session_id, None, turns)


def _said(one: Annotated) -> str:
    """Hash of what was said, whoever said it and wherever the copy comes from."""
    words = re.findall(r"[a-z0-9]+", " ".join(turn.text.lower() for turn in one.session.turns))
    return text_hash(*words)


def _rows(data: Path, name: str) -> Iterator[Any]:
    for line in _read(data, name).splitlines():
        try:
            yield json.loads(line)
        except ValueError as error:
            raise _not_what_it_says(data, name, error) from error


def _read(data: Path, name: str) -> bytes:
    path = data / FILES[name]
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise SourceError(
            f"{path} cannot be read ({error}); --data has to be the folder with the data sets."
        ) from error


def _not_what_it_says(data: Path, name: str, error: Exception) -> SourceError:
    return SourceError(f"{data / FILES[name]} is not the set {name}: {error!r}.")
