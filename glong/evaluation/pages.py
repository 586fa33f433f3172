"""A report as a page of Markdown for people.

What differs from run to run (latency, environment) stands in the last section, so two runs give
pages that differ there alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glong.evaluation.methods import OURS
from glong.evaluation.metrics import MRR_AT, NDCG_AT
from glong.evaluation.report import FIRST, compared_metrics

__all__ = ["TIMES", "page"]

TIMES = "## Times and environment"
"""Head of the section that may differ between two runs."""

Report = Mapping[str, Any]


def page(report: Report, plots: Sequence[str] = ()) -> str:
    """The whole page.

    Args:
        report: as :func:`glong.evaluation.report.make_report` gives it.
        plots: paths of pictures, relative to the page.
    """
    sections = [
        _head(report),
        _overall(report),
        _pictures(plots),
        _categories(report),
        _halves(report),
        _user_turns(report),
        _comparisons(report),
        _ablation(report),
        _misses(report),
        _labels(report),
        _times(report),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(report: Report) -> str:
    limit = report["settings"].get("limit")
    what = f"the first {limit:,} questions" if limit else "all questions"
    return (
        f"# Retrieval on {report['benchmark']}\n\n"
        f"{report['n_questions']:,} questions about {report['n_dialogues']:,} dialogues ({what})."
        " Every method answers over the same index and the same query vectors."
        " A number is a mean over questions; the unit is a turn of the dialogue."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _mean(metrics: Mapping[str, Any], name: str) -> str:
    return _number(metrics[name]["mean"]) if name in metrics else ""


def _number(value: float) -> str:
    """Three digits without the zero in front."""
    text = f"{round(value, 3) + 0.0:.3f}"  # no minus zero
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _ranked(report: Report, section: str) -> dict[str, Any]:
    """Method -> its metrics of one section, where it has some; the ablation's are left out."""
    return {
        name: found[section]
        for name, found in report["methods"].items()
        if found.get(section) and name not in report["ablation"]
    }


def _columns(report: Report) -> dict[str, str]:
    """Metric -> head of its column."""
    ks = report["settings"]["k"]
    return {
        **{f"recall_mean@{k}": f"R@{k}" for k in ks},
        f"mrr@{MRR_AT}": f"MRR@{MRR_AT}",
        f"ndcg@{NDCG_AT}": f"NDCG@{NDCG_AT}",
    }


def _metrics_table(report: Report, section: str) -> str:
    columns = _columns(report)
    rows = [
        [_bold(name), *(_mean(metrics, metric) for metric in columns)]
        for name, metrics in _ranked(report, section).items()
    ]
    return _table(["method", *columns.values()], rows)


def _bold(name: str) -> str:
    return f"**{name}**" if name == OURS else name


def _overall(report: Report) -> str:
    columns = _columns(report)
    k = _middle(report)
    extra = [f"any@{k}", f"all@{k}", f"95 % of R@{k}", "prompt tokens"]
    rows = []
    for name, found in report["methods"].items():
        if name in report["ablation"]:
            continue
        metrics = found["metrics"]
        row = [_bold(name), *(_mean(metrics, metric) for metric in columns)]
        row += [_mean(metrics, f"recall_any@{k}"), _mean(metrics, f"recall_all@{k}")]
        row += [_span(metrics.get(f"recall_mean@{k}")), f"{found['prompt_tokens']['mean']:,.0f}"]
        rows.append(row)
    n = next((next(iter(m.values()))["n"] for m in _ranked(report, "metrics").values()), 0)
    text = (
        f"n = {n:,}. R@k: mean share of a question's gold turns within the first k distinct turns;"
        " any: at least one; all: every one."
    )
    return f"## Overall\n\n{text}\n\n{_table(['method', *columns.values(), *extra], rows)}"


def _middle(report: Report) -> int:
    """The cut-off at or next to 5."""
    k: int = min(report["settings"]["k"], key=lambda k: abs(k - 5))
    return k


def _span(value: Mapping[str, Any] | None, bounds: str = "ci95") -> str:
    return " to ".join(map(_number, value[bounds])) if value else ""


def _pictures(plots: Sequence[str]) -> str:
    return "\n\n".join(
        f"![{path.rpartition('/')[2].removesuffix('.png')}]({path})" for path in plots
    )


def _categories(report: Report) -> str:
    metric = f"recall_mean@{_middle(report)}"
    found = _ranked(report, "by_category")
    names = sorted({category for parts in found.values() for category in parts})
    if len(names) < 2:
        return ""
    counts = {c: parts[c][metric]["n"] for parts in found.values() for c in names}
    head = ["method", *(f"{c.replace('_', ' ')} ({counts[c]:,})" for c in names)]
    rows = [[_bold(name), *(_mean(p[c], metric) for c in names)] for name, p in found.items()]
    return f"## R@{_middle(report)} by category\n\n{_table(head, rows)}"


