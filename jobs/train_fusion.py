"""Learn the factors of hybrid retrieval from benchmark questions whose turns are known.

Reads stores that ``build_memory`` or ``reindex_benchmark`` made of LoCoMo and of LongMemEval, takes
the questions meant for tuning (LoCoMo conversations 26, 30, 41, 42, 43; LongMemEval questions at
even positions) of the dialogues that are there, and writes ``glong/retrieval/fusion.toml``.

Adversarial questions, which ask one speaker about what another said, count too, but less: who is
named then pulls no harder than it should.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from glong._version import __version__
from glong.config import HYBRID, HybridConfig, load_models_config
from glong.errors import ConfigError, StoreError
from glong.evaluation.fusion import Asked, fit
from glong.evaluation.questions import Question, load_benchmark
from glong.models.load import load_encoder
from glong.retrieval import MemoryIndex, Query, query_text
from glong.retrieval.parts import PARTS, candidates
from glong.store import Store
from glong.types import Vectors
from jobs.checks import check_at_least, check_summary
from jobs.exits import EXIT_STATUS, run_to_end
from jobs.progress import say

__all__ = ["main"]

EPILOG = f"""\
{EXIT_STATUS}
example:
  python jobs/train_fusion.py --benchmark locomo LOCOMO.json.gz lo_store \\
      --benchmark longmemeval LONGMEMEVAL.jsonl.xz lme_store --out glong/retrieval/fusion.toml
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job.

    Returns:
        The exit status.
    """
    p = argparse.ArgumentParser(
        prog="train_fusion.py",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "--benchmark", nargs=3, action="append", required=True, metavar=("NAME", "DATA", "STORE"),
        help="a benchmark, its data and the store that is its index (repeatable)",
    )  # fmt: skip
    p.add_argument("--out", required=True, type=Path, metavar="FILE", help="the factors, as TOML")
    p.add_argument("--models", default="small", help="whose encoder reads questions (small)")
    p.add_argument("--shrink", type=float, default=2.0, help="of factors towards 0 (default: 2)")
    p.add_argument("--tie", type=float, default=10.0, help="of a part's two factors (default: 10)")
    p.add_argument(
        "--adversarial", type=float, default=0.3, metavar="SHARE",
        help="what an adversarial question counts, another being 1 (default: 0.3)",
    )  # fmt: skip
    p.add_argument("--summary", type=Path, metavar="FILE", help="write what was done as JSON")
    p.add_argument("--version", action="version", version=f"glong {__version__}")
    args = p.parse_args(argv)

    def work() -> dict[str, Any]:
        check_at_least(args, {"shrink": 0, "tie": 0, "adversarial": 0})
        if not args.out.absolute().parent.is_dir():
            raise ConfigError(f"--out is '{args.out}', in a folder that does not exist.")
        check_summary(args.summary)
        return _train(args)

    return run_to_end(work, args.summary)


def _train(args: argparse.Namespace) -> dict[str, Any]:
    encoder = load_encoder(load_models_config(args.models).encoder)
    config = replace(HYBRID, pagerank=True)
    sets: dict[str, list[Asked]] = {}
    notes = []
    for name, data, uri in args.benchmark:
        every = [
            q
            for q in load_benchmark(name, data).questions
            if q.tuned_on and (q.headline or args.adversarial)
        ]
        store = _open(uri)
        if store.meta.encoder != encoder.fingerprint:
            raise ConfigError(
                f"{uri} was made with the encoder {store.meta.encoder}; allowed: that of --models"
                f" {args.models}, {encoder.fingerprint}. Name the models that made the store."
            )
        there = set(store.dialogues("default").column("dialogue_id").to_pylist())
        questions = [q for q in every if q.dialogue_id in there]
        vectors = encoder.encode([query_text(q.text) for q in questions])
        found = list(_asked(store, questions, vectors, config, args.adversarial))
        if not found:
            raise ConfigError(
                f"{uri} has no dialogue with a question of {data} meant for tuning and all its"
                f" turns; give the store that is the index of this data (benchmark {name})."
            )
        sets.setdefault(name, []).extend(found)
        digest = hashlib.sha256(Path(data).read_bytes()).hexdigest()[:16]
        notes.append(f"{name}: {len(questions)} of {len(every)} questions, data sha256 {digest}")
        say(notes[-1])
    most = max(len(rows) for rows in sets.values())
    rows = [
        # A small set counts as half of the largest, not for nothing beside it.
        replace(one, share=one.share * max(1.0, 0.5 * most / len(asked)))
        for asked in sets.values()
        for one in asked
    ]
    parts = [part for names in PARTS.values() for part in names]
    factors = fit(rows, parts, shrink=args.shrink, tie=args.tie)
    settings = f"shrink {args.shrink}, tie {args.tie}, adversarial {args.adversarial}"
    _write(args.out, factors, [*notes, settings])
    say(f"factors of {len(factors)} parts written to {args.out}")
    return {"questions": {name: len(asked) for name, asked in sets.items()}, "factors": factors}


def _open(uri: str) -> Store:
    try:
        return Store.open(uri)
    except StoreError as error:
        raise ConfigError(f"--benchmark names the store {uri}: {error}") from error


def _asked(
    store: Store,
    questions: Sequence[Question],
    vectors: Vectors,
    config: HybridConfig,
    adversarial: float,
) -> Iterator[Asked]:
    """The candidates of every question whose gold turns are stored."""
    dialogue, index, places = "", None, {}
    for question, vector in zip(questions, vectors, strict=True):
        if index is None or question.dialogue_id != dialogue:
            dialogue = question.dialogue_id
            graph = store.read_graph("default", dialogue)
            index = MemoryIndex.of(graph)
            indices = graph.turn_indices.tolist()
            keys = zip(graph.turn_session_ids, indices, strict=True)
            places = {key: i for i, key in enumerate(keys)}
        gold = [places[place] for place in question.gold if place in places]
        if len(gold) == len(question.gold):
            asked = Query(text=question.text, vector=vector, now_s=question.now_s)
            found = candidates(index, asked, config)
            yield Asked(
                parts=found.parts,
                is_gold=np.isin(found.turns, gold),
                one_sided=index.one_sided,
                share=1.0 if question.headline else adversarial,
            )


def _write(path: Path, factors: dict[str, tuple[float, float]], notes: Sequence[str]) -> None:
    lines = [
        "# Factors of the parts of a score, written by jobs/train_fusion.py:",
        "# the first where speakers say equally much, the second where one says everything.",
        *(f"# {note}" for note in notes),
        "",
        "[factors]",
        *(f"{part} = [{equal:.4f}, {one:.4f}]" for part, (equal, one) in factors.items()),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
