"""What a training of the tagger leaves: weights, settings, loss plot, manifest, model card."""

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from glong.config import ExtractorSpec
from glong.models.shipped import write_manifest
from glong.models.tagger import CONFIG, WEIGHTS, TaggerExtractor
from glong.models.tagger_weights import save_net
from glong.protocols import Extractor
from glong.training.examples import LabelledDialogue
from glong.training.judging import evaluation_sets, score
from jobs.tagger.loop import Look, Loop
from jobs.training import licences, plot_training, write_json

__all__ = ["export", "judge", "judge_loop", "write_card"]

CARD = "MODEL_CARD.md"
_NAMED = "personaext_heldout"
_EXACT = ("precision", "recall", "pair_recall")
_SOFT = ("soft_precision", "soft_recall", "soft_f1")
_PUBLISHED = """\
Published beside it: the authors of `conversation_triples` (arXiv:2412.18364) give 51.14 % as the
best precision of whole triplets on single statements made for their agent, and say that on
dialogues it is much lower. The reports in their repository (leolani/cltl-knowledgeextraction, 10
and 11 April 2025; one triplet an utterance is compared, names must be equal) give, on these very
sets, for their trained extractor on multilingual BERT / for a prompted Qwen2.5: coordination .061
/ .024, answer ellipsis .010 / .030, coreference .013 / .000, declarative statements .011 / .011,
negated ones .013 / .025, explicit no .021 / .043, explicit yes .017 / .000, full .013 / not given.
They count other things than the columns above, so they say how hard the sets are, not who is
ahead. For PersonaExt no published figure is of this task: its paper classifies relations that the
training has not seen."""
_FOLDERS = {
    "PersonaExt without its held-out tenth": "personaext",
    "Multi-Session Chat, validation": "msc",
    "Synthetic-Persona-Chat, validation": "synthetic_persona_chat",
}
_RESEARCH = {"DialogRE, train and dev": "dialogre"}
_LIMITS = """\
English only: a text in another language mostly gives nothing. Labels of raw turns come from
patterns and a teacher, so what neither finds is not learnt. An object has at most ten words of one
turn, or of the turn before it where the turn answers a question. PersonaExt states no licence; it
builds on PersonaChat and Dialogue NLI. Facts about people are extracted whether or not they are
true: review them before decisions rest on them."""


def export(loop: Loop, classes: Sequence[str], threshold: float, folder: Path) -> None:
    """Write the network as :class:`~glong.models.tagger.TaggerExtractor` loads it."""
    folder.mkdir(parents=True, exist_ok=True)
    save_net(loop.net, folder / WEIGHTS)
    (folder / WEIGHTS).chmod(0o644)
    write_json({"classes": list(classes), "threshold": threshold}, folder / CONFIG)
    write_manifest(folder)


def judge(extractor: Extractor, data: Path) -> dict[str, dict[str, float]]:
    """Scores of an extractor on every evaluation set.

    Args:
        extractor: an exported tagger, or what it is compared with.
        data: the data folder.

    Raises:
        SourceError: a file is not there.
    """
    return {
        name: asdict(score(cases, extractor.extract([case.session for case in cases])))
        for name, cases in evaluation_sets(data)
    }


def judge_loop(loop: Loop, classes: Sequence[str], threshold: float, data: Path) -> Look:
    """Scores of the network as it is now, with the weights as they would be exported.

    Neither the network nor the course of its training changes.
    """
    with tempfile.TemporaryDirectory() as name, torch.random.fork_rng():
        export(loop, classes, threshold, Path(name))
        spec = ExtractorSpec(backend="tagger", model=name)
        return Look(loop.step, judge(TaggerExtractor.load(spec), data))


