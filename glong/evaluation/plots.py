"""The pictures of a report: recall by cut-off, by category, the ablation, latency."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glong.evaluation.methods import ABLATION, OURS
from glong.models.extras import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["check_plots", "draw_plots"]

_LABEL_CHARS = 15
"""Of a line of a category's name, so that neighbours do not run into each other."""
# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
_COLOURS = {
    OURS: "#D55E00",
    "turns_hybrid": "#0072B2",
    "bm25": "#56B4E9",
    "dense": "#009E73",
    "hipporag_ppr": "#CC79A7",
    "paper": "#E69F00",
}
_OTHER = "#999999"
_MARKERS = "osDv^<>phX*"
DPI = 120


def check_plots() -> None:
    """Whether plots can be drawn here.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    with extra("plots"):
        import matplotlib  # noqa: F401


def draw_plots(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the PNG files of a report.

    Args:
        report: as :func:`glong.evaluation.report.make_report` gives it.
        folder: exists.

    Returns:
        The files, in the order of a report's text.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    with extra("plots"):
        import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    methods = {
        name: found
        for name, found in report["methods"].items()
        if found["metrics"] and name not in ABLATION
    }
    drawn = {
        "recall_at_k.png": _recall(report, methods),
        "by_category.png": _by_category(report, methods),
        "latency.png": _latency(report, methods),
    }
    if report["ablation"]:
        drawn["ablation.png"] = _ablation(report)
    for name, figure in drawn.items():
        figure.savefig(folder / name, dpi=DPI)
        plt.close(figure)
    return [folder / name for name in drawn]


def _axes(width: float, height: float) -> "tuple[Figure, Axes]":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def _colour(method: str) -> str:
    return _COLOURS.get(method, _OTHER)


def _bounds(values: Sequence[Mapping[str, Any]]) -> Any:
    """(2, n) how far the intervals reach below and above the means."""
    mean = np.array([value["mean"] for value in values])
    low, high = np.array([value["ci95"] for value in values]).T
    return np.maximum(0.0, [mean - low, high - mean])


def _recall(report: Mapping[str, Any], methods: Mapping[str, Any]) -> "Figure":
    """Mean share of gold turns by cut-off, with 95 % intervals."""
    figure, axes = _axes(7.5, 5)
    ks = report["settings"]["k"]
    places = np.arange(len(ks))
    for number, (name, found) in enumerate(methods.items()):
        values = [found["metrics"][f"recall_mean@{k}"] for k in ks]
        means = [value["mean"] for value in values]
        low, high = np.array([value["ci95"] for value in values]).T
        ours = name == OURS
        axes.fill_between(places, low, high, color=_colour(name), alpha=0.12, linewidth=0)
        axes.plot(
            places, means, color=_colour(name), label=name, marker=_MARKERS[number % len(_MARKERS)],
            linewidth=2.6 if ours else 1.5, zorder=3 if ours else 2,
        )  # fmt: skip
    axes.set_xticks(places, [str(k) for k in ks])
    n = next((found["metrics"][f"recall_mean@{ks[0]}"]["n"] for found in methods.values()), 0)
    axes.set(
        xlabel="k, distinct turns",
        ylabel="mean share of gold turns found",
        title=f"{report['benchmark']}: recall by cut-off ({n:,} questions, 95 % intervals)",
        ylim=(0, 1),
    )
    axes.legend(frameon=False, loc="upper left")
    return figure


def _by_category(report: Mapping[str, Any], methods: Mapping[str, Any]) -> "Figure":
    """Bars of the recall at about 5 turns, grouped by category."""
    k = min(report["settings"]["k"], key=lambda k: abs(k - 5))
    metric = f"recall_mean@{k}"
    categories = sorted({c for found in methods.values() for c in found["by_category"]})
    figure, axes = _axes(max(7.5, 1.9 * len(categories)), 5)
    width = 0.84 / max(len(methods), 1)
    for number, (name, found) in enumerate(methods.items()):
        values = [found["by_category"][category][metric] for category in categories]
        places = np.arange(len(categories)) + (number - (len(methods) - 1) / 2) * width
        axes.bar(
            places, [value["mean"] for value in values], width, yerr=_bounds(values),
            color=_colour(name), label=name, error_kw={"elinewidth": 0.8, "ecolor": "#444444"},
        )  # fmt: skip
    counts = {c: next(iter(methods.values()))["by_category"][c][metric]["n"] for c in categories}
    names = {c: textwrap.fill(c.replace("_", " "), _LABEL_CHARS) for c in categories}
    labels = [f"{names[c]}\nn = {counts[c]}" for c in categories]
    axes.set_xticks(np.arange(len(categories)), labels)
    axes.set(
        ylabel=f"mean share of gold turns in the first {k}",
        title=f"{report['benchmark']}: recall mean@{k} by category (95 % intervals)",
        ylim=(0, 1),
    )
    figure.legend(frameon=False, loc="outside lower center", ncols=min(len(methods), 6))
    return figure


def _latency(report: Mapping[str, Any], methods: Mapping[str, Any]) -> "Figure":
    """Median and 95th percentile of a query without encoding."""
    figure, axes = _axes(7.5, 0.5 * len(methods) + 1.6)
    names = sorted(methods, key=lambda name: methods[name]["latency_ms"]["p50"], reverse=True)
    for place, name in enumerate(names):
        median, late = (methods[name]["latency_ms"][p] for p in ("p50", "p95"))
        axes.plot([median, late], [place, place], color=_colour(name), linewidth=3, alpha=0.5)
        axes.plot(median, place, "o", color=_colour(name), markersize=9)
        axes.plot(late, place, "|", color=_colour(name), markersize=14, markeredgewidth=2.5)
        axes.annotate(
            f"{median:.2g} ms", (median, place), xytext=(0, 8), textcoords="offset points",
            ha="center", fontsize=8,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.2)
    axes.grid(axis="x", alpha=0.3)
    axes.set(
        xlabel="milliseconds a query, without encoding (dot: median, bar: 95th percentile)",
        title=f"{report['benchmark']}: latency",
    )
    return figure


def _ablation(report: Mapping[str, Any]) -> "Figure":
    """What each part gives: the difference when it is switched."""
    k = min(report["settings"]["k"], key=lambda k: abs(k - 5))
    gaps = {
        name: found["overall"][f"recall_mean@{k}"] for name, found in report["ablation"].items()
    }
    names = sorted(gaps, key=lambda name: gaps[name]["mean"])
    values = [gaps[name] for name in names]
    figure, axes = _axes(7.5, 0.36 * len(names) + 1.6)
    means = [value["mean"] for value in values]
    axes.barh(
        range(len(names)), means, xerr=_bounds(values), color=_COLOURS[OURS],
        error_kw={"elinewidth": 0.8, "ecolor": "#444444"},
    )  # fmt: skip
    axes.axvline(0, color="#444444", linewidth=0.8)
    labels = [name.removeprefix(f"{OURS}_").replace("_", " ") for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", alpha=0.3)
    axes.set(
        xlabel=f"recall mean@{k} of {OURS} minus that of the variant (paired 95 % interval)",
        title=f"{report['benchmark']}: what each part gives",
    )
    return figure
