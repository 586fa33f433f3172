"""Replicas killed and the service stopped under load: no wrong answer, nothing lost.

Each test starts the service on a Ray of its own, as ``serve run`` does. A memory answers the same
question with the same hits all the time; what may change is when its triplets were last accessed.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from glong.ids import dialogue_key
from glong.store import Store
from tests.faults.processes import Running, members, running, title, wait_until
from tests.serve.real_service import keys_file

pytestmark = pytest.mark.slow

TENANT, KEY = "acme", "key-a"
N_DIALOGUES = 6
N_CLIENTS = 4
WINDOW_S = 40.0
"""After a kill errors are allowed so long: reads wait up to ``GLONG_TIMEOUT_S`` for the replica
that starts in its place, then are refused."""
LOAD_AFTER_S = 5.0
"""How long the load goes on after an answer that came from the new replica."""
NOW = "2026-02-01T00:00:00Z"
THINGS = ("greyhound", "theremin", "aubergine", "kayak", "lighthouse", "sourdough")
Answer = list[tuple[str, int, tuple[str, ...]]]
"""Session, index and edges of each hit."""


@dataclass(frozen=True)
class Served:
    """A running service."""

    process: Running
    url: str
    store: Path

    def replicas(self, deployment: str) -> list[int]:
        """Process ids of a deployment's replicas."""
        name = f"ServeReplica:glong:{deployment}"
        return [pid for pid in members(self.process.process.pid) if name in title(pid)]

    def kill(self, deployment: str, sent: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to the one replica; its process id."""
        (pid,) = self.replicas(deployment)
        os.kill(pid, sent)
        return pid

    def client(self) -> httpx.Client:
        """One that has a key of :data:`TENANT`."""
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.Client(base_url=self.url, timeout=60, headers=headers)

    def say(self, command: str) -> None:
        """A command to :mod:`tests.faults.service`."""
        assert self.process.process.stdin is not None
        self.process.process.stdin.write(f"{command}\n".encode())
        self.process.process.stdin.flush()

    def wait_for(self, text: str, limit_s: float = 120) -> None:
        """Until the program has printed it."""
        wait_until(lambda: text in self.process.output().splitlines(), self.process, limit_s)


@dataclass
class Seen:
    """What clients saw; times are of ``time.monotonic``, of the moment of the answer."""

    good_s: list[float] = field(default_factory=list)
    errors: list[tuple[float, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    posted: list[tuple[str, str]] = field(default_factory=list)
    used: dict[str, set[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def error(self, what: str) -> None:
        with self._lock:
            self.errors.append((time.monotonic(), what))

    def answered(self, name: str, found: Answer, expected: Answer) -> None:
        with self._lock:
            self.good_s.append(time.monotonic())
            self.used.setdefault(name, set()).update(e for hit in found for e in hit[2])
            if found != expected:
                self.wrong.append(f"{name}: {found} instead of {expected}")


@contextmanager
def serving(folder: Path, **settings: str) -> Iterator[Served]:
    """The service on a store in the folder; nothing of it is left afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray_folder = Path(tempfile.mkdtemp(prefix="gl-", dir="/tmp"))  # short: sockets have long names
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment |= {
        "GLONG_STORE": str(folder / "store"),
        "GLONG_MODELS": "fake",
        "RAY_AUTH_MODE": "disabled",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1",
        "GLONG_KEYS_FILE": keys_file(folder),
        "RAY_worker_niceness": "0",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.getcwd(),
        **settings,
    }
    command = ["-m", "tests.faults.service", str(port), str(ray_folder)]
    log = folder / "service.log"
    try:
        with running(command, log, environment, stdin=subprocess.PIPE) as process:
            served = Served(process, f"http://127.0.0.1:{port}", folder / "store")
            served.wait_for("ready", 240)
            yield served
    finally:
        shutil.rmtree(ray_folder, ignore_errors=True)


def session(number: int, thing: str) -> dict[str, Any]:
    texts = (f"I have a {thing} called number {number}.", "We saw the old station.", "Soup again!")
    return {
        "session_id": f"s{number}",
        "started_at": f"2026-01-0{1 + number % 9}T10:00:00Z",
        "turns": [{"speaker": "Mira", "text": text} for text in texts],
    }


def fill(http: httpx.Client) -> dict[str, Answer]:
    """Memories, and what each answers to its question."""
    for place, thing in enumerate(THINGS[:N_DIALOGUES]):
        for number in range(3):
            posted = http.post(f"/v1/dialogues/d{place}/sessions", json=session(number, thing))
            assert posted.status_code == 200, posted.text
    return {f"d{place}": answer_of(ask(http, f"d{place}")) for place in range(N_DIALOGUES)}


def ask(http: httpx.Client, name: str) -> httpx.Response:
    body = {"query": f"Tell me of the {THINGS[int(name[1:])]}.", "k": 3, "now": NOW}
    return http.post(f"/v1/dialogues/{name}/retrieve", json=body)


def answer_of(response: httpx.Response) -> Answer:
    assert response.status_code == 200, response.text
    return [
        (hit["turn"]["session_id"], hit["turn"]["index"], tuple(e["id"] for e in hit["edges"]))
        for hit in response.json()["hits"]
    ]


def asking(served: Served, expected: dict[str, Answer], seen: Seen, stop: threading.Event) -> None:
    """One client that asks one question after another."""
    names = list(expected)
    with served.client() as http:
        place = threading.get_ident()
        while not stop.is_set():
            place += 1
            name = names[place % len(names)]
            try:
                response = ask(http, name)
            except httpx.HTTPError as error:
                seen.error(type(error).__name__)
                time.sleep(0.05)
                continue
            if response.status_code == 200:
                seen.answered(name, answer_of(response), expected[name])
            else:
                seen.error(f"{response.status_code} {response.text[:200]}")
                time.sleep(0.05)


def posting(served: Served, seen: Seen, stop: threading.Event) -> None:
    """One client that posts sessions to memories of its own; notes those that were accepted."""
    with served.client() as http:
        number = 0
        while not stop.is_set():
            name, posted = f"grow-{number % 5}", session(number, "piano")
            try:
                response = http.post(f"/v1/dialogues/{name}/sessions", json=posted)
                if response.status_code == 200:
                    seen.posted.append((name, posted["session_id"]))
            except httpx.HTTPError:
                time.sleep(0.05)
            number += 1


@contextmanager
def under_load(served: Served, expected: dict[str, Answer], posts: bool = False) -> Iterator[Seen]:
    """Clients ask (and post) until the block ends."""
    seen, stop = Seen(), threading.Event()
    work: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (asking, (served, expected, seen, stop)) for _ in range(N_CLIENTS)
    ]
    if posts:
        work.append((posting, (served, seen, stop)))
    threads = [threading.Thread(target=run, args=arguments) for run, arguments in work]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join(120)
    assert not any(thread.is_alive() for thread in threads)


