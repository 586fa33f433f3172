"""Retrieval without the query's encoding, by size of a memory, and the load of one memory.

  python -m tests.benchmarks.retrieval --store FOLDER --out retrieval.json

A row a size and profile, then one for the load:

p50, p95   wall time of one `retrieve` over a frozen index, milliseconds; a fact of the memory is
           asked for, and the query's vector is there already. cpu: processor time, p50; use it
           where the machine has other work.
target     p50 wanted of the default profile, hybrid; ratio: p50 over the target.
baseline   the paper's code embeds the candidates of a query anew each time: MiniLM over the texts
           of all edges around the five anchors, which is what its coarse step compares with. Of
           many candidates the first 256 are encoded and the time is scaled up.
faster     baseline over p50.
reading    one pass over all vectors that an exact search compares with the query, at the bandwidth
           of memory measured here: no exact search takes less. paper compares entities and the
           edges around the anchors; hybrid reads a shadow of a large memory instead (32 numbers a
           vector) and then the vectors of what may be a hit.
agreement  share of hybrid's first ten turns that are also the first ten without shadows.
index      time to make the index of a memory, once a load.
load       one memory of 500 edges out of a store of a million, another one each time, with nothing
           of it held by this process, which has read others before; `reads` is what it reads from
           files (Linux), `dropped` the same with the files taken out of the system's cache first.

Memories are made up (tests/benchmarks/made_up.py) and go through the product's own build and store.
Run it on an idle machine; OMP_NUM_THREADS=1 shows what one core does. About 6 minutes on two cores,
most of it to make the store of a million edges (4 GB), which is kept for the next run.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from glong.config import HYBRID, PAPER, PROFILES, SMALL_MODELS
from glong.graph import MemoryGraph
from glong.models.fake import FakeEncoder
from glong.protocols import Encoder
from glong.retrieval import MemoryIndex, Query, retrieve
from glong.retrieval.paper import anchors, expand
from glong.retrieval.shadow import Shadow
from glong.store import Store
from glong.weighting import triplet_text
from tests.benchmarks.made_up import DIMENSION, EDGES_A_MEMORY, fill_with_many, fill_with_one

TARGETS_MS = {10_000: 1.0, 100_000: 10.0}
TARGET_FASTER = 50
TARGET_LOAD_MS = 50.0
_WARM = 3
"""First calls that are not counted: they load tables of words, open files and the like."""
_IO = Path("/proc/self/io")
T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    n_queries: int = 200
    n_baseline_queries: int = 5
    most_encoded: int = 256
    store_edges: int = 1_000_000
    n_loads: int = 100


class Took(NamedTuple):
    """Milliseconds of one call, and of the processor in it."""

    wall_ms: float
    cpu_ms: float


def timed(run: Callable[..., T], *args: Any) -> tuple[Took, T]:
    """How long a call took, and what it gave."""
    began_s, cpu_s = time.perf_counter(), time.process_time()
    result = run(*args)
    took = (time.perf_counter() - began_s, time.process_time() - cpu_s)
    return Took(took[0] * 1e3, took[1] * 1e3), result


def spread(took: Sequence[Took]) -> dict[str, float]:
    """Median and 95th percentile, and the processor's median; milliseconds."""
    wall_ms, cpu_ms = np.array(took).T
    p50, p95 = np.percentile(wall_ms, (50, 95)).tolist()
    return {"p50_ms": p50, "p95_ms": p95, "cpu_p50_ms": float(np.median(cpu_ms))}


