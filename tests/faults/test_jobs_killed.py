"""SIGKILL of whole jobs at random moments: run again, they end with the undisturbed tables."""

import random
import time
from pathlib import Path

import pytest

from glong.store import Store
from tests.faults.builds import (
    WAVE_SIZE,
    Bench,
    Tables,
    assert_same,
    assert_sound,
    committed,
    tables_of,
)
from tests.faults.processes import wait_until

pytestmark = pytest.mark.slow

PAUSE_S = 0.1
"""After every step of a wave, so that a random moment may fall between any two of them."""


def _kill_amid(bench: Bench, store: Path, dice: random.Random, *options: str) -> None:
    """Start the job, kill it at a random moment after it has committed and before it ends."""
    before = committed(store)
    with bench.build(store, *options, fault={"pause_s": PAUSE_S}) as job:
        wait_until(lambda: committed(store) > before, job)
        time.sleep(dice.uniform(0.0, 2.0))
        assert job.is_alive(), "ended before it was killed"
        job.kill()
    assert before < committed(store) < bench.n_sessions


@pytest.mark.parametrize(
    ("seed", "n_kills", "writer"), [(1, 4, "driver"), (2, 4, "workers")], ids=["driver", "workers"]
)
def test_a_job_killed_again_and_again_ends_with_the_undisturbed_tables(
    bench: Bench, reference: Tables, tmp_path: Path, seed: int, n_kills: int, writer: str
) -> None:
    store, dice = tmp_path / "store", random.Random(seed)
    for kill in range(n_kills):
        _kill_amid(bench, store, dice, "--writer", writer)
        assert_sound(store, tmp_path / f"rows-{kill}", reference)
    bench.finish(store, "--writer", writer)
    assert assert_sound(store, tmp_path / "rows", reference) == bench.n_sessions
    assert_same(tables_of(store, tmp_path / "rows"), reference)


@pytest.mark.ci
def test_a_job_killed_with_its_ray_ends_with_the_undisturbed_tables(
    alone: Bench, bench: Bench, reference: Tables, tmp_path: Path
) -> None:
    store, dice = tmp_path / "store", random.Random(3)
    _kill_amid(alone, store, dice)
    assert_sound(store, tmp_path / "killed", reference)
    bench.finish(store)
    assert_same(tables_of(store, tmp_path / "rows"), reference)


STEPS = (
    ("create", 3),
    ("turns", 1),
    ("edges", 2),
    ("failures", 2),
    ("merge_failures", 3),
    ("manifest", 2),
    ("upkeep", 1),
)
"""Where the driver dies, one run after another: see :mod:`tests.faults.slow_build`."""


def test_a_driver_that_dies_after_each_step_of_a_wave_ends_with_the_undisturbed_tables(
    bench: Bench, reference: Tables, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    for place, step in enumerate(STEPS):
        with bench.build(store, fault={"die_after": step}) as job:
            assert job.wait() == -9, job.output()
        if step[0] != "create":
            visible = assert_sound(store, tmp_path / f"rows-{place}", reference)
            assert visible < bench.n_sessions
    bench.finish(store)
    assert_same(tables_of(store, tmp_path / "rows"), reference)


@pytest.mark.parametrize("writer", [pytest.param("driver", marks=pytest.mark.ci), "workers"])
def test_rows_whose_manifest_was_never_written_stay_invisible_and_are_built_again(
    bench: Bench, reference: Tables, tmp_path: Path, writer: str
) -> None:
    store = tmp_path / "store"
    options = ("--writer", writer)
    with bench.build(store, *options, fault={"die_after": ("merge_failures", 2)}) as job:
        assert job.wait() == -9, job.output()
    # The first wave is whole; of the second all data is there and nothing names it.
    assert WAVE_SIZE <= assert_sound(store, tmp_path / "killed", reference) < bench.n_sessions
    assert _garbage(store) > 0
    bench.finish(store, *options)
    assert_same(tables_of(store, tmp_path / "rows"), reference)


def _garbage(store: Path) -> int:
    return Store.open(str(store)).status().garbage_rows["turns"]
