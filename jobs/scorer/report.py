"""What ``train_scorer`` reports: AUC tables, the loss plot, the model card."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glong.protocols import Encoder, Scorer
from glong.training.salience import BASELINES, Judged, auc, baselines
from glong.training.summaries import Case
from glong.training.summary_sources import FILES
from glong.weighting import normalise
from jobs import training
from jobs.training import plot_training, write_json

__all__ = [
    "cell",
    "evaluate",
    "licences",
    "model_card",
    "plot_losses",
    "table",
    "weight_auc",
    "write_json",
]

Scores = Mapping[str, Mapping[str, Any]]
"""Name of a score -> its AUC with interval and counts."""

WEIGHT = "weight"
EQUAL_LENGTH = "weight, equal length"
"""w over pairs of facts with equally many words, where length and brevity say nothing."""


def weight_auc(cases: Sequence[Case], scorer: Scorer) -> dict[str, float]:
    """The AUC of w alone, for looks during training."""
    found = auc(_judge(cases, _weights(cases, scorer)), n_resamples=1)
    return {"auc": found.value, "n_pairs": found.n_pairs}


def evaluate(
    cases: Sequence[Case], scorer: Scorer, encoder: Encoder, seed: int
) -> dict[str, dict[str, Any]]:
    """AUC of w and of each baseline on one set.

    Args:
        cases: the set.
        scorer: gives w.
        encoder: for centrality.
        seed: of the random baseline and the bootstrap.
    """
    rng = np.random.default_rng(seed)
    texts = [case.texts for case in cases]
    vectors = encoder.encode([text for session in texts for text in session])
    ends = np.cumsum([len(session) for session in texts])[:-1]
    others = [
        baselines(session, part, rng)
        for session, part in zip(texts, np.split(vectors, ends) if texts else [], strict=True)
    ]
    by_name = {WEIGHT: _weights(cases, scorer)}
    by_name |= {name: [scores[name] for scores in others] for name in BASELINES}
    judged = {name: _judge(cases, scores) for name, scores in by_name.items()}
    lengths = _judge(cases, [scores["length"] for scores in others])
    judged[EQUAL_LENGTH] = list(_of_equal_length(judged[WEIGHT], lengths))
    found = {name: asdict(auc(sessions, seed)) for name, sessions in judged.items()}
    return {name: {k: _known(v) for k, v in one.items()} for name, one in found.items()}


def _known(value: Any) -> Any:
    """``None`` for what no pair tells."""
    return None if isinstance(value, float) and np.isnan(value) else value


def _of_equal_length(judged: Sequence[Judged], lengths: Sequence[Judged]) -> Iterator[Judged]:
    """Each session in parts of equally long facts: pairs are made within a part."""
    for session, length in zip(judged, lengths, strict=True):
        for words in np.unique(length.scores):
            part = length.scores == words
            yield Judged(session.dialogue_id, session.mentioned[part], session.scores[part])


def _weights(cases: Sequence[Case], scorer: Scorer) -> list[NDArray[np.float64]]:
    """Equation (3): w for the facts of each session."""
    return [normalise(scores) for scores in scorer.weigh([case.texts for case in cases])]


def _judge(cases: Sequence[Case], scores: Sequence[NDArray[np.float64]]) -> list[Judged]:
    """Facts of which something can be said."""
    judged = []
    for case, values in zip(cases, scores, strict=True):
        mentioned = case.mentioned()
        places = [i for i, m in enumerate(mentioned) if m is not None]
        flags = np.array([bool(mentioned[i]) for i in places], dtype=np.bool_)
        judged.append(Judged(f"{case.dataset} {case.session.dialogue_id}", flags, values[places]))
    return judged


def table(sets: Mapping[str, Scores]) -> str:
    """AUC by set and score as a Markdown table."""
    names = list(sets)
    lines = ["| score | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    for score in (WEIGHT, EQUAL_LENGTH, *BASELINES):
        cells = [cell(sets[name][score]) for name in names]
        lines.append(f"| {score} | " + " | ".join(cells) + " |")
    counts = [
        f"{sets[n][WEIGHT]['n_pairs']:,} / {sets[n][WEIGHT]['n_sessions']:,}"
        f" / {sets[n][WEIGHT]['n_dialogues']:,}"
        for n in names
    ]
    lines.append("| pairs / sessions / dialogues | " + " | ".join(counts) + " |")
    return "\n".join(lines)


def cell(found: Mapping[str, Any]) -> str:
    """An AUC with its interval."""
    if found["value"] is None:
        return "no pair"
    return f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def plot_losses(
    losses: Sequence[tuple[float, float]], evaluations: Sequence[Mapping[str, float]], path: Path
) -> None:
    """Both losses by step (thin: each, thick: running mean) and the AUC on the held-out part."""
    answer, guidance = zip(*losses, strict=True)
    plot_training(
        {"answer": answer, "guidance": guidance},
        evaluations,
        path,
        measure="auc",
        label="AUC of w",
        title="MSC valid, held-out episodes",
        level=0.5,
    )


def licences(data: Path, datasets: Sequence[str]) -> dict[str, str]:
    """Set -> what the README beside its file says of its licence."""
    return training.licences(data, {name: FILES[name].split("/")[0] for name in datasets})


def model_card(
    *,
    title: str,
    command: str,
    note: Mapping[str, Any],
    sources: Mapping[str, str],
    sets: Mapping[str, Scores],
) -> str:
    """The card of a trained scorer.

    Args:
        title: its name.
        command: repeats the training.
        note: shape, settings, counts, as in ``training.json``.
        sources: training set -> licence.
        sets: evaluation set -> AUC of each score.
    """
    non_commercial = any("NC" in licence for licence in sources.values())
    use = "non-commercial research only" if non_commercial else "see the licences of its data"
    data = "\n".join(
        f"| {name} | {note['n_sessions'].get(name, 0):,} | {licence} |"
        for name, licence in sources.items()
    )
    settings = "\n".join(
        f"| {key} | {json.dumps(value)} |"
        for key, value in sorted(note.items())
        if key != "n_sessions"
    )
    return CARD.format(
        title=title, use=use, data=data, settings=settings, table=table(sets), command=command
    )


CARD = """\
# Model card: {title}

