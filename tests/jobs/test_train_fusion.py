"""From a store of made-up LoCoMo samples to a file of factors, with fake models."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from glong.retrieval.parts import PARTS
from jobs.train_fusion import main
from tests.glong.evaluation.memories import locomo_sample, qa
from tests.jobs.conftest import RunJob
from tests.jobs.inputs import write

SAMPLES = [
    locomo_sample(
        "conv-26",
        [
            qa("Which greyhound chewed the glue?", "D1:1"),
            qa("Who was in Leipzig?", "D1:3", "D2:3", category=1),
            qa("Which pet is adversarial?", "D1:1", category=5),
        ],
    ),
    locomo_sample("conv-30", [qa("What does Tom grill on the balcony?", "D2:1")]),
    locomo_sample("conv-44", [qa("Not meant for tuning", "D2:2")]),
]


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write(tmp_path / "locomo.jsonl", SAMPLES)


@pytest.fixture
def store(run_local: RunJob, data: str, tmp_path: Path) -> str:
    """The index of all samples."""
    outcome = run_local(data, options=("--format", "locomo"))
    assert outcome.status == 0, outcome.stderr
    return str(tmp_path / "memory")


def run(tmp_path: Path, *benchmarks: str, options: tuple[str, ...] = ()) -> tuple[int, Any]:
    summary, out = tmp_path / "trained.json", tmp_path / "fusion.toml"
    argv = ["--models", "fake", "--out", str(out), "--summary", str(summary), *options]
    for data, uri in zip(benchmarks[::2], benchmarks[1::2], strict=True):
        argv += ["--benchmark", "locomo", data, uri]
    status = main(argv)
    return status, json.loads(summary.read_text("utf-8")) if summary.exists() else None


def test_factors_of_every_part_are_written_with_what_they_were_learnt_on(
    store: str, data: str, tmp_path: Path
) -> None:
    status, summary = run(tmp_path, data, store)
    assert status == 0
    assert summary["questions"] == {"locomo": 4}  # none of another conversation
    text = (tmp_path / "fusion.toml").read_text("utf-8")
    assert "# locomo: 4 of 4 questions, data sha256 " in text
    assert "# shrink 2.0, tie 10.0, adversarial 0.3" in text
    factors = tomllib.loads(text)["factors"]
    assert list(factors) == [name for names in PARTS.values() for name in names]
    assert all(len(pair) == 2 for pair in factors.values())
    assert factors["words"][0] > 0 >= factors["closed"][0]
    again, _ = run(tmp_path, data, store)
    assert again == 0
    assert (tmp_path / "fusion.toml").read_text("utf-8") == text


def test_adversarial_questions_count_as_much_as_asked_for(
    store: str, data: str, tmp_path: Path
) -> None:
    factors = {}
    for share in ("0", "0.3", "1"):
        _, summary = run(tmp_path, data, store, options=("--adversarial", share))
        assert summary["questions"] == {"locomo": 3 if share == "0" else 4}
        factors[share] = summary["factors"]["words"][0]
    assert len(set(factors.values())) == 3
    assert "adversarial 1.0" in (tmp_path / "fusion.toml").read_text("utf-8")


def test_a_benchmark_given_twice_counts_its_questions_of_both(
    store: str, data: str, tmp_path: Path
) -> None:
    other = write(tmp_path / "other.jsonl", SAMPLES[1:])
    status, summary = run(tmp_path, data, store, other, store, options=("--shrink", "5"))
    assert status == 0
    assert summary["questions"] == {"locomo": 5}
    assert "# shrink 5.0" in (tmp_path / "fusion.toml").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shrink", "-1"), "--shrink is -1.0; allowed: 0 or more"),
        (("--tie", "nan"), "--tie is nan"),
        (("--adversarial", "-0.1"), "--adversarial is -0.1"),
        (("--out", "gone/fusion.toml"), "--out is 'gone/fusion.toml', in a folder"),
        (("--models", "huge"), "huge"),
        (("--benchmark", "graphs", "x", "y"), "graphs"),
    ],
)
def test_bad_usage_writes_nothing(
    store: str,
    data: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    status, _ = run(tmp_path, data, store, options=options)
    assert status == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "fusion.toml").exists()


def test_a_store_of_other_dialogues_is_refused(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write(tmp_path / "other.jsonl", [locomo_sample("conv-41", [qa("Who?", "D1:1")])])
    status, _ = run(tmp_path, other, store)
    assert status == 2
    assert "has no dialogue with a question" in capsys.readouterr().err


def test_a_store_that_is_not_there_is_bad_usage(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _ = run(tmp_path, data, str(tmp_path / "gone"))
    assert status == 2
    assert "There is no store at" in capsys.readouterr().err
