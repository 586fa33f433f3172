"""The numbers of a report: form, sets of questions, comparisons, and that they repeat."""

import json
from typing import Any

import pytest

from glong.evaluation.methods import ABLATION, DEFAULT_METHODS
from glong.evaluation.report import question_table
from tests.glong.evaluation.results import METHODS, judgements, report


def without_times(found: dict[str, Any]) -> dict[str, Any]:
    """What must be equal in two runs."""
    del found["environment"]
    for method in found["methods"].values():
        del method["latency_ms"]
    return found


def test_a_report_has_the_promised_form() -> None:
    found = json.loads(json.dumps(report(), allow_nan=False))
    assert (found["benchmark"], found["n_questions"]) == ("locomo", 4)
    assert list(found["methods"]) == list(METHODS)
    glong = found["methods"]["glong"]
    metric = glong["metrics"]["recall_any@3"]
    assert metric.keys() == {"mean", "ci95", "n"}
    assert len(metric["ci95"]) == 2
    wanted = {f"recall_{kind}@{k}{end}" for kind in ("any", "all", "mean") for k in (1, 3, 5)
              for end in ("", "_memories")} | {"mrr@20", "ndcg@10"}  # fmt: skip
    assert glong["metrics"].keys() == wanted
    assert glong["latency_ms"].keys() == {"p50", "p95"}
    assert glong["prompt_tokens"]["mean"] > 0
    assert glong["unit"] == "turn"


def test_adversarial_questions_count_by_category_only() -> None:
    glong = report()["methods"]["glong"]
    assert glong["metrics"]["mrr@20"]["n"] == 3
    assert {c: m["mrr@20"]["n"] for c, m in glong["by_category"].items()} == {
        "adversarial": 1, "multi_hop": 1, "single_hop": 2,
    }  # fmt: skip


def test_the_tuned_and_the_untouched_half_stand_apart() -> None:
    glong = report()["methods"]["glong"]
    assert glong["metrics_tuned_on"]["mrr@20"]["n"] == 1
    assert glong["metrics_untouched"]["mrr@20"]["n"] == 2


def test_user_turns_stand_apart() -> None:
    found = report()["methods"]["bm25"]["metrics_user_turns"]
    assert found["mrr@20"]["n"] == 2  # the questions whose gold turns are Mira's
    assert "recall_any@1_memories" not in found


def test_full_context_has_tokens_and_nothing_else() -> None:
    found = report()["methods"]["full_context"]
    assert found["prompt_tokens"]["mean"] > 0
    assert (found["metrics"], found["by_category"], found["latency_ms"]) == ({}, {}, None)


def test_ours_is_compared_with_every_other_method_and_the_ablation_stands_apart() -> None:
    found = report()
    assert list(found["comparisons"]) == [*DEFAULT_METHODS[1:-1]]
    assert list(found["ablation"]) == [ABLATION[0], ABLATION[3]]
    gap = found["comparisons"]["bm25"]["overall"]["recall_mean@3"]
    ours, theirs = (
        found["methods"][m]["metrics"]["recall_mean@3"]["mean"] for m in ("glong", "bm25")
    )
    assert gap["mean"] == pytest.approx(ours - theirs, abs=2e-6)
    assert gap.keys() == {"mean", "ci95", "ci95_by_dialogue", "n"}
    assert found["comparisons"]["bm25"]["by_category"].keys() == {
        "adversarial", "multi_hop", "single_hop",
    }  # fmt: skip


def test_every_question_ends_somewhere() -> None:
    found = report()["misses"]
    assert {category: sum(counts.values()) for category, counts in found.items()} == {
        "adversarial": 1, "multi_hop": 1, "single_hop": 2,
    }  # fmt: skip


def test_two_runs_differ_in_times_alone() -> None:
    first, second = report(0.001), report(0.25)
    assert first != second
    assert without_times(first) == without_times(second)


def test_the_table_has_a_row_for_each_question_and_method_that_ranks() -> None:
    table = question_table(judgements())
    assert table.num_rows == 4 * (len(METHODS) - 1)
    row = table.to_pylist()[0]
    assert (row["question_id"], row["method"], row["gold"]) == (
        "conv-1/0",
        "glong",
        ["session_1/0"],
    )
    assert len(row["found"]) == 5
    assert not {name for name in table.column_names if "latency" in name}
    assert table.equals(question_table(judgements(0.5)))
