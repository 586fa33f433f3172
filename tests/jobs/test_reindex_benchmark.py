"""The benchmark job from options to the files of its report, with fake models.

Most tests run it in this process, as those of the build job; one marked ``slow`` on Ray.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ray import cloudpickle

from glong.errors import NotFoundError
from glong.evaluation.methods import ABLATION, DEFAULT_METHODS
from glong.evaluation.pages import TIMES
from glong.store import Store
from jobs import reindex_benchmark
from jobs.benchmark import tasks
from tests.glong.evaluation.memories import locomo_sample, qa
from tests.jobs import local_ray
from tests.jobs.conftest import Outcome
from tests.jobs.inputs import write

Run = Callable[..., Outcome]
SAMPLES = [
    locomo_sample(
        "conv-26",
        [
            qa("Which pet has Mira?", "D1:1"),
            qa("Who was in Leipzig?", "D1:3", "D2:3", category=1),
            qa("Who knows?", "D"),
        ],
    ),
    locomo_sample("conv-44", [qa("What does Tom grill?", "D2:1"), qa("Sell?", "D2:1", category=5)]),
]


@pytest.fixture
def run_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """``run_job(option, value, ..., out=...)`` on two made-up samples of LoCoMo."""
    path = write(tmp_path / "locomo.jsonl", SAMPLES)

    def run(
        *options: str, out: str = "out", benchmark: str = "locomo", data: str = path
    ) -> Outcome:
        summary = tmp_path / "summary.json"
        summary.unlink(missing_ok=True)
        argv = ["--benchmark", benchmark, "--data", data, "--store", str(tmp_path / "memory")]
        argv += ["--out", str(tmp_path / out), "--models", "fake", "--summary", str(summary)]
        capsys.readouterr()
        status = reindex_benchmark.main([*argv, *options])
        numbers = json.loads(summary.read_text()) if summary.exists() else {}
        return Outcome(status, numbers, capsys.readouterr().err)

    return run


def in_process(function: Callable[[Any], Any], work: Sequence[Any]) -> Iterator[Any]:
    """As :func:`jobs.benchmark.tasks.on_workers`: tasks and results travel pickled."""
    sent = cloudpickle.loads(cloudpickle.dumps(function))
    for task in work:
        yield cloudpickle.loads(cloudpickle.dumps(sent(cloudpickle.loads(cloudpickle.dumps(task)))))


@pytest.fixture
def run_local(run_job: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The job without Ray: everything else is real."""
    local_ray.install(monkeypatch)
    monkeypatch.setattr(tasks, "on_workers", in_process)
    return run_job


def read(tmp_path: Path, out: str = "out") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / out / "report.json").read_text("utf-8"))
    return found


def test_one_command_indexes_asks_and_reports(run_local: Run, tmp_path: Path) -> None:
    outcome = run_local()
    assert outcome.status == 0, outcome.stderr
    assert outcome.summary["n_questions"] == 4
    assert outcome.summary["build"]["sessions_built"] == 4
    report = read(tmp_path)
    assert list(report["methods"]) == [*DEFAULT_METHODS, *ABLATION]
    assert report["methods"]["bm25"]["metrics"]["recall_mean@5"]["n"] == 3
    assert report["gold_turns_not_indexed"] == 0
    assert report["label_traps"]["evidence_strings_without_an_id"] == 1
    assert len(report["data_sha256"]) == 64
    out = tmp_path / "out"
    plots = {path.name for path in (out / "plots").iterdir()}
    assert plots == {"recall_at_k.png", "by_category.png", "latency.png", "ablation.png"}
    text = (out / "report.md").read_text("utf-8")
    assert all(f"](plots/{name})" in text for name in plots)
    table = pq.read_table(out / "per_question.parquet")
    assert table.num_rows == 4 * (len(DEFAULT_METHODS) - 1 + len(ABLATION))


