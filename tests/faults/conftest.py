"""An undisturbed build to compare with, and a Ray cluster that outlives the jobs that are killed.

Every test here is slow: a job takes 10 to 60 seconds to start on a small machine.
"""

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.builds import MODELS, Bench, Tables, tables_of, write_input
from tests.faults.processes import ROOT, Running, running, wait_until

CLUSTER_CPUS = 8
"""For Ray's books only: room for two jobs at once with an actor a stage."""


@pytest.fixture(scope="session")
def ray_dir() -> Iterator[Path]:
    """Ray's own files: a short path, since those of sockets may have 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="gl-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory, ray_dir: Path) -> Bench:
    """Jobs that start a Ray of their own, which dies with them."""
    folder = tmp_path_factory.mktemp("bench")
    write_input(folder / "input")
    models, logs = folder / "fake.toml", folder / "logs"
    models.write_text(MODELS, encoding="utf-8")
    logs.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "RAY_TMPDIR": str(ray_dir),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_worker_niceness": "0",  # else other work on the machine starves the actors
    }
    return Bench(folder / "input", models, logs, environment)


def _address(cluster: Running) -> list[str]:
    return re.findall(r"^address: (\S+)$", cluster.output(), re.MULTILINE)


@pytest.fixture(scope="session")
def bench(alone: Bench, ray_dir: Path) -> Iterator[Bench]:
    """Jobs that join one cluster: they start sooner, and what they leave behind stays there."""
    command = ["-m", "tests.faults.cluster", str(CLUSTER_CPUS), str(ray_dir / "c")]
    log = alone.logs / "cluster.log"
    with running(command, log, alone.environment, stdin=subprocess.PIPE) as cluster:
        wait_until(lambda: bool(_address(cluster)), cluster, limit_s=180)
        address = _address(cluster)[-1]
        environment = {**alone.environment, "RAY_ADDRESS": address}
        yield replace(alone, environment=environment, cluster=cluster)


@pytest.fixture(scope="session")
def reference(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The tables of a build that nothing disturbed."""
    folder = tmp_path_factory.mktemp("reference")
    bench.finish(folder / "store")
    tables = tables_of(folder / "store", folder / "rows")
    assert len(tables["sessions"]) == bench.n_sessions
    return tables
