"""Retrieval without the query's encoding, by size of a memory, and the load of one memory.

``python tests/benchmarks/retrieval.py --store FOLDER --out retrieval.json``

- *query*: ``retrieve`` over one frozen index, profiles ``paper`` and ``hybrid``; p50 and p95.
- *embed the candidates anew per query as the paper's code does*: MiniLM over the texts of the edges
  around the anchors, which is what its coarse step compares the query with. Of many candidates only
  the first are encoded and the time is scaled up.
- *limit*: one pass over the bytes of the vectors that a profile compares with the query, at the
  bandwidth of memory measured here. No exact search can be faster.
- *load*: one memory of 500 edges out of a store of a million, another one each time, in a process
  that has read from the store before; then its index.

Memories are made up: words by Zipf's law, two speakers who are in most facts, a fact a turn. They
go through the product's own build and store, with fake models.
"""

import argparse
import json
import platform
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from glong.build import Models, build_rows
from glong.config import PROFILES, SMALL_MODELS
from glong.graph import MemoryGraph
from glong.memory import store_meta
from glong.models.fake import FakeEncoder, FakeScorer
from glong.protocols import Encoder
from glong.retrieval import MemoryIndex, Query, retrieve
from glong.retrieval.paper import anchors, expand
from glong.store import Store, Wave
from glong.tables import FAILURES
from glong.types import Extraction, Session, Triplet, Turn
from glong.weighting import triplet_text

DIMENSION = 384
TURNS_PER_SESSION = 25
SESSIONS_PER_WAVE = 200
EDGES_LOADED = 500
N_WORDS = 5_000
START = datetime(2026, 1, 5, 10, tzinfo=UTC)
SPEAKERS = ("Mira", "Tom")
RELATIONS = ("like_food", "have_pet", "visit", "live_in", "work_at", "buy", "plan_to", "not_visit")
T = TypeVar("T")
BASELINE = "embed the candidates anew per query as the paper's code does"


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    n_queries: int = 200
    n_baseline_queries: int = 5
    most_encoded: int = 256
    store_edges: int = 1_000_000
    n_loads: int = 50


class FactOfEachTurn:
    """An extractor for made-up turns, whose first words are a fact: subject, relation, object."""

    fingerprint = "fact-of-each-turn"

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        """One fact a turn."""
        return [Extraction(tuple(map(_fact, session.turns)), n_windows=1) for session in sessions]


def _fact(turn: Turn) -> Triplet:
    subject, relation, first, second, *_ = turn.text.split()
    return Triplet(subject, relation, f"{first} {second}", turn.index)


def made_up_session(dialogue_id: str, number: int, words: np.random.Generator) -> Session:
    """A session a day; two facts of three are of a speaker."""
    drawn = np.minimum(words.zipf(1.3, (TURNS_PER_SESSION, 14)), N_WORDS)
    turns = []
    for index, row in enumerate(drawn):
        said = [f"w{word}" for word in row]
        subject = SPEAKERS[index % 2] if index % 3 else said[0]
        relation = RELATIONS[int(row[1]) % len(RELATIONS)]
        turns.append(Turn(index, SPEAKERS[index % 2], " ".join([subject, relation, *said[2:]])))
    start = START + timedelta(days=number)
    return Session(dialogue_id, f"session-{number:06}", start, tuple(turns))


