"""Running the build job: in this process without Ray, or on one Ray cluster a test session."""

import csv
import gzip
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import local_ray

PERSONA = ("i have a dog .", "i like pizza .", "my sister loves tea .")
"""Of the made-up dialogues in the data folder that training jobs read in tests."""


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


def _gzip(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with little in it."""
    folder = tmp_path_factory.mktemp("data")
    rows = [
        {"tokens": f"i have {n} dogs .".split(), "head": [0], "tail": [2, 3], "label": "have_pet"}
        for n in range(20, 320)
    ]
    _gzip(folder / "personaext/personaext_union.jsonl.gz", "\n".join(map(json.dumps, rows)))
    readme = "- Licence: none stated. Its paper says\n  more.\n- Other: x\n"
    (folder / "personaext/README.md").write_text(readme)
    for name in ("valid", "test"):
        turns = [
            {"speaker": f"Speaker {i % 2 + 1}", "text": f"{text} {name}", "persona_text": text}
            for i, text in enumerate((*PERSONA, "hello there !"))
        ]
        session = {"sessions": [{"session": 1, "dialog": turns}]}
        _gzip(folder / f"msc/msc_{name}.jsonl.gz", json.dumps(session))
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["user 1 personas", "user 2 personas", "Best Generated Conversation"])
    talk = "User 1: hi !\nUser 2: i have a cat .\nUser 1: i play tennis ."
    writer.writerow(["i play tennis .", "i have a cat .", talk])
    name = "synthetic_persona_chat/Synthetic-Persona-Chat_valid.csv.gz"
    _gzip(folder / name, table.getvalue())
    pair = {"x": "Speaker 1", "y": "Rex", "r": ["per:pet"], "t": ["dog"], "rid": [28]}
    _gzip(folder / "dialogre/train.json.gz", json.dumps([[["Speaker 1: My dog is Rex."], [pair]]]))
    for name in ("dev", "test"):
        _gzip(folder / f"dialogre/{name}.json.gz", "[]")
    _gzip(folder / "locomo/locomo10.json.gz", "[]")
    return folder