def _halves(report: Report) -> str:
    parts = [
        ("Tuned on", "metrics_tuned_on"),
        ("Untouched", "metrics_untouched"),
    ]
    texts = []
    for title, section in parts:
        found = _ranked(report, section)
        if found:
            n = next(iter(next(iter(found.values())).values()))["n"]
            texts.append(f"{title} (n = {n:,}):\n\n{_metrics_table(report, section)}")
    return "\n\n".join(["## The half that settings were chosen on, and the other", *texts]) * bool(
        texts
    )


def _user_turns(report: Report) -> str:
    found = _ranked(report, "metrics_user_turns")
    if not found:
        return ""
    n = next(iter(next(iter(found.values())).values()))["n"]
    return f"## User turns alone (n = {n:,})\n\n{_metrics_table(report, 'metrics_user_turns')}"


def _comparisons(report: Report) -> str:
    if not report["comparisons"]:
        return ""
    k = _middle(report)
    columns = [*dict.fromkeys([f"recall_mean@{k}", f"mrr@{MRR_AT}"])]
    head = ["against, questions", "n"]
    head += [text for name in columns for text in (_columns(report)[name], "95 %", "by dialogue")]
    rows = []
    for method, parts in report["comparisons"].items():
        sets = {name: gaps for name, gaps in parts.items() if name != "by_category"}
        sets = {"overall": sets.pop("overall"), **sets, **parts["by_category"]}
        for part, gaps in sets.items():
            if gaps:
                rows.append(_gap_row(f"{method}, {part.replace('_', ' ')}", gaps, columns))
    text = (
        f"{OURS} minus the other, paired by question. `95 %`: questions are drawn; `by dialogue`:"
        " whole dialogues are, which is wider where a dialogue has many questions."
    )
    return f"## Paired differences\n\n{text}\n\n{_table(head, rows)}"


def _gap_row(label: str, gaps: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    row = [label, f"{gaps[columns[0]]['n']:,}"]
    for name in columns:
        gap = gaps[name]
        row += [_signed(gap["mean"]), _span(gap), _span(gap, "ci95_by_dialogue")]
    return row


def _signed(value: float) -> str:
    return ("+" if round(value, 3) > 0 else "") + _number(value)


def _ablation(report: Report) -> str:
    if not report["ablation"]:
        return ""
    columns = compared_metrics(report["settings"]["k"])
    heads = _columns(report)
    k = _middle(report)
    rows = []
    for name, parts in report["ablation"].items():
        gaps = parts["overall"]
        row = [name.removeprefix(f"{OURS}_").replace("_", " ")]
        row += [_signed(gaps[metric]["mean"]) for metric in columns]
        rows.append([*row, _span(gaps[f"recall_mean@{k}"])])
    text = f"{OURS} minus {OURS} with one part switched: what the part gives (or costs, below 0)."
    head = ["switched", *(heads[metric] for metric in columns), f"95 % of R@{k}"]
    return f"## Ablation\n\n{text}\n\n{_table(head, rows)}"


def _misses(report: Report) -> str:
    if not report["misses"]:
        return ""
    largest = max(report["settings"]["k"])
    ends = {
        "all": f"all in {FIRST}",
        "some": f"some in {FIRST}",
        "later": f"first one up to {largest}",
        "absent": f"none in {largest}",
    }
    rows = []
    for category, counts in report["misses"].items():
        n = sum(counts.values())
        shares = [f"{counts[end]:,} ({counts[end] / n:.0%})" for end in ends]
        rows.append([category.replace("_", " "), f"{n:,}", *shares])
    text = f"Questions by where {OURS} has their gold turns. `per_question.parquet` has each one."
    return f"## What is missed\n\n{text}\n\n{_table(['category', 'n', *ends.values()], rows)}"


def _labels(report: Report) -> str:
    rows = [[name.replace("_", " "), f"{n:,}"] for name, n in report["label_traps"].items()]
    rows.append(
        ["gold turns that the index does not have", f"{report['gold_turns_not_indexed']:,}"]
    )
    settings = {k: v for k, v in report["settings"].items() if v not in (None, 0, "")}
    lines = [f"- {note}" for note in report["notes"]]
    lines += [f"- {name}: {_shown(value)}" for name, value in sorted(settings.items())]
    lines.append(f"- SHA-256 of the data: `{report['data_sha256']}`")
    return f"## Labels and settings\n\n{_table(['labels', 'n'], rows)}\n\n" + "\n".join(lines)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {_shown(item)}" for key, item in sorted(value.items()))
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"`{value}`"


def _times(report: Report) -> str:
    rows = [
        [_bold(name), *(f"{found['latency_ms'][p]:.2f}" for p in ("p50", "p95"))]
        for name, found in report["methods"].items()
        if found["latency_ms"] and name not in report["ablation"]
    ]
    table = _table(["milliseconds a query, without encoding", "p50", "p95"], rows)
    lines = [f"- {name}: {_shown(value)}" for name, value in sorted(report["environment"].items())]
    return f"{TIMES}\n\n{table}\n\n" + "\n".join(lines)
