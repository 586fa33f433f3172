"""The benchmark of the service at a small size: its shape, its ratios, what must stay bounded."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.serve import Load, table, with_ratios

ROWS = {
    "n": 4, "errors": {}, "p50_ms": 8.0, "p95_ms": 9.0, "p99_ms": 9.5, "requests_per_s": 100.0,
    "cpu_ms": 6.0, "cpu_ms_with_idle": 6.5,
}  # fmt: skip


def test_a_load_is_summed_up_without_what_ray_takes_when_idle() -> None:
    load = Load([1.0, 2.0, 3.0, 4.0], {503: 2}, wall_s=2.0, cpu_s=0.2)
    row = load.summary(idle_cpu_share=0.05)
    assert (row["n"], row["errors"], row["p50_ms"]) == (4, {503: 2}, 2.5)
    assert row["requests_per_s"] == 2.0
    assert row["cpu_ms"] == pytest.approx(25.0)
    assert row["cpu_ms_with_idle"] == pytest.approx(50.0)


def test_a_load_without_any_answer_has_no_times() -> None:
    row = Load([], {500: 3}, wall_s=1.0, cpu_s=0.1).summary()
    assert row["errors"] == {500: 3}
    assert "p50_ms" not in row


def test_the_table_names_baseline_and_floor_and_has_a_row_a_load() -> None:
    memory = {"cached_mb": 3.0, "rss_mb": 300.0}
    result: dict[str, Any] = {
        "models": "fake",
        "encoding": {"n": 5, "cpu_ms": 2.0, "p50_ms": 2.0, "p95_ms": 3.0},
        "first_ms": 20.0,
        "cold": ROWS,
        "idle_cpu_share": 0.05,
        "warm": {"1": dict(ROWS), "8": dict(ROWS)},
        "floor": {"1": {**ROWS, "cpu_ms": 4.0}, "8": {**ROWS, "cpu_ms": 4.0}},
        "many": {
            "load": ROWS,
            "samples": [{"asked": 0, "rss_mb": 300.0}],
            "cache_mb_allowed": 4.0,
            "before": memory,
            "after": memory,
        },
    }
    shown = table(with_ratios(result))
    row = result["warm"]["8"]
    assert (row["cpu_over_encoding"], row["cpu_over_floor"]) == (3.0, 1.5)
    assert row["cpu_beyond_encoding_ms"] == 4.0
    assert "baseline: encoding alone, 2.00 CPU-ms" in shown
    assert shown.count("| 4.0 | ") == 4
    assert "300 -> 300 MB" in shown


@pytest.mark.slow
def test_a_small_run_measures_everything_and_the_cache_stays_bounded(tmp_path: Path) -> None:
    out = tmp_path / "serve.json"
    options = {
        "--graphs": "40", "--warm": "4", "--clients": "1,4", "--seconds": "1", "--cache-mb": "2",
        "--report-s": "12", "--store": str(tmp_path), "--out": str(out),
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.benchmarks.serve", *sum(options.items(), ())]
    done = subprocess.run(command, cwd=os.getcwd(), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(out.read_text(encoding="utf-8"))
    for n in ("1", "4"):
        row = result["warm"][n]
        assert row["n"] > 0
        assert row["errors"] == {}
        assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"]
        assert all(math.isfinite(row[name]) for name in ("cpu_ms", "cpu_over_floor"))
    many = result["many"]
    assert many["load"]["n"] == 40
    assert 0 < many["before"]["cached_mb"] <= many["after"]["cached_mb"] <= 2
    assert many["after"]["rss_mb"] < many["before"]["rss_mb"] + 200
    assert "| 4 | " in done.stdout