def test_a_second_run_reuses_the_index_and_repeats_the_report(
    run_local: Run, tmp_path: Path
) -> None:
    run_local(out="a")
    store = Store.open(str(tmp_path / "memory"))
    version = store.version
    outcome = run_local(out="b")
    assert outcome.summary["build"]["sessions_built"] == 0
    assert store.version == version
    a, b = tmp_path / "a", tmp_path / "b"
    for name in ("per_question.parquet", "plots/recall_at_k.png", "plots/by_category.png"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    pages = [(folder / "report.md").read_text("utf-8").partition(TIMES)[0] for folder in (a, b)]
    assert pages[0] == pages[1]
    reports = [read(tmp_path, out) for out in ("a", "b")]
    for report in reports:
        del report["environment"]
        for method in report["methods"].values():
            del method["latency_ms"]
    assert json.dumps(reports[0]) == json.dumps(reports[1])


def test_asking_leaves_no_access_in_the_store(run_local: Run, tmp_path: Path) -> None:
    run_local()
    assert Store.open(str(tmp_path / "memory")).visible("accesses").num_rows == 0


def test_limit_is_the_first_questions_and_indexes_no_more_dialogues_than_they_need(
    run_local: Run, tmp_path: Path
) -> None:
    outcome = run_local("--limit", "2", "--no-ablation")
    assert outcome.summary["n_questions"] == 2
    assert read(tmp_path)["settings"]["limit"] == 2
    store = Store.open(str(tmp_path / "memory"))
    assert store.read_graph("default", "conv-26").n_turns == 6
    with pytest.raises(NotFoundError):
        store.read_graph("default", "conv-44")
    assert run_local("--limit", "3").summary["build"]["sessions_built"] == 2


def test_methods_and_cut_offs_can_be_chosen(run_local: Run, tmp_path: Path) -> None:
    run_local("--methods", "bm25,glong", "--k", "4,2", "--no-ablation")
    report = read(tmp_path)
    assert list(report["methods"]) == ["bm25", "glong"]
    assert report["settings"]["k"] == [2, 4]
    assert "recall_all@4_memories" in report["methods"]["glong"]["metrics"]
    assert report["ablation"] == {}


def test_the_reports_say_what_the_index_was_made_by(run_local: Run, tmp_path: Path) -> None:
    run_local("--no-ablation")
    settings = read(tmp_path)["settings"]
    assert settings["index_made_by"].keys() == {"extractor", "scorer", "encoder"}
    assert all(len(made_by) == 1 for made_by in settings["index_made_by"].values())
    assert settings["hybrid"]["lexical"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--k", "0,3"), "--k is '0,3'; allowed: whole numbers, 1 to 1000"),
        (("--k", "three"), "--k is 'three'"),
        (("--methods", "graphrag"), "methods are 'graphrag'; allowed"),
        (("--limit", "-1"), "--limit is -1; allowed: 0 or more"),
        (("--seed", "-1"), "--seed is -1; allowed: 0 or more"),
        (("--models", "huge"), "huge"),
        (("--max-failure-rate", "2"), "--max-failure-rate is 2.0; allowed: 0 to 1"),
        (("--data", "gone.json"), "'gone.json' does not exist"),
        (("--benchmark", "longmemeval"), "question_id is missing"),
        (("--benchmark", "conversation_chronicles"), "no labels"),
    ],
)
def test_bad_usage_ends_before_any_work(
    run_job: Run, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    outcome = run_job(*options)
    assert outcome.status == 2
    assert message in outcome.stderr
    assert not (tmp_path / "memory").exists()
    assert not (tmp_path / "out").exists()


def test_relative_paths_of_a_submitted_job_are_bad_usage(
    run_job: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    outcome = run_job("--out", "report")
    assert outcome.status == 2
    assert "--out is 'report', a relative path, in a submitted job" in outcome.stderr


def test_sessions_that_cannot_be_built_are_told_by_the_exit_status(
    run_local: Run, tmp_path: Path
) -> None:
    broken = locomo_sample("conv-50", [])
    broken["conversation"]["session_1"] = [{"speaker": "Mira"}]
    data = write(tmp_path / "broken.jsonl", [SAMPLES[0], broken])
    outcome = run_local("--no-ablation", data=data)
    assert outcome.status == 1
    assert read(tmp_path)["n_questions"] == 2


@pytest.mark.slow
def test_the_job_on_ray(
    run_job: Run, ray_cluster: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ADDRESS", ray_cluster)
    outcome = run_job("--no-ablation")
    assert outcome.status == 0, outcome.stderr
    assert read(tmp_path)["methods"]["bm25"]["metrics"]["mrr@20"]["n"] == 3