A T5 summariser that weighs the facts of a session: it reads all of them, writes a short summary,
and a fact's weight is the cross-attention that it gets in the last decoder layer (equations 1 to 3
of the paper). Run in float32; stored in float16. Use: {use}.

## Data

| set | sessions | licence |
| --- | --- | --- |
{data}

Facts are what the extractor named below found in the sessions. No text of the data is part of the
model's files, but a model may repeat phrases of what it was trained on. Never read in training: MSC
test, MSC valid episodes whose id's SHA-256 is 0 modulo 10 (held out for tuning), SAMSum validation
and test, DialogSum test, LoCoMo, LongMemEval.

Tasks (the settings name those used): facts -> the facts that the reference mentions; summary: facts
-> the reference's sentences about them; sentences: kept sentences shuffled among small talk -> the
kept ones; dialogue: turns -> a reference in prose. Reference of MSC sessions 1 and 2: the summary
that later sessions started from; of sessions 3 and 4: the annotators' sentences. Loss: answer
cross-entropy without label smoothing times answer, plus guidance times, for each of the first M
summary tokens, the cross-entropy between the facts that the target is about and the facts' shares
of that token's attention. From scratch the encoder's heads begin with a sense of place: they look
behind, ahead, around or everywhere. Some decoders read another example's target so far, so that
later tokens choose too and do not only follow the words already written. Optimiser: Adafactor with
steps relative to a matrix's own size.

## Settings

| setting | value |
| --- | --- |
{settings}

## Figures

AUC over pairs of facts of one session: the share of pairs in which a fact that the reference
mentions (all stemmed content words of its object occur there) weighs more than one that it does
not; ties count half; bootstrap 95 % interval over dialogues. equal length: only pairs of facts with
equally many words. lead: earlier is higher. length: more
words are higher; brevity the reverse. centrality: mean MiniLM cosine with the session's other
facts.

{table}

## Limits

- English small talk between two people, and little of it: the model knows few words. It writes the
  first tokens of a summary and no more (M), for the sake of their attention, not of the text.
- Short objects are mentioned more often by this measure, whatever their worth: compare with the
  row brevity.
- Importance is learned from what annotators of persona facts keep. Plans, events and dates that
  such summaries leave out weigh less.
- Another extractor writes other facts; weights were judged with the one named above. Our tagger
  learned from MSC valid itself, the episodes held out here among them, so its facts there are
  nearer to the annotators' words than elsewhere: MSC test is the cleaner figure.

## Training it again

```
{command}
```
"""
