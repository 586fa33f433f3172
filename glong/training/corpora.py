"""Readers of the training and evaluation data, as they lie in a data folder. Rows are never copied.

Training: PersonaExt without its held-out part, MSC valid, Synthetic-Persona-Chat valid, and for
research DialogRE train and dev. Evaluation: see :mod:`glong.training.judging`. Knows nothing of
labels beyond what annotators wrote.
"""

import csv
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any

from glong.errors import SourceError
from glong.ids import text_hash
from glong.training.examples import is_held_out, spoken_form

__all__ = [
    "READ",
    "SYNTHETIC_SPEAKERS",
    "ArgumentPair",
    "PersonaPair",
    "PersonaTurn",
    "data_hash",
    "dialogre_dialogues",
    "evaluation_utterances",
    "msc_dialogues",
    "persona_pairs",
    "read_gzip",
    "sentences",
    "synthetic_dialogues",
    "triple_blocks",
]

READ = ("conversation_triples", "dialogre", "locomo", "msc", "personaext", "synthetic_persona_chat")
"""Folders below the data folder that labels, or what is left out of them, come from."""
RELATION_NAMES = {"have_chidren": "have_children", "like_sports": "like_sport"}
"""Spelling of PersonaExt -> ours."""
DIALOGRE_NAMES = {
    "org:employees_or_members": "employs",
    "gpe:residents_of_place": "home_of",
    "gpe:visitors_of_place": "visited_by",
    "per:age": "has_age",
    "per:alternate_names": "name",
    "per:children": "have_children",
    "per:dates": "relationship",
    "per:employee_or_member_of": "employed_by_company",
    "per:girl/boyfriend": "relationship",
    "per:negative_impression": "dislike",
    "per:origin": "nationality",
    "per:other_family": "have_family",
    "per:parents": "have_family",
    "per:pet": "have_pet",
    "per:place_of_birth": "place_origin",
    "per:place_of_residence": "live_in_citystatecountry",
    "per:place_of_work": "employed_by_general",
    "per:positive_impression": "like_general",
    "per:roommate": "live_with",
    "per:schools_attended": "attend_school",
    "per:siblings": "have_sibling",
    "per:spouse": "relationship",
    "per:title": "has_profession",
    "per:visited_place": "visit",
}
"""Relation of DialogRE -> ours, or its inverse as listed; another keeps its name without "per:"."""
SYNTHETIC_SPEAKERS = ("User 1", "User 2")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class PersonaPair:
    """A row of PersonaExt: an utterance and one of its triplets.

    ``subject`` and ``object`` are numbers of tokens, in the row's own order.
    """

    tokens: tuple[str, ...]
    subject: tuple[int, ...]
    relation: str
    object: tuple[int, ...]

    @property
    def text(self) -> str:
        """The utterance, tokens joined by spaces."""
        return " ".join(self.tokens)


@dataclass(frozen=True, slots=True)
class PersonaTurn:
    """A turn with the sentences by which annotators said what it tells about its speaker."""

    speaker: str
    text: str
    persona: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArgumentPair:
    """A relation that DialogRE's annotators read in a dialogue.

    ``subject`` and ``object`` are names or "Speaker 2"; ``trigger`` are the words that show the
    relation, or empty.
    """

    subject: str
    relation: str
    object: str
    trigger: str


def read_gzip(path: Path) -> str:
    """The text of a gzip file.

    Raises:
        SourceError: it is not there.
    """
    try:
        return gzip.decompress(path.read_bytes()).decode("utf-8")
    except OSError as error:
        raise SourceError(
            f"{path} cannot be read ({error.strerror or error}); --data names the folder that holds"
            " personaext, msc and the others."
        ) from error


def data_hash(data: Path) -> str:
    """Identity of the files in :data:`READ`: their names and contents."""
    files = [path for name in READ for path in sorted((data / name).glob("*")) if path.is_file()]
    parts = (f"{path.parent.name}/{path.name} {_file_hash(path)}" for path in files)
    return text_hash("data", *parts)


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def persona_pairs(data: Path, *, held_out: bool) -> list[PersonaPair]:
    """PersonaExt: the part held out for evaluation, or the rest.

    Raises:
        SourceError: the file is not there.
    """
    rows = map(json.loads, read_gzip(data / "personaext/personaext_union.jsonl.gz").splitlines())
    pairs = (
        PersonaPair(
            tuple(row["tokens"]),
            tuple(row["head"]),
            RELATION_NAMES.get(row["label"], row["label"]),
            tuple(row["tail"]),
        )
        for row in rows
    )
    return [pair for pair in pairs if is_held_out(pair.text) == held_out]


