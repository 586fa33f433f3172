"""The service under load: latency, throughput, CPU a request, cold memories, a bounded cache.

``python -m tests.benchmarks.serve --out serve.json``

Starts Ray and the service in this program, on a port of its own, and asks it over loopback.

- *warm*: ``POST .../retrieve`` on memories that are in the cache, by clients that ask one question
  after another. CPU is that of this program, which makes the load, and of all processes of Ray,
  less what they take while nothing is asked.
- *encoding*: the named baseline, one query at a time through the encoder alone, in this process.
- *floor*: the same clients and the same Ray, an application that does nothing: an ingress that
  awaits one other deployment and answers as many bytes.
- *cold*: the first question to a memory, which is loaded then.
- *many*: more memories than the cache holds, each asked once, while the bytes of the replica are
  watched.
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import socket
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import psutil

from glong.build import Models, build_rows
from glong.config import load_models_config
from glong.memory import store_meta
from glong.models.fake import FakeEncoder, FakeScorer
from glong.models.load import load_encoder
from glong.store import Store, Wave
from glong.tables import FAILURES
from glong.types import Session, Turn
from serve.auth import key_hash, new_key
from tests.benchmarks.made_up import DIMENSION, TENANT, FactOfEachTurn
from tests.faults.cluster import start_patiently

START = datetime(2026, 1, 5, 10, tzinfo=UTC)
GRAPHS_A_WAVE = 100
APP, FLOOR = "glong", "floor"
FLOOR_PATH = "/floor"
QUERY = "What did Mira say of w7 and w31 in May?"
SETTLE_S = 3.0
"""Until Ray is as idle as it gets after a start."""
MB = 2**20


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    models: str = "fake"
    n_graphs: int = 2_000
    edges_per_graph: int = 50
    n_warm: int = 200
    clients: tuple[int, ...] = (1, 8, 32)
    seconds: float = 10.0
    cache_mb: float = 128.0
    n_cpus: int = 4


@dataclass
class Load:
    """What clients saw, and what it cost.

    Attributes:
        times_ms: of every request that was answered with 200.
        statuses: how often each other status came.
        wall_s: from the first request to the last answer.
        cpu_s: of all processes; ``nan`` where it was not measured.
    """

    times_ms: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    wall_s: float = 0.0
    cpu_s: float = float("nan")

    def summary(self, idle_cpu_share: float = 0.0) -> dict[str, Any]:
        """As JSON; ``idle_cpu_share`` is CPU a second of wall time without any request."""
        times, n = self.times_ms, len(self.times_ms)
        spread = {f"p{q}_ms": float(np.percentile(times, q)) for q in (50, 95, 99)} if n else {}
        busy_s = self.cpu_s - idle_cpu_share * self.wall_s
        return {
            "n": n,
            "errors": dict(self.statuses),
            **spread,
            "requests_per_s": n / self.wall_s,
            "cpu_ms": 1000 * busy_s / max(1, n),
            "cpu_ms_with_idle": 1000 * self.cpu_s / max(1, n),
        }


class Connection:
    """One kept connection; a lean client, since its CPU counts too."""

    def __init__(self, service: "Service") -> None:
        self._port = service.port
        self._headers = (
            "Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {service.key}\r\n"
        )
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> "Connection":
        self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._streams
        self._streams[1].close()

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer; chunked bodies are not read, as none is sent."""
        assert self._streams
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\n{self._headers}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        status, *headers = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        lengths = [h.partition(b":")[2] for h in headers if h.lower().startswith(b"content-length")]
        return int(status.split()[1]), await reader.readexactly(int(lengths[0]))


@dataclass(frozen=True)
class Service:
    """The running service, its key, and the paths of a question to each of its memories."""

    port: int
    key: str
    paths: tuple[str, ...]


