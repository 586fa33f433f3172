"""What ``train_extractor`` reports: held-out loss, scores of extracted triplets, the model card."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from glong.protocols import Extractor
from glong.training.judging import Case, score
from jobs.extractor.batches import IGNORED, Example, collate
from jobs.extractor.data import FOLDERS
from jobs.extractor.model import answer_loss
from jobs.training import licences, plan_epoch

__all__ = ["held_out_loss", "judged", "model_card", "models_toml"]

SCORES = ("soft_f1", "recall", "soft_recall", "valid_rate", "triplets_per_turn")
_AT_ONCE = 16


def held_out_loss(
    model: Any,
    examples: Sequence[Example],
    prefix: Sequence[int],
    pad_id: int,
    batch_tokens: int,
    batch_rows: int = 0,
) -> float:
    """Mean loss of an answer token, in nats; leaves the model in training mode.

    Args:
        model: with its adapter.
        examples: at least one.
        prefix: with which every prompt begins.
        pad_id: fills.
        batch_tokens: most padded tokens at once.
        batch_rows: most examples at once; 0: as many as fit.
    """
    loss = answer_loss(model, prefix)
    total, n_tokens = 0.0, 0
    lengths = [one.n_tokens - len(prefix) for one in examples]
    model.eval()
    with torch.no_grad():
        for rows in plan_epoch(lengths, batch_tokens, 0, 0, batch_rows):
            batch = collate([examples[i] for i in rows], len(prefix), pad_id)
            n = int((batch.labels != IGNORED).sum())
            total, n_tokens = total + float(loss(batch)) * n, n_tokens + n
    model.train()
    return total / n_tokens


def judged(model: Any, extractor: Extractor, cases: Sequence[Case]) -> dict[str, float]:
    """Scores of what the extractor finds; leaves the model in training mode."""
    model.eval()
    found = [
        extraction
        for start in range(0, len(cases), _AT_ONCE)
        for extraction in extractor.extract([c.session for c in cases[start : start + _AT_ONCE]])
    ]
    model.train()
    scores = score(cases, found)
    return {name: getattr(scores, name) for name in SCORES}


def model_card(
    note: Mapping[str, Any],
    looks: Sequence[Mapping[str, float]],
    data: Path,
    n_looks: int,
    n_cases: int,
) -> str:
    """The card of a trained adapter.

    Args:
        note: settings and counts, as in ``training.json``.
        looks: at held-out windows, the last one of the finished adapter.
        data: the data folder, for licences.
        n_looks: windows of a look.
        n_cases: utterances of a look.
    """
    shown = sorted((k, v) for k, v in note.items() if k != "n_windows")
    return CARD.format(
        base=note["model"],
        data="\n".join(f"| {n} | {text} |" for n, text in licences(data, FOLDERS).items()),
        windows="\n".join(
            f"| {SOURCES[k]} | {n:,} |" for k, n in sorted(note["n_windows"].items())
        ),
        settings="\n".join(f"| {key} | {json.dumps(value)} |" for key, value in shown),
        figures=_table(looks),
        n_looks=n_looks,
        cases=f", {n_cases} utterances of PersonaExt's held-out part" if n_cases else "",
        names=NAMES[note["relations"] == "verbs"],
        window_turns=note["window_turns"],
        context_turns=note["context_turns"],
        command=_command(note),
    )


SOURCES = {
    "personaext": "PersonaExt utterances",
    "msc": "MSC valid, raw turns",
    "synthetic": "Synthetic-Persona-Chat valid, raw turns",
    "persona": "persona sentences of the last two",
    "composed": "exchanges made of these sentences",
}
"""Source of a lesson -> what it is called."""
NAMES = (
    "A classifier trained on PersonaExt named the verbs of the other sources.",
    "PersonaExt's have its names; those of the other sources are the verbs as they stand there.",
)


def _table(looks: Sequence[Mapping[str, float]]) -> str:
    """Each look a row."""
    names = [name for name in ("loss", *SCORES) if any(name in look for look in looks)]
    lines = [
        "| step | " + " | ".join(name.replace("_", " ") for name in names) + " |",
        "| ---: |" + " ---: |" * len(names),
    ]
    for look in looks:
        cells = [f"{look[name]:.3f}" if name in look else "" for name in names]
        lines.append(f"| {look['step']:.0f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def models_toml(note: Mapping[str, Any], folder: Path) -> str:
    """A file for ``--models`` with the adapter and the windows that it learnt."""
    return (
        '# For --models; on a GPU backend = "vllm" is faster.\n'
        "[extractor]\n"
        'backend = "transformers"\n'
        f"model = {json.dumps(note['model'])}\n"
        f"adapter = {json.dumps(str(folder.absolute()))}\n"
        f"quantization = {json.dumps(note['quantization'])}\n"
        f"window_turns = {note['window_turns']}\n"
        f"context_turns = {note['context_turns']}\n"
    )


def _command(note: Mapping[str, Any]) -> str:
    """The command that made an adapter, without the paths of a machine."""
    options = [
        f"--{name.replace('_', '-')} {note[name]}"
        for name in (
            "preset", "model", "quantization", "rank", "alpha", "epochs", "learning_rate",
            "batch_tokens", "batch_rows", "window_turns", "context_turns", "composed",
            "max_windows", "limit", "negative_share", "seed",
        )
    ]  # fmt: skip
    if note["n_workers"] > 1:
        options.append(f"--workers {note['n_workers']}")
    if note["relations"] != "verbs":
        options.append("--relations TAGGER")
    return "python jobs/train_extractor.py --data DATA --out OUT " + " ".join(options)


CARD = """\
# Model card: LoRA adapter for {base}, dialogue to triplets

Reads numbered turns and writes the facts that they state as a JSON list of turn, subject, relation
and object, in the prompt of `glong.prompts`. Use it as the `adapter` of an extractor with
`model = "{base}"`, `window_turns = {window_turns}`, `context_turns = {context_turns}`. Stored in
float16. Use: see the licences of its data and of the base model.

## Data

| set | licence |
| --- | --- |
{data}

| windows of | trained on |
| --- | ---: |
{windows}

No text of the data is part of the adapter's files, but a model may repeat phrases of what it was
trained on. Never labelled in training: PersonaExt utterances whose normal form's SHA-256 is 0
modulo 10, and every utterance of MSC test, conversation_triples, DialogRE test or LoCoMo, with
contractions or without; as the turn before another it may be shown. Answers of made exchanges may
be words that occur there too, such as "yes". LongMemEval is not read.

The answer to a window is what annotators and rules found in its turns; windows of a dialogue with a
turn whose facts are not all known were left out. Of PersonaExt's utterances one fact is known and
taught. {names} The first person stays "I".

## Settings

LoRA on all linear projections, no dropout; loss on the answer's tokens alone; AdamW, linear
warm-up, cosine to 0.

| setting | value |
| --- | --- |
{settings}

## Figures

On {n_looks} held-out windows of the same sources (one of fifty, by hash){cases}. loss: mean of an
answer token, in nats. recall: share of gold triplets found; soft: token F1 of both ends at least .5
and the relation or a synonym of it. Gold names one triplet an utterance, though many state more.

{figures}

## Limits

- English small talk between two people; facts about persons more than events, dates or numbers.
- Labels of raw turns come from rules and word overlap, not from people: facts that neither finds
  are taught as silence.
- Objects are words of the turn as they stand; pronouns inside them are not resolved.

## Training it again

```
{command}
```
"""
