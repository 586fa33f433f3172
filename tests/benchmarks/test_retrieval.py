"""The benchmark of retrieval at a small size: its shape, its ratios, and a very generous bound."""

from pathlib import Path

import pytest

from glong.models.fake import FakeEncoder
from glong.store import Store
from tests.benchmarks.retrieval import BASELINE, DIMENSION, EDGES_LOADED, Plan, compare, table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmark")


@pytest.fixture(scope="module")
def result(folder: Path) -> dict:  # type: ignore[type-arg]
    plan = Plan((500,), n_queries=10, n_baseline_queries=2, store_edges=3_000, n_loads=3)
    return compare(plan, FakeEncoder(DIMENSION), folder)


def test_it_measures_the_memory_that_it_says(result: dict) -> None:  # type: ignore[type-arg]
    (size,) = result["sizes"]
    assert (size["n_edges"], size["n_turns"]) == (500, 500)
    assert 50 < size["n_entities"] < 500
    assert size["baseline"]["n_candidates_p50"] > 0


@pytest.mark.parametrize("profile", ["paper", "hybrid"])
def test_each_profile_has_its_times_and_ratios(result: dict, profile: str) -> None:  # type: ignore[type-arg]
    (size,) = result["sizes"]
    row = size[profile]
    assert 0 < row["p50_ms"] <= row["p95_ms"]
    assert row["over_limit"] == pytest.approx(row["p50_ms"] / row["limit_ms"])
    faster = size["baseline"]["p50_ms"] / row["p50_ms"]
    assert row["times_faster_than_baseline"] == pytest.approx(faster)
    assert row["p50_ms"] < 500


def test_loads_come_from_a_store_that_is_kept(result: dict, folder: Path) -> None:  # type: ignore[type-arg]
    loads = result["loads"]
    assert loads["graph_edges"] == EDGES_LOADED
    assert 0 < loads["load"]["p50_ms"] < 5_000
    store = Store.open(str(folder / "edges-3000"))
    assert store.manifest().num_rows == 3_000 // 25
    assert store.read_graph("default", "dialogue-5").n_edges == EDGES_LOADED
    assert (folder / "edges-3000.complete").exists()


def test_the_table_names_the_baseline_and_has_a_row_a_profile(result: dict) -> None:  # type: ignore[type-arg]
    shown = table(result)
    assert BASELINE in shown
    assert shown.count("| 500 | ") == 2
    assert "One memory of 500 edges out of 3,000" in shown
