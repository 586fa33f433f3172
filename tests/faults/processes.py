"""Jobs and clusters as processes that a test may kill, and what is left of them afterwards.

Each is started in a session of the operating system of its own. Ray's processes stay in the session
of whoever started them, so a session's members are exactly the processes of one job (with the Ray
that it started) or of one cluster, whatever else runs on the machine.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = ["ROOT", "Running", "members", "running", "title", "wait_until"]

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 300.0
"""Seconds that a job may take on a busy machine; nothing here waits longer."""
TAIL = 3000
"""Characters of a job's output that a failure shows."""


@dataclass(frozen=True)
class Running:
    """A started process, its session and the file with its output."""

    process: subprocess.Popen[bytes]
    log: Path

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self, limit_s: float = LIMIT_S) -> int:
        """The exit status; a test fails, with the end of the output, where it takes too long."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"did not end within {limit_s:g} s; its output:\n{self.output()[-TAIL:]}")

    def succeed(self, limit_s: float = LIMIT_S) -> None:
        """Wait for exit status 0."""
        status = self.wait(limit_s)
        assert status == 0, f"exit status {status}; its output:\n{self.output()[-TAIL:]}"

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL to every process of the session at once, until none is left."""
        deadline = time.monotonic() + 30
        while left := members(self.process.pid):
            for pid in left:
                _kill(pid)
            self.process.poll()  # the first process is our child and stays a zombie until then
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes {left} outlive SIGKILL")
            time.sleep(0.05)
        self.process.wait(30)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def members(session: int) -> list[int]:
    """The live processes of a session of the operating system."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # Fields after the name in brackets: state, parent, group, session.
            state, _, _, its_session = (
                entry.joinpath("stat").read_text().rsplit(")", 1)[1].split()[:4]
            )
        except (OSError, ValueError):  # it ended while we looked
            continue
        if int(its_session) == session and state not in "ZX":
            found.append(int(entry.name))
    return found


def title(pid: int) -> str:
    """What a process calls itself (Ray's workers name their actor); empty if it has ended."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str], stdin: int | None = None
) -> Iterator[Running]:
    """Start ``python COMMAND`` in a session of its own; nothing of it is left afterwards."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=dict(environment),
            stdin=stdin or subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    started = Running(process, log)
    try:
        yield started
    finally:
        started.kill()


def wait_until(condition: Callable[[], bool], job: Running, limit_s: float = LIMIT_S) -> None:
    """Wait while the job runs; a test fails, with the output's end, where it never comes true."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if not job.is_alive():
            pytest.fail(f"ended before the fault; its output:\n{job.output()[-TAIL:]}")
        if time.monotonic() > deadline:
            pytest.fail(f"nothing for {limit_s:g} s; its output:\n{job.output()[-TAIL:]}")
        time.sleep(0.05)
