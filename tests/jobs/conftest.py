"""Running the build job: in this process without Ray, or on one Ray cluster a test session."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import local_ray


@dataclass(frozen=True)
class Outcome:
    """What a job left behind."""

    status: int
    summary: dict[str, Any]
    stderr: str


RunJob = Callable[..., Outcome]


@pytest.fixture
def run_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> RunJob:
    """``run_job(input, ..., option, value, ...)`` runs the job with fake models on ``memory``."""
    from jobs.build_memory import main

    def run(*inputs: str, options: tuple[str, ...] = (), store: str = "memory") -> Outcome:
        summary = tmp_path / "summary.json"
        summary.unlink(missing_ok=True)
        argv = ["--store", str(tmp_path / store), "--models", "fake", "--summary", str(summary)]
        argv += [word for value in inputs for word in ("--input", value)]
        capsys.readouterr()
        status = main([*argv, *options])
        numbers = json.loads(summary.read_text()) if summary.exists() else {}
        return Outcome(status, numbers, capsys.readouterr().err)

    return run


@pytest.fixture
def run_local(run_job: RunJob, monkeypatch: pytest.MonkeyPatch) -> RunJob:
    """The job without Ray: everything else is real."""
    local_ray.install(monkeypatch)
    return run_job


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[str]:
    """Address of a Ray cluster with ports and folder of its own, which stops with the tests."""
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="glong-ray-", dir="/tmp")  # short: its sockets have long names
    head = {
        "num_cpus": 2,
        "include_dashboard": False,
        "temp_dir": folder,
        "object_store_memory": 200 * 2**20,
    }
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_AUTH_MODE", "disabled")
            cluster = Cluster(initialize_head=True, head_node_args=head)
            yield cluster.address
            cluster.shutdown()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def run_on_ray(ray_cluster: str, run_job: RunJob, monkeypatch: pytest.MonkeyPatch) -> RunJob:
    """The job on a real cluster."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ADDRESS", ray_cluster)
    return run_job