def sessions_of(n_edges: int, edges_per_dialogue: int) -> Iterator[Session]:
    """Sessions of as many dialogues as ``n_edges`` need, a fact a turn."""
    for first in range(0, n_edges, edges_per_dialogue):
        words = np.random.default_rng(first)
        for number in range(edges_per_dialogue // TURNS_PER_SESSION):
            yield made_up_session(f"dialogue-{first // edges_per_dialogue}", number, words)


def fill(uri: str, n_edges: int, edges_per_dialogue: int) -> Store:
    """A store of made-up memories, by waves with upkeep, as a build writes it."""
    models = Models(FactOfEachTurn(), FakeScorer(), FakeEncoder(DIMENSION))
    store = Store.create_or_open(uri, store_meta(models))
    wave: list[Session] = []
    for session in sessions_of(n_edges, edges_per_dialogue):
        wave.append(session)
        if len(wave) == SESSIONS_PER_WAVE:
            _append(store, wave, models)
            wave = []
    if wave:
        _append(store, wave, models)
    return store


def _append(store: Store, sessions: Sequence[Session], models: Models) -> None:
    built = build_rows("default", sessions, models)
    store.append_wave(Wave(uuid.uuid4().hex, START, built, FAILURES.empty_table()))
    store.routine()


def timed(run: Callable[..., T], *args: Any, **options: Any) -> tuple[float, T]:
    """Milliseconds of one call, and what it gave."""
    began_s = time.perf_counter()
    result = run(*args, **options)
    return (time.perf_counter() - began_s) * 1e3, result


def spread(times_ms: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile, milliseconds."""
    return {f"p{q}_ms": float(np.percentile(times_ms, q)) for q in (50, 95)}


def bandwidth() -> float:
    """Bytes a millisecond that a product of a matrix with a vector reads: 256 MiB, best of five."""
    matrix = np.ones((2**28 // (4 * DIMENSION), DIMENSION), np.float32)
    vector = np.ones(DIMENSION, np.float32)
    return matrix.nbytes / min(timed(np.dot, matrix, vector)[0] for _ in range(5))


def queries_of(graph: MemoryGraph, n: int) -> list[Query]:
    """Questions about a fact of the memory each, encoded beforehand."""
    chosen = np.random.default_rng(0).choice(graph.n_edges, n)
    texts = [f"What did {graph.subjects[i]} say of {graph.objects[i]} in May?" for i in chosen]
    vectors = FakeEncoder(DIMENSION).encode(texts)
    now_s = float(np.nanmax(graph.created_s)) + 86_400
    pairs = zip(texts, vectors, strict=True)
    return [Query(text=text, vector=vector, now_s=now_s) for text, vector in pairs]


def measure_queries(graph: MemoryGraph, plan: Plan, bytes_per_ms: float) -> dict[str, Any]:
    """Time of making the index, and of a query by profile with the limit beside it."""
    index_ms, index = timed(MemoryIndex.of, graph)
    result: dict[str, Any] = {"index_ms": index_ms}
    vectors = (graph.entity_vectors, graph.edge_vectors, graph.turn_vectors)
    compared = {"paper": vectors[0].nbytes, "hybrid": sum(array.nbytes for array in vectors)}
    queries = queries_of(graph, plan.n_queries + 3)
    for profile, config in PROFILES.items():
        times_ms = [timed(retrieve, index, query, config)[0] for query in queries]
        found = spread(times_ms[3:])  # the first ones load tables of words and the like
        limit_ms = compared[profile] / bytes_per_ms
        result[profile] = found | {"limit_ms": limit_ms, "over_limit": found["p50_ms"] / limit_ms}
    return result


def measure_baseline(graph: MemoryGraph, plan: Plan, encoder: Encoder) -> dict[str, Any]:
    """Time of embedding all candidates of a query, as the paper's code does for each."""
    encoder.encode(["warm"])
    times_ms, counts = [], []
    for query in queries_of(graph, plan.n_baseline_queries):
        found = expand(graph, anchors(graph, query.vector, PROFILES["paper"].n_anchors), hops=1)
        texts = [triplet_text(graph.edge(int(edge))) for edge in found[: plan.most_encoded]]
        took_ms, _ = timed(encoder.encode, texts)
        times_ms.append(took_ms * len(found) / len(texts))
        counts.append(len(found))
    return spread(times_ms) | {"n_candidates_p50": float(np.median(counts))}


def measure_size(n_edges: int, plan: Plan, encoder: Encoder, bytes_per_ms: float) -> dict[str, Any]:
    """All about one memory of ``n_edges``."""
    with tempfile.TemporaryDirectory() as folder:
        store = fill(str(Path(folder) / "one"), n_edges, n_edges)
        graph = store.read_graph("default", "dialogue-0")
    result = measure_queries(graph, plan, bytes_per_ms)
    result["baseline"] = measure_baseline(graph, plan, encoder)
    for profile in PROFILES:
        faster = result["baseline"]["p50_ms"] / result[profile]["p50_ms"]
        result[profile]["times_faster_than_baseline"] = faster
    return {
        "n_edges": graph.n_edges,
        "n_entities": graph.n_entities,
        "n_turns": graph.n_turns,
    } | result


def ready_store(folder: Path, n_edges: int) -> Store:
    """The store of many memories; made once in a folder, then used again."""
    uri, marker = folder / f"edges-{n_edges}", folder / f"edges-{n_edges}.complete"
    if not marker.exists():
        shutil.rmtree(uri, ignore_errors=True)  # a run that was stopped
        folder.mkdir(parents=True, exist_ok=True)
        fill(str(uri), n_edges, EDGES_LOADED)
        marker.touch()
    return Store.open(str(uri))


def measure_loads(folder: Path, plan: Plan) -> dict[str, Any]:
    """Time to load one memory that was not read before, and to index it."""
    store = ready_store(folder, plan.store_edges)
    n_dialogues = plan.store_edges // EDGES_LOADED
    chosen = np.random.default_rng(0).permutation(n_dialogues)[: plan.n_loads + 2]
    loads_ms, indexes_ms = [], []
    for number in chosen:
        load_ms, graph = timed(store.read_graph, "default", f"dialogue-{number}")
        loads_ms.append(load_ms)
        indexes_ms.append(timed(MemoryIndex.of, graph)[0])
    return {
        "store_edges": plan.store_edges,
        "graph_edges": EDGES_LOADED,
        "load": spread(loads_ms[2:]),  # the first ones open files and indexes
        "index": spread(indexes_ms[2:]),
    }


def compare(plan: Plan, encoder: Encoder, store_folder: Path) -> dict[str, Any]:
    """Everything, one part after another on an otherwise idle machine."""
    bytes_per_ms = bandwidth()
    sizes = []
    for n_edges in plan.sizes:
        sizes.append(measure_size(n_edges, plan, encoder, bytes_per_ms))
        print("size", json.dumps(sizes[-1]), file=sys.stderr, flush=True)
    return {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "bandwidth_gb_per_s": bytes_per_ms / 1e6,
        "sizes": sizes,
        "loads": measure_loads(store_folder, plan),
    }


def table(result: dict[str, Any]) -> str:
    """The one table, as Markdown."""
    lines = [
        f"Memory read at {result['bandwidth_gb_per_s']:.1f} GB/s. Baseline: {BASELINE}.",
        "",
        "| edges | profile | p50 ms | p95 ms | limit ms | times the limit | baseline ms"
        " | times faster | index made in ms |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for size in result["sizes"]:
        for profile in PROFILES:
            row = size[profile]
            lines.append(
                f"| {size['n_edges']:,} | {profile} | {row['p50_ms']:.2f} | {row['p95_ms']:.2f}"
                f" | {row['limit_ms']:.3f} | {row['over_limit']:.1f}"
                f" | {size['baseline']['p50_ms']:.0f} | {row['times_faster_than_baseline']:.0f}"
                f" | {size['index_ms']:.0f} |"
            )
    loads = result["loads"]
    lines += [
        "",
        f"One memory of {loads['graph_edges']} edges out of {loads['store_edges']:,}: loaded in"
        f" {loads['load']['p50_ms']:.0f} ms (p95 {loads['load']['p95_ms']:.0f}), indexed in"
        f" {loads['index']['p50_ms']:.0f} ms.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the table and write the comparison."""
    plan = Plan()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--store", type=Path, required=True,
        help="folder that keeps the store of many memories for the next run (1 M edges: 4 GB)",
    )  # fmt: skip
    parser.add_argument("--sizes", default="1000,10000,100000", help="edges of the memories asked")
    parser.add_argument("--queries", type=int, default=plan.n_queries, help="questions a memory")
    parser.add_argument(
        "--store-edges", type=int, default=plan.store_edges, help="edges to load from"
    )
    parser.add_argument("--loads", type=int, default=plan.n_loads, help="memories loaded")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    from glong.models.load import load_encoder

    wanted = Plan(
        sizes=tuple(int(size) for size in args.sizes.split(",")),
        n_queries=args.queries,
        store_edges=args.store_edges,
        n_loads=args.loads,
    )
    result = compare(wanted, load_encoder(SMALL_MODELS.encoder), args.store)
    print(table(result))
    if args.out:
        args.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