def processes() -> list[psutil.Process]:
    """This one and all that it started: Ray's, with every replica."""
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def cpu_s() -> float:
    """CPU that these processes have taken so far, in seconds."""
    total = 0.0
    for process in processes():
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def rss_mb(name: str) -> float:
    """Resident megabytes of the replicas of a deployment."""
    total = 0.0
    for process in processes():
        try:
            if f":{name}" in " ".join(process.cmdline()):
                total += process.memory_info().rss / MB
        except psutil.NoSuchProcess:
            continue
    return total


def ask(load: Load, connection: Connection, path: str) -> Awaitable[None]:
    """One question, noted."""
    return _ask(load, connection, path, json.dumps({"query": QUERY, "k": 3}).encode())


async def _ask(load: Load, connection: Connection, path: str, body: bytes) -> None:
    began_s = time.perf_counter()
    status, _ = await connection.post(path, body)
    if status == 200:
        load.times_ms.append(1000 * (time.perf_counter() - began_s))
    else:
        load.statuses[status] = load.statuses.get(status, 0) + 1


def closed_loop(service: Service, paths: Sequence[str], n_clients: int, seconds: float) -> Load:
    """Clients that each ask one question after another for some seconds."""

    async def client(load: Load, number: int, ends_s: float) -> None:
        async with Connection(service) as connection:
            place = number * 7919
            while time.perf_counter() < ends_s:
                await ask(load, connection, paths[place % len(paths)])
                place += 1

    async def run() -> Load:
        load = Load()
        ends_s = time.perf_counter() + seconds
        await asyncio.gather(*(client(load, i, ends_s) for i in range(n_clients)))
        return load

    return measured(run)


def once_each(service: Service, paths: Sequence[str], n_clients: int = 1) -> Load:
    """Every path once."""

    async def client(load: Load, left: Iterator[str]) -> None:
        async with Connection(service) as connection:
            for path in left:
                await ask(load, connection, path)

    async def run() -> Load:
        load, left = Load(), iter(paths)
        await asyncio.gather(*(client(load, left) for _ in range(n_clients)))
        return load

    return measured(run)


def measured(run: Callable[[], Any]) -> Load:
    """A load with its wall time and CPU."""
    cpu_before_s, began_s = cpu_s(), time.perf_counter()
    load: Load = asyncio.run(run())
    load.wall_s = time.perf_counter() - began_s
    load.cpu_s = cpu_s() - cpu_before_s
    return load


def encoding(models: str, seconds: float) -> dict[str, float]:
    """The baseline: one query after another through the encoder alone, in this process."""
    encoder = load_encoder(load_models_config(models).encoder)
    encoder.encode([QUERY])
    times_ms: list[float] = []
    cpu_before_s, ends_s = time.process_time(), time.perf_counter() + seconds
    while time.perf_counter() < ends_s:
        began_s = time.perf_counter()
        encoder.encode([f"{QUERY} {len(times_ms)}"])
        times_ms.append(1000 * (time.perf_counter() - began_s))
    cpu_ms = 1000 * (time.process_time() - cpu_before_s) / len(times_ms)
    spread = {f"p{q}_ms": float(np.percentile(times_ms, q)) for q in (50, 95)}
    return {"n": len(times_ms), "cpu_ms": cpu_ms, **spread}


def fill(uri: str, plan: Plan) -> None:
    """A store of made-up memories, one session each, through the product's own build."""
    models = Models(FactOfEachTurn(), FakeScorer(), FakeEncoder(DIMENSION))
    store = Store.create_or_open(uri, store_meta(models))
    for first in range(0, plan.n_graphs, GRAPHS_A_WAVE):
        numbers = range(first, min(plan.n_graphs, first + GRAPHS_A_WAVE))
        sessions = [made_up_session(number, plan.edges_per_graph) for number in numbers]
        built = build_rows(TENANT, sessions, models)
        store.append_wave(Wave(uuid.uuid4().hex, START, built, FAILURES.empty_table()))
    store.routine()