def msc_dialogues(data: Path, split: str) -> Iterator[list[PersonaTurn]]:
    """Sessions of Multi-Session Chat with annotators' persona sentences; ``valid`` or ``test``.

    Raises:
        SourceError: the file is not there.
    """
    for line in read_gzip(data / f"msc/msc_{split}.jsonl.gz").splitlines():
        for session in json.loads(line)["sessions"]:
            if session["session"] <= 4:  # the fifth has no persona sentences
                yield [
                    PersonaTurn(t["speaker"], t["text"], sentences(t.get("persona_text") or ""))
                    for t in session["dialog"]
                ]


def synthetic_dialogues(
    data: Path, split: str
) -> Iterator[tuple[list[PersonaTurn], tuple[tuple[str, ...], tuple[str, ...]]]]:
    """Synthetic-Persona-Chat: turns, and the persona sentences of both users.

    Raises:
        SourceError: the file is not there.
    """
    text = read_gzip(data / f"synthetic_persona_chat/Synthetic-Persona-Chat_{split}.csv.gz")
    for row in csv.DictReader(text.splitlines(keepends=True)):
        personas = tuple(
            tuple(line.strip() for line in row[f"{user} personas"].splitlines() if line.strip())
            for user in ("user 1", "user 2")
        )
        yield list(_synthetic_turns(row["Best Generated Conversation"])), (personas[0], personas[1])


def _synthetic_turns(conversation: str) -> Iterator[PersonaTurn]:
    for line in conversation.splitlines():
        speaker, colon, text = line.partition(":")
        if colon and speaker.strip().title() in SYNTHETIC_SPEAKERS and text.strip():
            yield PersonaTurn(speaker.strip().title(), text.strip())


def dialogre_dialogues(
    data: Path, split: str
) -> Iterator[tuple[list[tuple[str, str]], list[ArgumentPair]]]:
    """DialogRE: (speaker, text) of each turn, and the dialogue's relations, by our names.

    Pairs without a relation ("unanswerable") are left out.

    Args:
        data: the data folder.
        split: ``train``, ``dev`` or ``test``.

    Raises:
        SourceError: the file is not there.
    """
    for lines, instances in json.loads(read_gzip(data / f"dialogre/{split}.json.gz")):
        turns = [(name, text.strip()) for name, _, text in (line.partition(":") for line in lines)]
        pairs = [
            ArgumentPair(
                one["x"],
                DIALOGRE_NAMES.get(relation, relation.partition(":")[2]),
                one["y"],
                trigger,
            )
            for one in instances
            for relation, trigger in zip(one["r"], one["t"], strict=True)
            if relation != "unanswerable"
        ]
        yield turns, pairs


def sentences(text: str) -> tuple[str, ...]:
    """Sentences of annotators' plain text."""
    return tuple(part.strip() for part in _SENTENCE.split(text) if part.strip())


def triple_blocks(
    path: Path,
) -> Iterator[tuple[Sequence[str], list[tuple[str, str, str, str]]]]:
    """Blocks of ``conversation_triples``: three turns and (subject, predicate, object, polarity).

    Raises:
        SourceError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.") from error
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if len(lines) >= 2:
            yield lines[1].split("<eos>"), [_triple(line) for line in lines[2:] if "," in line]


def _triple(line: str) -> tuple[str, str, str, str]:
    """An object may hold commas: the first two fields and the last are split off."""
    subject, predicate, rest = [*line.split(",", 2), "", ""][:3]
    target, _, polarity = rest.rpartition(",")
    return subject.strip(), predicate.strip(), target.strip(), polarity.strip()


def evaluation_utterances(data: Path) -> frozenset[str]:
    """Spoken forms of every utterance that an evaluation reads: training leaves them out.

    Raises:
        SourceError: a file is not there.
    """
    texts = [pair.text for pair in persona_pairs(data, held_out=True)]
    texts += [turn.text for session in msc_dialogues(data, "test") for turn in session]
    for path in sorted((data / "conversation_triples").glob("*.txt")):
        texts += [text for turns, _ in triple_blocks(path) for text in turns]
    texts += [text for turns, _ in dialogre_dialogues(data, "test") for _, text in turns]
    texts += _locomo_turns(data)
    return frozenset(map(spoken_form, texts)) - {""}


def _locomo_turns(data: Path) -> list[str]:
    dialogues: list[dict[str, Any]] = json.loads(read_gzip(data / "locomo/locomo10.json.gz"))
    return [
        turn["text"]
        for dialogue in dialogues
        for turns in dialogue["conversation"].values()
        if isinstance(turns, list)
        for turn in turns
    ]