def wait_for_answers(seen: Seen, n: int, limit_s: float = 60.0) -> None:
    """Until n more questions were answered."""
    wanted, ends_s = len(seen.good_s) + n, time.monotonic() + limit_s
    while len(seen.good_s) < wanted:
        assert time.monotonic() < ends_s, f"{len(seen.good_s)} answers; errors {seen.errors[-3:]}"
        time.sleep(0.05)


def stored_accesses(store: Path, name: str) -> set[str]:
    key = dialogue_key(TENANT, name)
    rows = Store.open(str(store)).visible("accesses", dialogue_key=key, columns=["edge_id"])
    return set(rows["edge_id"].to_pylist())


def stored_sessions(store: Path) -> set[tuple[str, str]]:
    rows = Store.open(str(store)).manifest(TENANT, columns=["dialogue_id", "session_id"])
    return set(zip(*(rows[column].to_pylist() for column in rows.column_names), strict=True))


def kill_under_load(served: Served, seen: Seen, deployment: str) -> float:
    """Kill the replica and wait for answers that come from the next one; when it was killed."""
    wait_for_answers(seen, 20)
    killed = served.kill(deployment)
    at_s = time.monotonic()
    wait_until(
        lambda: bool(set(served.replicas(deployment)) - {killed}), served.process, limit_s=60
    )
    wait_for_answers(seen, 20)
    time.sleep(LOAD_AFTER_S)
    return at_s


def test_killed_replicas_give_no_wrong_answer_and_errors_only_for_a_while(tmp_path: Path) -> None:
    with serving(tmp_path) as served, served.client() as http:
        expected = fill(http)
        assert all(expected.values())
        windows: dict[str, Any] = {}
        for deployment in ("Memories", "Api"):
            with under_load(served, expected) as seen:
                at_s = kill_under_load(served, seen, deployment)
            late = [(when - at_s, what) for when, what in seen.errors if when > at_s + WINDOW_S]
            assert (seen.wrong, late) == ([], [])
            assert seen.good_s[-1] > at_s
            windows[deployment] = window(seen, at_s)
        print(json.dumps(windows))
        for name, answer in expected.items():
            assert answer_of(ask(http, name)) == answer


def window(seen: Seen, at_s: float) -> dict[str, Any]:
    """From a kill to the last error, and how many and which there were."""
    kinds = sorted({what[:60] for _, what in seen.errors})
    last_s = max((when - at_s for when, _ in seen.errors), default=0.0)
    gap_s = max(b - a for a, b in zip(seen.good_s, seen.good_s[1:], strict=False))
    n = len(seen.errors)
    return {"errors": n, "last_s": round(last_s, 1), "gap_s": round(gap_s, 1), "kinds": kinds}


def test_a_shutdown_under_load_loses_no_accepted_session_and_no_access(tmp_path: Path) -> None:
    with serving(tmp_path, GLONG_FLUSH_S="10") as served:
        with served.client() as http:
            expected = fill(http)
        with under_load(served, expected, posts=True) as seen:
            wait_for_answers(seen, 100)
            served.say("shutdown")
            served.wait_for("shut down")
    assert seen.wrong == []
    assert seen.posted
    assert set(seen.posted) <= stored_sessions(served.store)
    assert seen.used
    for name, edges in seen.used.items():
        assert edges <= stored_accesses(served.store, name), name


@pytest.mark.parametrize("whom", ["Memories", "program"])
def test_sigterm_loses_no_accepted_session_and_no_access(tmp_path: Path, whom: str) -> None:
    with serving(tmp_path, GLONG_FLUSH_S="10") as served:
        with served.client() as http:
            expected = fill(http)
        with under_load(served, expected, posts=True) as seen:
            wait_for_answers(seen, 50)
            if whom == "program":
                os.kill(served.process.process.pid, signal.SIGTERM)
                served.process.wait(120)
            else:
                pid = served.kill(whom, signal.SIGTERM)
                wait_until(lambda: pid not in served.replicas(whom), served.process, limit_s=60)
                wait_for_answers(seen, 1)
                served.say("shutdown")
                served.wait_for("shut down")
    assert seen.wrong == []
    assert seen.posted
    assert set(seen.posted) <= stored_sessions(served.store)
    assert any(seen.used.values())
    for name, edges in seen.used.items():
        assert edges <= stored_accesses(served.store, name), name
