"""Index a benchmark and measure retrieval on it: ``reindex_benchmark.py --benchmark NAME ...``.

Builds what the index lacks by the pipeline of ``build_memory``, encodes all questions in one batch,
asks each dialogue on a worker of its own, and writes the report. The index is only read.
"""

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

from glong._version import __version__
from glong.config import HYBRID, PAPER
from glong.evaluation.asking import Judgement
from glong.evaluation.baselines import BASELINE_SETTINGS
from glong.evaluation.hipporag import HIPPORAG
from glong.evaluation.pages import page
from glong.evaluation.plots import draw_plots
from glong.evaluation.report import Run, make_report, question_table
from glong.retrieval.hybrid import factors
from glong.sources.inputs import is_uri, open_filesystem
from glong.store import Store
from glong.types import Vectors
from jobs import build_memory
from jobs.benchmark import tasks
from jobs.benchmark.options import Request, check, parser
from jobs.exits import run_to_end
from jobs.progress import say
from jobs.summary import describe

__all__ = ["main"]

STAYS = "what was indexed stays. Run the same command again to go on."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    args = parser().parse_args(argv)

    def work() -> dict[str, Any]:
        with build_memory.leaving_ray():
            return run(check(args))

    return run_to_end(
        work,
        args.summary,
        stays=STAYS,
        above_limit=lambda numbers: numbers["build"]["failure_rate"] > args.max_failure_rate,
    )


def run(request: Request) -> dict[str, Any]:
    """Index, ask, report; returns the summary.

    Raises:
        ConfigError, SchemaError: the models cannot be loaded, or the store is of other models.
        GlongError: stopped in the middle; what was indexed stays.
    """
    began_s = time.monotonic()
    args, benchmark = request.args, request.benchmark
    built = build_memory.run(request.build)
    say(describe(built))
    store = Store.open(args.store)
    n_dialogues = len({question.dialogue_id for question in benchmark.questions})
    say(
        f"Asking {len(benchmark.questions):,} questions about {n_dialogues:,} dialogues by"
        f" {len(request.methods)} methods ..."
    )
    try:
        judgements = _ask(request, store, _vectors(request))
    except ray.exceptions.RayError as error:
        raise build_memory.ours(error) from error
    settings = _settings(request, store)
    environment = _environment(store, built, time.monotonic() - began_s)
    report = make_report(
        benchmark,
        judgements,
        Run(
            data_sha256=_sha256(request.path),
            ks=request.ks,
            seed=args.seed,
            settings=settings,
            environment=environment,
        ),
    )
    _write(report, judgements, args.out)
    return {
        "benchmark": benchmark.name,
        "n_questions": len(benchmark.questions),
        "n_dialogues": n_dialogues,
        "out": str(args.out),
        "wall_s": time.monotonic() - began_s,
        "build": built,
    }


def _vectors(request: Request) -> Vectors:
    """Vectors (n_questions, dimension), from one worker, so that the driver loads no model."""
    texts = tuple(question.text for question in request.benchmark.questions)
    (vectors,) = tasks.on_workers(tasks.encode_questions, [(request.models.encoder, texts)])
    return vectors


def _ask(request: Request, store: Store, vectors: Vectors) -> list[Judgement]:
    """Every question by every method, in the order of the questions."""
    work = list(_dialogue_tasks(request, store, vectors))
    places = {q.question_id: i for i, q in enumerate(request.benchmark.questions)}
    judgements: list[Judgement] = []
    said_s = time.monotonic()
    for done, found in enumerate(tasks.on_workers(tasks.ask, work), 1):
        judgements += found
        if time.monotonic() - said_s >= 10.0:
            said_s = time.monotonic()
            say(f"ask: {done} of {len(work)} dialogues")
    return sorted(judgements, key=lambda judgement: places[judgement.question.question_id])


def _dialogue_tasks(
    request: Request, store: Store, vectors: Vectors
) -> Iterator[tasks.DialogueTask]:
    """One task a dialogue, in the order of their first questions."""
    questions = request.benchmark.questions
    rows: dict[str, list[int]] = {}
    for row, question in enumerate(questions):
        rows.setdefault(question.dialogue_id, []).append(row)
    version = store.version
    for own in rows.values():
        yield tasks.DialogueTask(
            store_uri=store.uri,
            version=version,
            tenant=request.args.tenant,
            benchmark=request.benchmark.name,
            questions=tuple(questions[row] for row in own),
            vectors=vectors[own],
            methods=request.methods,
            ks=request.ks,
            user_speaker=request.benchmark.user_speaker,
        )


def _settings(request: Request, store: Store) -> dict[str, Any]:
    """What, beside data and seed, decides the numbers; all of it for whoever repeats them."""
    made_by = store.manifest(request.args.tenant, columns=["extractor", "scorer", "encoder"])
    return {
        "limit": request.args.limit,
        "models": request.args.models,
        "index_made_by": {
            name: sorted(set(made_by.column(name).to_pylist())) for name in made_by.column_names
        },
        "hybrid": asdict(HYBRID),
        "hybrid_factors": dict(factors()),
        "paper": asdict(PAPER),
        "baselines": asdict(BASELINE_SETTINGS[request.benchmark.name]),
        "hipporag": asdict(HIPPORAG),
    }


def _environment(store: Store, built: dict[str, Any], wall_s: float) -> dict[str, Any]:
    """What differs from run to run."""
    return {
        "glong": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "ray": ray.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "n_cpus": os.cpu_count(),
        "store_version": store.version,
        "sessions_built": built["sessions_built"],
        "sessions_reused": built["sessions_skipped"],
        "build_s": round(built["wall_s"], 1),
        "wall_s": round(wall_s, 1),
    }


def _sha256(path: str) -> str:
    """Of the file as it lies there, compressed or not."""
    if not is_uri(path):
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    filesystem, inner = open_filesystem(path)
    digest = hashlib.sha256()
    with filesystem.open_input_stream(inner, compression=None) as stream:
        while block := stream.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _write(report: dict[str, Any], judgements: Sequence[Judgement], out: Path) -> None:
    """The report's files, ``report.json`` last, so that where it is the others are too."""
    (out / "plots").mkdir(parents=True, exist_ok=True)
    plots = draw_plots(report, out / "plots")
    table = out / "per_question.parquet"
    pq.write_table(question_table(judgements), table)
    text = page(report, [f"plots/{path.name}" for path in plots])
    (out / "report.md").write_text(text, encoding="utf-8")
    made = out / "report.json.tmp"
    made.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    made.rename(out / "report.json")
    say(f"{out}: report.md, report.json, per_question.parquet, {len(plots)} plots")


if __name__ == "__main__":
    sys.exit(main())
