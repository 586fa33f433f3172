"""Data of ``train_scorer``: sessions with their facts, extracted once and kept beside the run."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glong.ids import text_hash
from glong.protocols import Extractor
from glong.training.summaries import Case, make_cases
from glong.training.summary_sources import Annotated
from glong.types import Session, Triplet, Turn
from jobs.progress import Progress

__all__ = ["cases_of", "sentences"]

_FORM = 2
"""Version of what a case holds: a part of its file's name. 2: names are resolved."""
_EXTRACTED_AT_ONCE = 64
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def cases_of(
    name: str, sessions: Sequence[Annotated], extractor: Extractor, work: Path
) -> list[Case]:
    """The cases of a set; extracted on the first call, read from ``work`` after it.

    Args:
        name: of the set, for the file and the progress.
        sessions: of the set.
        extractor: its fingerprint is part of the file's name, as is what the sessions say.
        work: folder for what can be made anew.
    """
    said = text_hash("said", *map(repr, sessions))
    path = work / f"{name}-{said[:12]}-{extractor.fingerprint[:12]}-{_FORM}.jsonl"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        made = path.with_name(path.name + ".tmp")
        with made.open("w", encoding="utf-8") as file:
            for case in _extract(name, sessions, extractor):
                file.write(json.dumps(asdict(case), ensure_ascii=False) + "\n")
        made.rename(path)
    with path.open(encoding="utf-8") as file:
        return [_case(json.loads(line)) for line in file]


def _extract(name: str, sessions: Sequence[Annotated], extractor: Extractor) -> Iterator[Case]:
    with Progress(f"extract {name}") as progress:
        for start in range(0, len(sessions), _EXTRACTED_AT_ONCE):
            found = make_cases(sessions[start : start + _EXTRACTED_AT_ONCE], extractor)
            yield from found
            progress.advance(len(found), f"{sum(len(c.triplets) for c in found)} facts in the last")


def _case(row: dict[str, Any]) -> Case:
    session = row["session"]
    turns = tuple(Turn(**turn) for turn in session["turns"])
    return Case(
        row["dataset"],
        Session(session["dialogue_id"], session["session_id"], None, turns),
        tuple(Triplet(**triplet) for triplet in row["triplets"]),
        tuple(row["kept"]),
    )


def sentences(cases: Sequence[Case]) -> Iterator[str]:
    """What a vocabulary is trained on: facts, references, and sentences of turns."""
    for case in cases:
        yield from case.texts
        yield from case.kept
        for turn in case.session.turns:
            yield from filter(None, _SENTENCE_END.split(turn.text))