def made_up_session(number: int, n_edges: int) -> Session:
    """Of words by Zipf's law; each turn states a fact, of one of two speakers or of a thing."""
    drawn = np.minimum(np.random.default_rng(number).zipf(1.3, (n_edges, 12)), 5_000)
    turns = []
    for index, row in enumerate(drawn):
        said = [f"w{word}" for word in row]
        subject = ("Mira", "Tom")[index % 2] if index % 3 else said[0]
        turns.append(
            Turn(index, ("Mira", "Tom")[index % 2], " ".join([subject, "like", *said[1:]]))
        )
    return Session(f"dialogue-{number}", "s1", START, tuple(turns))


def ready_store(folder: Path, plan: Plan) -> str:
    """The folder, if it is a store; else one of made-up memories in it, made once."""
    if (folder / "sessions.lance").exists():
        return str(folder)
    uri = folder / f"graphs-{plan.n_graphs}-{plan.edges_per_graph}"
    marker = uri.with_suffix(".complete")
    if not marker.exists():
        shutil.rmtree(uri, ignore_errors=True)  # of a run that was stopped
        folder.mkdir(parents=True, exist_ok=True)
        fill(str(uri), plan)
        marker.touch()
    return str(uri)


def paths_of(uri: str, n_graphs: int) -> tuple[str, ...]:
    """Of a question to each of the store's memories."""
    ids = Store.open(uri).dialogues(TENANT)["dialogue_id"].to_pylist()
    return tuple(f"/v1/dialogues/{quote(name, safe='')}/retrieve" for name in ids[:n_graphs])


def free_port() -> int:
    """A port of loopback that was free just now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def running_service(uri: str, plan: Plan) -> Iterator[Service]:
    """The service and the application of the floor, on a Ray of their own."""
    os.environ |= {"RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}
    os.environ.pop("RAY_ADDRESS", None)
    folder = tempfile.mkdtemp(prefix="glong-bench-", dir="/tmp")  # short: sockets have long names
    try:
        start_patiently(plan.n_cpus, folder)
        key, keys_file = new_key(), Path(folder) / "keys.toml"
        keys_file.write_text(f'[[keys]]\ntenant = "{TENANT}"\nsha256 = "{key_hash(key)}"\n')
        port = _started(uri, plan, str(keys_file))
        yield Service(port, key, paths_of(uri, plan.n_graphs))
    finally:
        import ray

        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _started(uri: str, plan: Plan, keys_file: str) -> int:
    from ray import serve
    from ray.serve.config import HTTPOptions
    from ray.serve.schema import LoggingConfig

    from serve.app import build_app
    from serve.settings import ServeSettings

    port = free_port()
    quiet = LoggingConfig(enable_access_log=False)
    serve.start(http_options=HTTPOptions(host="127.0.0.1", port=port), logging_config=quiet)
    settings = ServeSettings(
        store=uri, models=plan.models, keys_file=keys_file, max_graph_mb=plan.cache_mb
    )
    serve.run(build_app(settings), name=APP)
    serve.run(floor_app(), name=FLOOR, route_prefix=FLOOR_PATH)
    return port


def floor_app() -> Any:
    """An application of the service's shape that does nothing."""
    from ray import serve
    from ray.serve.handle import DeploymentHandle
    from starlette.requests import Request
    from starlette.responses import Response

    small = {
        "ray_actor_options": {"num_cpus": 0.1},
        "max_ongoing_requests": 256,
        "logging_config": {"enable_access_log": False},
    }

    class Nothing:
        async def call(self, asked: bytes) -> bytes:
            return asked * 20

    class Front:
        def __init__(self, back: DeploymentHandle[Any]) -> None:
            self._back = back

        async def __call__(self, request: Request) -> Response:
            found: bytes = await self._back.call.remote(await request.body())
            return Response(found, media_type="application/json")

    back = serve.deployment(name="Back", **small)(Nothing).bind()
    return serve.deployment(name="Front", **small)(Front).bind(back)


