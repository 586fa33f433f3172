"""How training on Ray's workers ends; Ray itself is left out."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
import ray.train
import ray.train.torch

from jobs.exits import run_to_end
from jobs.workers import train_on_workers


def fail() -> None:
    raise ray.train.TrainingFailedError("A node went away.")


@pytest.mark.parametrize(
    ("happens", "status", "says"),
    [
        (lambda: signal.raise_signal(signal.SIGTERM), 130, "Interrupted; the last checkpoint"),
        (lambda: sys.exit(0), 130, "Interrupted; the last checkpoint"),  # what it does at Ctrl-C
        (fail, 3, "error: A training worker failed: A node went away."),
    ],
    ids=["sigterm", "ctrl_c", "failed"],
)
def test_training_that_is_stopped_says_so(
    happens: Callable[[], None],
    status: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Trainer:
        def __init__(self, *args: object, **options: object) -> None:
            pass

        def fit(self) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ray Train has a handler of its own
            happens()

    def init(**options: object) -> None:
        signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(signum))  # as Ray's does

    def work() -> dict[str, Any]:
        places = {"name": "job", "n_workers": 2, "n_threads": 1, "work": tmp_path}
        train_on_workers(None, lambda *args: None, **places)  # type: ignore[arg-type]
        return {}

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(ray, "cluster_resources", dict)
    monkeypatch.setattr(ray.train.torch, "TorchTrainer", Trainer)
    before = signal.getsignal(signal.SIGINT)
    assert run_to_end(work, None) == status
    assert says in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before
