"""Data of ``train_extractor``: windows of turns as inference cuts them, with their triplets."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any

from glong import extraction
from glong.config import ExtractorSpec
from glong.errors import ConfigError, SourceError
from glong.ids import text_hash
from glong.training.corpora import data_hash
from glong.training.datasets import LABELS, Teacher, persona_dialogues, training_dialogues
from glong.training.examples import Fact, LabelledDialogue, is_held_out, windows
from glong.types import GenerationRequest, Session, Triplet, Turn
from jobs.progress import say

__all__ = ["FOLDERS", "Lesson", "draw", "lessons", "split"]

FOLDERS = {
    "PersonaExt": "personaext",
    "MSC valid": "msc",
    "Synthetic-Persona-Chat valid": "synthetic_persona_chat",
}
"""Set -> folder below the data folder."""
BELIEVED = "believed.pt"
"""Where ``train_tagger`` keeps its teacher's answers."""
_LOOK_SHARE = 50
"""One lesson of so many is for looks."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One call of the model, and the triplets that it should answer with.

    ``source`` is that of the dialogue: personaext, msc, synthetic, persona or composed.
    """

    source: str
    window: extraction.Window
    triplets: tuple[Triplet, ...]

    def request(self, spec: ExtractorSpec) -> GenerationRequest:
        """The very request of inference."""
        return extraction.chat(self.window, spec)


def lessons(
    data: Path,
    relations: Path | None,
    work: Path,
    spec: ExtractorSpec,
    *,
    n_composed: int,
    seed: int,
) -> list[Lesson]:
    """All lessons; made on the first call, read from ``work`` after it.

    Args:
        data: the data folder.
        relations: folder of a tagger's training whose teacher names relations; else verbs stay.
        work: folder for what can be made anew.
        spec: decides the windows.
        n_composed: exchanges made of plain sentences.
        seed: of what is drawn.

    Raises:
        ConfigError: the teacher's answers are missing or of other data.
        SourceError: a data file is missing, or the data gives no lesson.
    """
    named = _hash(_believed(relations)) if relations else "verbs"
    numbers = (spec.window_turns, spec.context_turns, spec.window_chars, n_composed, seed)
    name = text_hash("lessons", LABELS, data_hash(data), named, *map(str, numbers))[:12]
    path = work / f"lessons-{name}.jsonl"
    if not path.exists():
        say("Reading the data; this takes a few minutes and is kept.")
        teacher = _kept_teacher(data, _believed(relations)) if relations else _no_teacher
        dialogues = training_dialogues(data, teacher, n_composed=n_composed, seed=seed)
        work.mkdir(parents=True, exist_ok=True)
        made = path.with_name(path.name + ".tmp")
        with made.open("w", encoding="utf-8") as file:
            for lesson in _merged(one for d in dialogues for one in _cut(d, spec)):
                file.write(json.dumps(asdict(lesson), ensure_ascii=False) + "\n")
        made.rename(path)
    with path.open(encoding="utf-8") as file:
        found = [_lesson(json.loads(line)) for line in file]
    if not found:
        raise SourceError(f"{data} gives no window of {spec.window_turns} turns; give fewer turns.")
    return found


def _lesson(row: dict[str, Any]) -> Lesson:
    def turns(values: Iterable[dict[str, Any]]) -> tuple[Turn, ...]:
        return tuple(Turn(**value) for value in values)

    window = extraction.Window(turns(row["window"]["turns"]), turns(row["window"]["context"]))
    return Lesson(row["source"], window, tuple(Triplet(**t) for t in row["triplets"]))


def _cut(dialogue: LabelledDialogue, spec: ExtractorSpec) -> Iterator[Lesson]:
    """The windows that inference would cut and whose facts are all known."""
    turns = tuple(Turn(i, turn.speaker, turn.text) for i, turn in enumerate(dialogue.turns))
    planned = {
        tuple(turn.index for turn in window.turns): window
        for window in extraction.plan_windows(Session("d", "s", None, turns), spec)
    }
    for known in windows(dialogue, spec.window_turns, spec.context_turns):
        window = planned.get(tuple(turn.index for turn in known.turns))
        if window is not None:  # else a turn is blank or too long for one window
            yield Lesson(dialogue.source, window, known.triplets)


def _merged(found: Iterable[Lesson]) -> list[Lesson]:
    """Lessons that read the same become one: PersonaExt has one triplet a row, not an utterance."""
    by_window: dict[extraction.Window, Lesson] = {}
    for one in found:
        before = by_window.get(one.window)
        triplets = (*before.triplets, *one.triplets) if before else one.triplets
        source = before.source if before else one.source
        by_window[one.window] = Lesson(source, one.window, tuple(dict.fromkeys(triplets)))
    return list(by_window.values())


def split(found: Sequence[Lesson]) -> tuple[list[Lesson], list[Lesson]]:
    """Lessons to train on, and one of fifty, by the hash of its words, for looks."""
    parts: tuple[list[Lesson], list[Lesson]] = ([], [])
    for lesson in found:
        text = " ".join(turn.text for turn in lesson.window.turns)
        parts[is_held_out(f"look {text}", _LOOK_SHARE)].append(lesson)
    return parts


def draw(
    found: Sequence[Lesson], n: int, negative_share: float, rng: random.Random
) -> list[Lesson]:
    """Lessons in random order, of which at most so many state nothing.

    Args:
        found: to draw from.
        n: at most; 0: as many as there are.
        negative_share: highest share of lessons without a fact, 0 to 1.
        rng: decides which.
    """
    stating = rng.sample(with_facts := [one for one in found if one.triplets], len(with_facts))
    silent = rng.sample(without := [one for one in found if not one.triplets], len(without))
    if negative_share < 1:
        silent = silent[: int(len(stating) * negative_share / (1 - negative_share))]
    if n and len(stating) + len(silent) > n:
        n_silent = n * len(silent) // (len(stating) + len(silent))
        stating, silent = stating[: n - n_silent], silent[:n_silent]
    return rng.sample(stating + silent, len(stating) + len(silent))


# --- relations' names


def _no_teacher(pairs: Sequence[tuple[str, Fact]]) -> list[Mapping[str, float]]:
    """Believes in nothing: facts keep their verbs, those of PersonaExt their names."""
    return [{} for _ in pairs]


def _believed(relations: Path) -> Path:
    path = relations / BELIEVED
    if not path.is_file():
        raise ConfigError(
            f"--relations is '{relations}', which has no {BELIEVED}; allowed: the --out of a"
            " jobs/train_tagger.py whose teacher has answered. Run that first, or leave it out:"
            " relations then keep their verbs."
        )
    return path


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _kept_teacher(data: Path, path: Path) -> Teacher:
    """A teacher that repeats what that of ``train_tagger`` answered, call by call."""
    import torch

    from jobs.tagger.targets import relation_classes

    classes = relation_classes(persona_dialogues(data))
    answers = iter(torch.load(path, weights_only=True))

    def teacher(pairs: Sequence[tuple[str, Fact]]) -> list[Mapping[str, float]]:
        answer = next(answers, None)
        shape = None if answer is None else tuple(answer.shape)
        if answer is None or shape != (len(pairs), len(classes)):
            raise ConfigError(
                f"{path} answers {shape} (facts, relations) and ({len(pairs)}, {len(classes)}) are"
                " asked; allowed: answers about the same data with the same rules. Remove it and"
                " run jobs/train_tagger.py again, with all data, or leave --relations out."
            )
        return [dict(zip(classes, row, strict=True)) for row in answer.tolist()]

    return teacher