def idle_share(seconds: float) -> float:
    """CPU a second that Ray takes while nothing is asked."""
    time.sleep(SETTLE_S)
    before_s, began_s = cpu_s(), time.perf_counter()
    time.sleep(seconds)
    return (cpu_s() - before_s) / (time.perf_counter() - began_s)


def many(service: Service, plan: Plan) -> dict[str, Any]:
    """Every memory once through a cache that is too small, and the replica's memory meanwhile."""
    paths = service.paths
    step = max(1, len(paths) // 8)
    samples = [{"asked": 0, "rss_mb": rss_mb("Memories")}]
    whole = Load(wall_s=0.0, cpu_s=0.0)
    for first in range(0, len(paths), step):
        load = once_each(service, paths[first : first + step], max(plan.clients))
        whole.times_ms += load.times_ms
        whole.wall_s += load.wall_s
        whole.cpu_s += load.cpu_s
        for status, n in load.statuses.items():
            whole.statuses[status] = whole.statuses.get(status, 0) + n
        samples.append({"asked": min(len(paths), first + step), "rss_mb": rss_mb("Memories")})
    return {"load": whole.summary(), "samples": samples, "cache_mb_allowed": plan.cache_mb}


def cached_mb(service: Service, *, wait_s: float = 15.0) -> float:
    """What the replica says its cached graphs weigh; Ray reports it every ten seconds."""
    time.sleep(wait_s)
    headers = {"Authorization": f"Bearer {service.key}"}
    asked = urllib.request.Request(f"http://127.0.0.1:{service.port}/metrics", headers=headers)
    with urllib.request.urlopen(asked, timeout=30) as page:
        lines = page.read().decode().splitlines()
    values = [
        line.rsplit(" ", 1)[1] for line in lines if line.startswith("glong_graph_cache_bytes")
    ]
    return sum(map(float, values)) / MB


def compare(service: Service, plan: Plan, report_s: float) -> dict[str, Any]:
    """Everything, one part after another on an otherwise idle machine.

    Args:
        service: it runs.
        plan: how much.
        report_s: how long to wait for Ray's report of the cache.
    """
    # The first memories are the warm ones; the very first question meets a fresh replica.
    warm_paths = service.paths[: plan.n_warm]
    first = once_each(service, warm_paths[:1])
    cold = once_each(service, warm_paths[1:])
    floor_paths = [FLOOR_PATH]
    once_each(service, floor_paths * 20)
    idle = idle_share(min(5.0, plan.seconds))
    warm, floor = {}, {}
    for n in plan.clients:
        warm[str(n)] = closed_loop(service, warm_paths, n, plan.seconds).summary(idle)
        floor[str(n)] = closed_loop(service, floor_paths, n, plan.seconds / 2).summary(idle)
        print("clients", n, json.dumps([warm[str(n)], floor[str(n)]]), file=sys.stderr, flush=True)
    before = {"cached_mb": cached_mb(service, wait_s=report_s), "rss_mb": rss_mb("Memories")}
    through = many(service, plan)
    after = {"cached_mb": cached_mb(service, wait_s=report_s), "rss_mb": rss_mb("Memories")}
    return {
        "first_ms": first.times_ms[0],
        "cold": cold.summary(idle),
        "idle_cpu_share": idle,
        "warm": warm,
        "floor": floor,
        "many": through | {"before": before, "after": after},
    }


def with_ratios(result: dict[str, Any]) -> dict[str, Any]:
    """The same with each load's CPU beside that of the baseline and of the floor."""
    for n, row in result["warm"].items():
        row["cpu_over_encoding"] = row["cpu_ms"] / result["encoding"]["cpu_ms"]
        row["cpu_beyond_encoding_ms"] = row["cpu_ms"] - result["encoding"]["cpu_ms"]
        row["cpu_over_floor"] = row["cpu_ms"] / result["floor"][n]["cpu_ms"]
        row["p50_over_encoding"] = row["p50_ms"] / result["encoding"]["p50_ms"]
    return result


def table(result: dict[str, Any]) -> str:
    """The tables, as Markdown."""
    base = result["encoding"]
    lines = [
        f"Models {result['models']}; baseline: encoding alone, {base['cpu_ms']:.2f} CPU-ms and p50"
        f" {base['p50_ms']:.2f} ms a query. Floor: an empty application of the same shape.",
        "",
        "| clients | p50 ms | p95 ms | p99 ms | requests/s | CPU-ms | beyond encoding"
        " | times encoding | floor CPU-ms | times the floor | errors |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for n, row in result["warm"].items():
        lines.append(
            f"| {n} | {row['p50_ms']:.1f} | {row['p95_ms']:.1f} | {row['p99_ms']:.1f}"
            f" | {row['requests_per_s']:.0f} | {row['cpu_ms']:.1f}"
            f" | {row['cpu_beyond_encoding_ms']:.1f} | {row['cpu_over_encoding']:.1f}"
            f" | {result['floor'][n]['cpu_ms']:.1f} | {row['cpu_over_floor']:.2f}"
            f" | {sum(row['errors'].values())} |"
        )
    many_, cold = result["many"], result["cold"]
    lines += [
        "",
        f"First question to a fresh replica {result['first_ms']:.0f} ms; a cold memory p50"
        f" {cold['p50_ms']:.0f} ms, p95 {cold['p95_ms']:.0f} ms (n = {cold['n']}, one client).",
        f"{many_['load']['n']} memories through a cache of {many_['cache_mb_allowed']:.0f} MB:"
        f" cached {many_['before']['cached_mb']:.0f} -> {many_['after']['cached_mb']:.0f} MB,"
        f" resident {many_['before']['rss_mb']:.0f} -> {many_['after']['rss_mb']:.0f} MB"
        f" ({', '.join(format(s['rss_mb'], '.0f') for s in many_['samples'])} on the way);"
        f" Ray idle takes {100 * result['idle_cpu_share']:.0f} % of a core.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the tables and write the result."""
    plan = Plan()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--store", type=Path,
        help="a store, or a folder that keeps the made-up one; default: made and thrown away",
    )  # fmt: skip
    parser.add_argument("--models", default=plan.models, help="preset or TOML file of the service")
    parser.add_argument("--graphs", type=int, default=plan.n_graphs, help="memories of the store")
    parser.add_argument("--warm", type=int, default=plan.n_warm, help="memories asked again")
    parser.add_argument("--clients", default="1,8,32", help="clients at once, one part for each")
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="of each load")
    parser.add_argument("--cache-mb", type=float, default=plan.cache_mb, help="of the replica")
    parser.add_argument("--report-s", type=float, default=15.0, help="wait for the cache's metric")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    # As `glong serve` and the deployment files set them; before Ray Serve is imported.
    for name in ("RAY_SERVE_THROUGHPUT_OPTIMIZED", "RAY_SERVE_ENABLE_HA_PROXY"):
        os.environ.setdefault(name, "1")
    wanted = Plan(
        models=args.models,
        n_graphs=args.graphs,
        n_warm=min(args.warm, args.graphs),
        clients=tuple(int(n) for n in args.clients.split(",")),
        seconds=args.seconds,
        cache_mb=args.cache_mb,
    )
    with tempfile.TemporaryDirectory() as folder:
        uri = ready_store(args.store or Path(folder), wanted)
        with running_service(uri, wanted) as service:
            result = compare(service, wanted, args.report_s)
    python = platform.python_version()
    result |= {
        "models": wanted.models,
        "machine": f"{os.cpu_count()} CPUs {platform.machine()}, Python {python}",
        "encoding": encoding(wanted.models, min(5.0, wanted.seconds)),
    }
    print(table(with_ratios(result)))
    if args.out:
        args.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