def bandwidth() -> float:
    """Bytes a millisecond that a product of a matrix with a vector reads: 256 MiB, best of five."""
    matrix = np.ones((2**28 // (4 * DIMENSION), DIMENSION), np.float32)
    vector = np.ones(DIMENSION, np.float32)
    return matrix.nbytes / min(timed(np.dot, matrix, vector)[0].wall_ms for _ in range(5))


def queries_of(graph: MemoryGraph, n: int) -> list[Query]:
    """Questions about a fact of the memory each, encoded beforehand."""
    chosen = np.random.default_rng(0).choice(graph.n_edges, n)
    texts = [f"What did {graph.subjects[i]} say of {graph.objects[i]} in May?" for i in chosen]
    vectors = FakeEncoder(DIMENSION).encode(texts)
    now_s = float(np.nanmax(graph.created_s)) + 86_400
    pairs = zip(texts, vectors, strict=True)
    return [Query(text=text, vector=vector, now_s=now_s) for text, vector in pairs]


def agreement(index: MemoryIndex, queries: Sequence[Query]) -> float:
    """Share of the first ten turns that are also the first ten where all cosines are exact."""
    graph = index.graph
    exact = replace(index, shadow=Shadow.exact(graph.turn_vectors, graph.edge_vectors))
    shares = []
    for query in queries:
        turns, wanted = (
            {hit.turn for hit in retrieve(one, query, HYBRID.at_k(10))} for one in (index, exact)
        )
        shares.append(len(turns & wanted) / len(wanted))
    return float(np.mean(shares))


def measure_queries(graph: MemoryGraph, plan: Plan, bytes_per_ms: float) -> dict[str, Any]:
    """Time of making the index, and of a query by profile with one reading of vectors beside it."""
    index_took, index = timed(MemoryIndex.of, graph)
    queries = queries_of(graph, plan.n_queries + _WARM)
    result: dict[str, Any] = {"index_ms": index_took.wall_ms, "index_cpu_ms": index_took.cpu_ms}
    vectors = (graph.entity_vectors, graph.edge_vectors, graph.turn_vectors)
    compared = {"paper": vectors[0].nbytes, "hybrid": sum(array.nbytes for array in vectors)}
    for profile, config in PROFILES.items():
        took = [timed(retrieve, index, query, config)[0] for query in queries]
        reading_ms = compared[profile] / bytes_per_ms
        result[profile] = spread(took[_WARM:]) | {"reading_ms": reading_ms}
    result["hybrid"]["agreement"] = agreement(index, queries)
    return result


def measure_baseline(graph: MemoryGraph, plan: Plan, encoder: Encoder) -> dict[str, Any]:
    """Time of embedding all candidates of a query, as the paper's code does for each."""
    encoder.encode(["warm"])
    took, counts = [], []
    for query in queries_of(graph, plan.n_baseline_queries):
        found = expand(graph, anchors(graph, query.vector, PAPER.n_anchors), PAPER.hops)
        texts = [triplet_text(graph.edge(int(edge))) for edge in found[: plan.most_encoded]]
        share = len(found) / len(texts)
        took.append(Took(*(ms * share for ms in timed(encoder.encode, texts)[0])))
        counts.append(len(found))
    return spread(took) | {"n_candidates_p50": float(np.median(counts))}


def measure_size(n_edges: int, plan: Plan, encoder: Encoder, bytes_per_ms: float) -> dict[str, Any]:
    """All about one memory of ``n_edges``."""
    with tempfile.TemporaryDirectory() as folder:
        store = fill_with_one(str(Path(folder) / "one"), n_edges)
        graph = store.read_graph("default", "dialogue-0")
    result = measure_queries(graph, plan, bytes_per_ms)
    result["baseline"] = measure_baseline(graph, plan, encoder)
    for profile in PROFILES:
        faster = result["baseline"]["p50_ms"] / result[profile]["p50_ms"]
        result[profile]["times_faster_than_baseline"] = faster
    counts = {name: getattr(graph, name) for name in ("n_edges", "n_entities", "n_turns")}
    return counts | result


def ready_store(folder: Path, n_edges: int) -> Store:
    """The store of many memories; made once in a folder, then used again."""
    uri, marker = folder / f"edges-{n_edges}", folder / f"edges-{n_edges}.complete"
    if not marker.exists():
        shutil.rmtree(uri, ignore_errors=True)  # a run that was stopped
        folder.mkdir(parents=True, exist_ok=True)
        fill_with_many(str(uri), n_edges)
        marker.touch()
    return Store.open(str(uri))


def measure_loads(folder: Path, plan: Plan) -> dict[str, Any]:
    """Time to load one memory that was not read before, and to index it."""
    made, store = timed(ready_store, folder, plan.store_edges)
    n_memories = plan.store_edges // EDGES_A_MEMORY
    n_kind = min(plan.n_loads, (n_memories - _WARM) // 2)
    numbers = np.random.default_rng(0).permutation(n_memories).tolist()
    for number in numbers[:_WARM]:
        load(store, number)
    held, dropped = numbers[_WARM : _WARM + n_kind], numbers[_WARM + n_kind :][:n_kind]
    loads = [load(store, number) for number in held]
    indexes = [timed(MemoryIndex.of, graph)[0] for *_, graph in loads]
    for path in Path(store.uri).rglob("*.lance"):
        drop_from_cache(path)
    from_disk = [load(store, number)[0] for number in dropped]
    return {
        "store_edges": plan.store_edges,
        "store_made_s": made.wall_ms / 1e3,
        "graph_edges": EDGES_A_MEMORY,
        "load": spread([took for took, *_ in loads]),
        "load_reads_mb": float(np.median([n_bytes for _, n_bytes, _ in loads])) / 1e6,
        "load_dropped": spread(from_disk),
        "index": spread(indexes),
    }


def load(store: Store, number: int) -> tuple[Took, int, MemoryGraph]:
    """Load one memory: how long it took, bytes read from files (0 if unknown), and its graph."""
    before = bytes_read()
    took, graph = timed(store.read_graph, "default", f"dialogue-{number}")
    return took, bytes_read() - before, graph


def bytes_read() -> int:
    """By this process from files so far, the system's cache included; 0 where nobody counts."""
    if not _IO.exists():
        return 0
    return int(_IO.read_text(encoding="ascii").split()[1])


def drop_from_cache(path: Path) -> None:
    """Have the system forget the contents of a file, where it can."""
    if path.is_file() and hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


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
        f"Milliseconds; memory read at {result['bandwidth_gb_per_s']:.1f} GB/s;"
        " see --help for what each column means.",
        "",
        "| what | edges | p50 | p95 | cpu | target | ratio | baseline | faster | reading"
        " | agreement | index |",
        f"|{' --- |' * 12}",
    ]
    lines += [_row(size, profile) for size in result["sizes"] for profile in PROFILES]
    return "\n".join([*lines, *_load_rows(result["loads"])])


def _row(size: dict[str, Any], profile: str) -> str:
    row, baseline_ms = size[profile], size["baseline"]["p50_ms"]
    target_ms = TARGETS_MS.get(size["n_edges"]) if profile == "hybrid" else None
    cells = [
        f"query, {profile}",
        f"{size['n_edges']:,}",
        *_times(row, target_ms),
        f"{baseline_ms:,.0f}",
        f"{row['times_faster_than_baseline']:,.0f} (target {TARGET_FASTER})",
        f"{row['reading_ms']:.2f}",
        f"{row['agreement']:.3f}" if "agreement" in row else "1",
        f"{size['index_ms']:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _load_rows(loads: dict[str, Any]) -> list[str]:
    edges = f"{loads['graph_edges']} of {loads['store_edges']:,}"
    index = f"{loads['index']['p50_ms']:.0f}"
    reads = f"load, reads {loads['load_reads_mb']:.1f} MB"
    names = {"load": reads, "load_dropped": "load, dropped"}
    return [
        f"| {' | '.join([name, edges, *_times(loads[key], TARGET_LOAD_MS), *[''] * 4, index])} |"
        for key, name in names.items()
    ]


def _times(row: dict[str, float], target_ms: float | None) -> list[str]:
    """Cells of the times, the target, and the target over the p50."""
    times = [f"{row[name]:.2f}" for name in ("p50_ms", "p95_ms", "cpu_p50_ms")]
    if target_ms is None:
        return [*times, "", ""]
    return [*times, f"{target_ms:g}", f"{row['p50_ms'] / target_ms:.2f}"]


def main() -> None:
    """Print the table and write the comparison."""
    plan = Plan()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--store", type=Path, required=True,
        help="folder that keeps the store of many memories for the next run",
    )  # fmt: skip
    sizes = ",".join(map(str, plan.sizes))
    parser.add_argument("--sizes", default=sizes, help=f"edges of the memories asked ({sizes})")
    parser.add_argument(
        "--queries", type=int, default=plan.n_queries, help=f"a memory ({plan.n_queries})"
    )
    parser.add_argument(
        "--store-edges", type=int, default=plan.store_edges,
        help=f"edges of the store to load from ({plan.store_edges})",
    )  # fmt: skip
    parser.add_argument(
        "--loads", type=int, default=plan.n_loads, help=f"memories loaded ({plan.n_loads})"
    )
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