def write_card(
    folder: Path,
    data: Path,
    loop: Loop,
    dialogues: Sequence[LabelledDialogue],
    baseline: Mapping[str, Mapping[str, float]],
    options: Mapping[str, Any],
) -> None:
    """Write the card and the plot beside the weights; neither is in the manifest's weights.

    ``baseline`` are the patterns' scores, see :mod:`glong.rules`.
    """
    plot_training(
        {"tagger": loop.losses},
        [{"step": look.step, **look.sets[_NAMED]} for look in loop.looks],
        folder.parent / "losses.png",
        measure="recall",
        label="recall of the gold triplet",
        title="PersonaExt, held out",
    )
    for_research = options.get("sources") == "research"
    lines = [
        "# glong tagger",
        "",
        *(
            ["For non-commercial research only, by the licence of DialogRE.", ""]
            if for_research
            else ()
        ),
        "Extracts (subject, relation, object) facts from dialogue turns: all-MiniLM-L6-v2"
        " (Apache-2.0), fine-tuned, with heads that point at words. float16 weights without the"
        " word embeddings, which MiniLM's package has.",
        "",
        "Made by `python jobs/train_tagger.py --data DATA --out OUT"
        + "".join(f" --{name.replace('_', '-')} {value}" for name, value in options.items())
        + f"`: {loop.step} steps, last 50 losses {_mean(loop.losses[-50:]):.3f} on average.",
        "",
        "## Data",
        "",
        *_data_lines(data, dialogues, {**_FOLDERS, **_RESEARCH} if for_research else _FOLDERS),
        "",
        "## Figures",
        "",
        *_figure_lines(loop.looks[-1].sets, baseline),
        "",
        "## Learning curve",
        "",
        *_curve_lines(loop.looks, baseline),
        "",
        "## Settings",
        "",
        "```json",
        json.dumps(loop.settings_as_dict(), indent=1),
        "```",
        "",
        "## Limits",
        "",
        _LIMITS,
    ]
    (folder / CARD).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _data_lines(
    data: Path, dialogues: Sequence[LabelledDialogue], folders: Mapping[str, str]
) -> list[str]:
    """The licence of each set, and how much was labelled of each source."""
    n_turns = Counter(d.source for d in dialogues for _ in d.turns)
    n_facts = Counter(d.source for d in dialogues for turn in d.turns for _ in turn.facts)
    labelled = (f"{name} {n:,} turns, {n_facts[name]:,} facts" for name, n in n_turns.items())
    return [
        "| set | licence |",
        "| --- | --- |",
        *(f"| {name} | {text} |" for name, text in licences(data, folders).items()),
        "",
        "Utterances of people that an evaluation reads have no label, with contractions or without;"
        " as the turn before another they may be read. Answers of made exchanges (composed) may be"
        " words that occur there too, such as 'yes', and what an annotator wrote of a turn of MSC"
        " validation may be what another wrote of a turn of MSC test ('I am a bartender')."
        f" Labelled: {', '.join(labelled)}.",
    ]


def _figure_lines(
    scores: Mapping[str, Mapping[str, float]], baseline: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """A row an evaluation set."""
    return [
        "Exact: subject, relation and object equal; soft: token F1 of both ends at least .5 and the"
        " relation or a synonym; pair: both ends equal. *Patterns* are `--extractor rules`, which"
        " keep a clause's verb as the relation. The gold of msc_test_persona is what they read in"
        " annotators' sentences, so that set flatters them. DialogRE names pairs of people by the"
        " whole dialogue, by our names where we have one; who is whose friend or boss has none."
        " Thresholds were"
        " chosen with these sets in view. Valid output, set of"
        f" the lowest share: {min(row['valid_rate'] for row in scores.values()):.1%}.",
        "",
        "| set | gold | precision | recall | pair recall | soft precision | soft recall | soft F1"
        " | triplets a turn | patterns: soft precision | soft recall | soft F1 |",
        "| --- |" + " ---: |" * 11,
        *(
            f"| {name} | {row['n']} | {_cells(row, *_EXACT, *_SOFT)} |"
            f" {row['triplets_per_turn']:.2f} | {_cells(baseline[name], *_SOFT)} |"
            for name, row in scores.items()
        ),
        "",
        _PUBLISHED,
    ]


def _curve_lines(looks: Sequence[Look], baseline: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A row an evaluation set, a column a look."""
    columns = [*(look.sets for look in looks), baseline]
    rows = [(_NAMED, "recall"), *((name, "soft_f1") for name in baseline)]
    return [
        "| set | measure | " + " | ".join(f"step {look.step}" for look in looks) + " | patterns |",
        "| --- | --- |" + " ---: |" * len(columns),
        *(
            f"| {name} | {measure.replace('_', ' ')} | "
            + " | ".join(_cells(sets[name], measure) for sets in columns)
            + " |"
            for name, measure in rows
        ),
    ]


def _cells(row: Mapping[str, float], *names: str) -> str:
    return " | ".join(f"{row[name]:.3f}" for name in names)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))
