"""The benchmark of retrieval at a small size: its shape, its ratios, and a very generous bound."""

from pathlib import Path

import pytest

from glong.models.fake import FakeEncoder
from glong.store import Store
from tests.benchmarks import retrieval
from tests.benchmarks.made_up import DIMENSION, EDGES_A_MEMORY
from tests.benchmarks.retrieval import Plan, compare, table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmark")


@pytest.fixture(scope="module")
def result(folder: Path) -> dict:  # type: ignore[type-arg]
    plan = Plan((500,), n_queries=10, n_baseline_queries=2, store_edges=3_000, n_loads=1)
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
    assert row["cpu_p50_ms"] > 0
    assert row["reading_ms"] > 0
    faster = size["baseline"]["p50_ms"] / row["p50_ms"]
    assert row["times_faster_than_baseline"] == pytest.approx(faster)
    assert row["p50_ms"] < 500


def test_loads_come_from_a_store_that_is_kept(result: dict, folder: Path) -> None:  # type: ignore[type-arg]
    loads = result["loads"]
    assert loads["graph_edges"] == EDGES_A_MEMORY
    assert 0 < loads["load"]["p50_ms"] < 5_000
    store = Store.open(str(folder / "edges-3000"))
    assert store.manifest().num_rows == 3_000 // 25
    assert store.read_graph("default", "dialogue-5").n_edges == EDGES_A_MEMORY
    assert (folder / "edges-3000.complete").exists()


def test_memories_of_a_store_of_many_have_rows_of_their_own(result: dict, folder: Path) -> None:  # type: ignore[type-arg]
    store = Store.open(str(folder / "edges-3000"))
    assert {found.rule for found in store.verify()} <= {"keys"}  # ids are no hashes here
    one, two = (store.read_graph("default", f"dialogue-{number}") for number in (1, 2))
    assert one.turn_texts == two.turn_texts
    assert not set(one.edge_ids) & set(two.edge_ids)
    assert not (one.edge_vectors == two.edge_vectors).all(axis=1).any()


def test_the_table_has_a_row_a_profile_and_two_for_the_load(result: dict) -> None:  # type: ignore[type-arg]
    shown = table(result).splitlines()
    rows = [line for line in shown if line.startswith("| ")]
    assert len({line.count("|") for line in shown if line.startswith("|")}) == 1
    assert [row.split(" | ")[0] for row in rows[2:4]] == ["| query, hybrid", "| query, paper"]
    assert all("500 of 3,000" in row for row in rows[-2:])


def test_the_help_explains_every_column(result: dict) -> None:  # type: ignore[type-arg]
    header = next(line for line in table(result).splitlines() if line.startswith("| what"))
    for column in header.strip("| ").split(" | ")[2:]:
        assert column in (retrieval.__doc__ or "")
