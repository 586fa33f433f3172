"""Judgements -> ``report.json``: means with intervals, comparisons, the ablation.

All numbers but ``latency_ms`` and ``environment`` follow from the data, the models and the seed
alone, so two runs give the same ones.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glong.evaluation.asking import PROMPT_K, Judgement
from glong.evaluation.methods import ABLATION, OURS
from glong.evaluation.metrics import MRR_AT, N_RESAMPLES, NDCG_AT, difference, means
from glong.evaluation.questions import Benchmark, Question
from glong.prompting import ESTIMATE

__all__ = ["FIRST", "Run", "compared_metrics", "make_report", "question_table"]

FIRST = 5
"""Turns within which a question counts as answered, in the count of misses."""
DIGITS = 6
"""Of every measured number: enough to read, too few to show the last bit of a sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a report says of its run.

    Attributes:
        data_sha256: of the file.
        ks: cut-offs.
        seed: of the bootstrap.
        settings: what else decides the numbers: models, limit, presets.
        environment: what differs from run to run: machine, versions, times.
    """

    data_sha256: str
    ks: tuple[int, ...]
    seed: int
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]


def compared_metrics(ks: Sequence[int]) -> list[str]:
    """The metrics in which methods are compared."""
    return [*(f"recall_mean@{k}" for k in ks), f"mrr@{MRR_AT}", f"ndcg@{NDCG_AT}"]


def make_report(benchmark: Benchmark, judgements: Sequence[Judgement], run: Run) -> dict[str, Any]:
    """The report of one run as JSON data.

    Args:
        benchmark: name, traps and notes.
        judgements: of every question by every method, in order.
        run: the rest.
    """
    by_method: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        by_method.setdefault(judgement.method, []).append(judgement)
    first = next(iter(by_method.values()), [])
    ranked = {name: found for name, found in by_method.items() if found[0].values}
    report = {
        "benchmark": benchmark.name,
        "data_sha256": run.data_sha256,
        "n_questions": len(first),
        "n_dialogues": len({j.question.dialogue_id for j in first}),
        "methods": {name: _method(found, run) for name, found in by_method.items()},
        "comparisons": _comparisons(ranked, run, ablation=False),
        "ablation": _comparisons(ranked, run, ablation=True),
        "misses": _misses(ranked.get(OURS, [])),
        "label_traps": dict(benchmark.traps),
        "gold_turns_not_indexed": sum(j.n_missing for j in next(iter(ranked.values()), [])),
        "notes": [*benchmark.notes, *_notes(run)],
    }
    settings = {
        "k": list(run.ks),
        "seed": run.seed,
        "n_resamples": N_RESAMPLES,
        "prompt_k": PROMPT_K,
        **run.settings,
    }
    environment = dict(run.environment)
    return {**_rounded(report), "settings": settings, "environment": environment}


def _notes(run: Run) -> list[str]:
    return [
        "k counts distinct source turns, in the order of their first memory;"
        " recall_*@k_memories counts memories.",
        "paper: its coarse step keeps max(5, k); for k distinct turns it is asked for as many"
        " memories as that takes.",
        f"ci95: {N_RESAMPLES} resamples of questions, seed {run.seed}; ci95_by_dialogue draws whole"
        " dialogues instead.",
        f"prompt_tokens: the memory block at k = {PROMPT_K}, {ESTIMATE}; full_context is the whole"
        " dialogue.",
        "latency_ms: one query at the largest k, without encoding and without making the index.",
    ]


Keep = Callable[[Question], bool]


def _method(found: Sequence[Judgement], run: Run) -> dict[str, Any]:
    """One method's numbers."""
    tokens = np.mean([j.prompt_tokens for j in found])
    report: dict[str, Any] = {
        "unit": "turn",
        "prompt_tokens": {"mean": float(tokens), "k": PROMPT_K, "counted_by": ESTIMATE},
        "latency_ms": None,
        "metrics": {},
        "by_category": {},
    }
    if not found[0].values:
        return report
    percentiles = np.percentile([j.latency_ms for j in found], (50, 95)).tolist()
    report["latency_ms"] = dict(zip(("p50", "p95"), percentiles, strict=True))
    for name, keep in _parts(j.question for j in found).items():
        report[name] = _metrics(found, keep, run.seed)
    report["by_category"] = {
        category: _metrics(found, _in(category), run.seed)
        for category in _categories(j.question for j in found)
    }
    if any(j.user_values for j in found):
        report["metrics_user_turns"] = _metrics(found, _is_headline, run.seed, user=True)
    return report


def _is_headline(question: Question) -> bool:
    return question.headline


def _in(category: str) -> Keep:
    return lambda question: question.category == category


