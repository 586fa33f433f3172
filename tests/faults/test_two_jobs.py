"""Two jobs on one store at once: both end, and no session is there twice."""

import json
from pathlib import Path

import pytest

from glong.store import Store
from tests.faults.builds import Bench, Tables, assert_same, tables_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("writer", ["driver", "workers"])
def test_two_jobs_on_one_store_at_once_both_end_and_no_session_is_there_twice(
    bench: Bench, reference: Tables, tmp_path: Path, writer: str
) -> None:
    store, options = tmp_path / "store", ("--writer", writer, "--summary")
    summaries = [tmp_path / "first.json", tmp_path / "second.json"]
    with (
        bench.build(store, *options, str(summaries[0]), fault={"pause_s": 0.05}) as first,
        bench.build(store, *options, str(summaries[1]), fault={"pause_s": 0.05}) as second,
    ):
        first.succeed()
        second.succeed()
    planned = [json.loads(path.read_text())["sessions_planned"] for path in summaries]
    assert sum(planned) > bench.n_sessions, "they did not overlap"
    assert Store.open(str(store)).verify() == []
    assert_same(tables_of(store, tmp_path / "rows"), reference)
