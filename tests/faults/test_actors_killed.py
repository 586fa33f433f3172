"""SIGKILL of actors at work: Ray starts them anew, and nothing is lost or doubled."""

import os
import random
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.builds import MODELS, Bench, Tables, assert_same, committed, tables_of
from tests.faults.processes import Running, members, title, wait_until

pytestmark = pytest.mark.slow


def _actors(bench: Bench, stage: str) -> list[int]:
    """The cluster's processes that hold an actor of a stage."""
    assert bench.cluster is not None
    return [pid for pid in members(bench.cluster.process.pid) if stage in title(pid)]


def _in_small_pieces(bench: Bench, folder: Path) -> Bench:
    """One session a batch: each stage then has work for most of the run."""
    models = folder / "small-batches.toml"
    models.write_text(re.sub("batch_size = [0-9]+", "batch_size = 1", MODELS), encoding="utf-8")
    return replace(bench, models=models)


def _kill_actor(bench: Bench, job: Running, stage: str, killed: set[int]) -> None:
    """Kill a stage's actor, one that was not killed before: the second kill waits for Ray."""
    wait_until(lambda: bool(set(_actors(bench, stage)) - killed), job)
    pid = min(set(_actors(bench, stage)) - killed)
    assert job.is_alive()
    os.kill(pid, signal.SIGKILL)
    killed.add(pid)


def _build_with_kills(bench: Bench, store: Path, seed: int, stages: list[str], writer: str) -> None:
    """Kill the actors of these stages, one after another, from a random state of progress on.

    Nothing waits for Ray's answer to a kill but the next kill of the same stage: a new actor takes
    ten seconds to start, and the stages have work for a minute.
    """
    dice = random.Random(seed)
    # The first stages are ahead of what is committed: later they may have no work left.
    moments = sorted(dice.randrange(1, bench.n_sessions // 8) for _ in stages)
    bench = _in_small_pieces(bench, store.parent)
    killed: set[int] = set()
    with bench.build(store, "--writer", writer) as job:
        for stage, moment in zip(stages, moments, strict=True):
            wait_until(lambda at=moment: committed(store) >= at, job)
            _kill_actor(bench, job, stage, killed)
        job.succeed()
    assert len(killed) == len(stages)


@pytest.mark.ci
def test_a_job_whose_actor_is_killed_ends_with_the_undisturbed_tables(
    bench: Bench, reference: Tables, tmp_path: Path
) -> None:
    _build_with_kills(bench, tmp_path / "store", 4, ["ExtractStage"], "driver")
    assert_same(tables_of(tmp_path / "store", tmp_path / "rows"), reference)


def test_a_job_whose_actors_are_killed_again_and_again_ends_with_the_undisturbed_tables(
    bench: Bench, reference: Tables, tmp_path: Path
) -> None:
    stages = ["ExtractStage", "WeighStage", "EmbedStage"] * 2
    _build_with_kills(bench, tmp_path / "store", 5, stages, "driver")
    assert_same(tables_of(tmp_path / "store", tmp_path / "rows"), reference)


def test_workers_killed_while_they_write_leave_nothing_half_written(
    bench: Bench, reference: Tables, tmp_path: Path
) -> None:
    stages = ["ExtractStage", "EmbedStage", "WriteStage", "WriteStage", "WriteStage"]
    _build_with_kills(bench, tmp_path / "store", 6, stages, "workers")
    assert_same(tables_of(tmp_path / "store", tmp_path / "rows"), reference)