def _parts(questions: Iterable[Question]) -> dict[str, Keep]:
    """Name of a set of metrics -> the questions it is over."""
    parts: dict[str, Keep] = {"metrics": _is_headline}
    if len({q.tuned_on for q in questions if q.headline}) > 1:
        parts["metrics_tuned_on"] = lambda q: q.headline and q.tuned_on
        parts["metrics_untouched"] = lambda q: q.headline and not q.tuned_on
    return parts


def _categories(questions: Iterable[Question]) -> list[str]:
    return sorted({question.category for question in questions})


def _metrics(
    found: Sequence[Judgement], keep: Keep, seed: int, *, user: bool = False
) -> dict[str, Any]:
    """Mean, interval and n of every metric over some questions; empty for no question."""
    rows = [j.user_values if user else j.values for j in found if keep(j.question)]
    rows = [row for row in rows if row]
    if not rows:
        return {}
    names = list(rows[0])
    intervals = means(_matrix(rows, names), seed)
    return {name: asdict(interval) for name, interval in zip(names, intervals, strict=True)}


def _matrix(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[row[name] for name in names] for row in rows], np.float64)


def _comparisons(
    ranked: Mapping[str, Sequence[Judgement]], run: Run, *, ablation: bool
) -> dict[str, Any]:
    """Ours minus each other method, by set of questions and category."""
    if OURS not in ranked:
        return {}
    others = [name for name in ranked if name != OURS and (name in ABLATION) == ablation]
    questions = [j.question for j in ranked[OURS]]
    parts = {name.removeprefix("metrics_"): keep for name, keep in _parts(questions).items()}
    parts["overall"] = parts.pop("metrics")
    categories = {} if ablation else {c: _in(c) for c in _categories(questions)}

    def against(name: str, keep: Keep) -> dict[str, Any]:
        pairs = [
            (ours, theirs)
            for ours, theirs in zip(ranked[OURS], ranked[name], strict=True)
            if keep(ours.question)
        ]
        return _differences(pairs, run)

    return {
        name: {
            **{part: against(name, keep) for part, keep in sorted(parts.items())},
            "by_category": {c: against(name, keep) for c, keep in categories.items()},
        }
        for name in others
    }


def _differences(pairs: Sequence[tuple[Judgement, Judgement]], run: Run) -> dict[str, Any]:
    if not pairs:
        return {}
    names = compared_metrics(run.ks)
    ours, theirs = (_matrix([pair[i].values for pair in pairs], names) for i in (0, 1))
    dialogues = [pair[0].question.dialogue_id for pair in pairs]
    found = difference(ours, theirs, dialogues, run.seed)
    return {name: asdict(gap) for name, gap in zip(names, found, strict=True)}


def _misses(found: Sequence[Judgement]) -> dict[str, dict[str, int]]:
    """How our questions end, counted by category: which kind of question limits the recall.

    ``all`` or ``some`` of the gold turns are within the first ``FIRST``; or none is, but one comes
    ``later``, up to the largest cut-off; or every one is ``absent``.
    """
    counts: dict[str, Counter[str]] = {}
    for judgement in found:
        gold = set(judgement.question.gold)
        n_first = len(gold.intersection(judgement.turns[:FIRST]))
        later = bool(gold.intersection(judgement.turns))
        end = (
            "all" if n_first == len(gold) else "some" if n_first else "later" if later else "absent"
        )
        counts.setdefault(judgement.question.category, Counter())[end] += 1
    ends = ("all", "some", "later", "absent")
    return {category: {end: counts[category][end] for end in ends} for category in sorted(counts)}


def _rounded(value: Any) -> Any:
    """The same data with every float rounded, tuples as lists."""
    if isinstance(value, float):
        return round(value, DIGITS) + 0.0  # no minus zero
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def question_table(judgements: Sequence[Judgement]) -> pa.Table:
    """One row a (question, method): what was asked, what answers it, what was found, how good."""
    ranked = [judgement for judgement in judgements if judgement.values]
    names = list(ranked[0].values) if ranked else []
    user_names = list(next((j.user_values for j in ranked if j.user_values), {}))
    columns: dict[str, Any] = {
        "question_id": [j.question.question_id for j in ranked],
        "dialogue_id": [j.question.dialogue_id for j in ranked],
        "category": [j.question.category for j in ranked],
        "headline": [j.question.headline for j in ranked],
        "tuned_on": [j.question.tuned_on for j in ranked],
        "question": [j.question.text for j in ranked],
        "method": [j.method for j in ranked],
        "gold": [[f"{s}/{t}" for s, t in j.question.gold] for j in ranked],
        "found": [[f"{s}/{t}" for s, t in j.turns] for j in ranked],
        "prompt_tokens": [j.prompt_tokens for j in ranked],
    }
    columns |= {name: [j.values[name] for j in ranked] for name in names}
    columns |= {f"user_{n}": [j.user_values.get(n) for j in ranked] for n in user_names}
    return pa.table(columns)
