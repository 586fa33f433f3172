"""The page of a report."""

from glong.evaluation.pages import TIMES, page
from tests.glong.evaluation.results import report


def test_a_page_has_a_section_for_each_part_of_the_report() -> None:
    text = page(report(), ["plots/recall_at_k.png"])
    for part in (
        "# Retrieval on locomo", "## Overall", "## R@5 by category", "Untouched (n = 2)",
        "## User turns alone", "## Paired differences", "## Ablation", "## What is missed",
        "## Labels and settings", "![recall_at_k](plots/recall_at_k.png)",
        "| ids that name no turn | 2 |", "- A note.", "decay_per_s `1e-07`",
    ):  # fmt: skip
        assert part in text, part
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)


def test_pages_of_two_runs_differ_in_their_last_section_alone() -> None:
    first, second = page(report(0.001)), page(report(0.25))
    assert first != second
    assert first.partition(TIMES)[0] == second.partition(TIMES)[0]


def test_a_report_of_one_method_has_no_empty_section() -> None:
    found = report()
    found |= {"methods": {"bm25": found["methods"]["bm25"]}, "comparisons": {}, "ablation": {}}
    found["misses"] = {}
    text = page(found)
    assert "## Paired differences" not in text
    assert "## Ablation" not in text
    assert "\n\n\n" not in text
