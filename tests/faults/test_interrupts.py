"""Ctrl-C and SIGTERM: exit status 130, what was committed stays, nothing is left running."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.faults.builds import Bench, Tables, assert_same, assert_sound, committed, tables_of
from tests.faults.processes import members, wait_until

pytestmark = pytest.mark.slow


def _interrupt(bench: Bench, store: Path, signum: int) -> None:
    with bench.build(store, fault={"pause_s": 0.1}) as job:
        wait_until(lambda: committed(store) > 0, job)
        # As a terminal does: to the whole group of processes, Ray's among them.
        (os.killpg if signum == signal.SIGINT else os.kill)(job.process.pid, signum)
        assert job.wait(60) == 130, job.output()
        assert "Interrupted" in job.output()
        assert "Traceback" not in job.output()
        deadline = time.monotonic() + 30
        while left := members(job.process.pid):
            assert time.monotonic() < deadline, f"processes {left} are left"
            time.sleep(0.2)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=["ctrl_c", "sigterm"])
def test_an_interrupted_job_ends_with_130_and_keeps_what_it_committed(
    alone: Bench, bench: Bench, reference: Tables, tmp_path: Path, signum: int
) -> None:
    store = tmp_path / "store"
    _interrupt(alone if signum == signal.SIGINT else bench, store, signum)
    assert 0 < assert_sound(store, tmp_path / "interrupted", reference) < bench.n_sessions
    bench.finish(store)
    assert_same(tables_of(store, tmp_path / "rows"), reference)
