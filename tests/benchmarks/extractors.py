"""Extractors for CPUs against the bare encoder that the tagger runs on, in one run.

``python tests/benchmarks/extractors.py --input LOCOMO --sessions 60 --out extractors.json``

- *rules*: the patterns alone.
- *tagger*: the default extractor, text in, triplets out.
- *bare*: the forward passes of MiniLM that the tagger just made, alone, on the same padded
  batches. The physical limit: the tagger cannot be faster than its encoder.

Rounds alternate between the three, and medians count, so that a machine that changes its speed
does not decide the ratio. What a decoder costs beside its engine is in ``extraction.py``.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

from glong.config import SMALL_MODELS, ExtractorSpec
from glong.models.load import load_extractor
from glong.models.tagger import TaggerExtractor
from glong.sources import Reader
from glong.types import Session

N_ROUNDS = 3


def recorded(extractor: TaggerExtractor, sessions: Sequence[Session]) -> list[dict[str, Any]]:
    """Inputs of each forward pass that the sessions take."""
    passes: list[dict[str, Any]] = []
    encoder = extractor._net.encoder
    hook = encoder.register_forward_pre_hook(
        lambda module, args, inputs: passes.append(inputs), with_kwargs=True
    )
    extractor.extract(sessions)
    hook.remove()
    return passes


def replay(extractor: TaggerExtractor, passes: Sequence[dict[str, Any]]) -> None:
    """The encoder alone."""
    with torch.inference_mode():
        for inputs in passes:
            extractor._net.encoder(**inputs)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes, once."""
    began_s = perf_counter()
    work()
    return perf_counter() - began_s


def compare(path: str, n_sessions: int, n_rounds: int = N_ROUNDS) -> dict[str, Any]:
    """All three on the same sessions."""
    items = Reader(path)
    sessions = [item for item in items if isinstance(item, Session)][:n_sessions]
    tagger = TaggerExtractor.load(SMALL_MODELS.extractor)
    rules = load_extractor(ExtractorSpec(backend="rules"))
    passes = recorded(tagger, sessions)
    runs: dict[str, Callable[[], object]] = {
        "rules": lambda: rules.extract(sessions),
        "tagger": lambda: tagger.extract(sessions),
        "bare": lambda: replay(tagger, passes),
    }
    rounds = [{name: seconds(work) for name, work in runs.items()} for _ in range(n_rounds)]
    taken = {name: median(r[name] for r in rounds) for name in runs}
    n_turns = sum(len(session.turns) for session in sessions)
    return {
        "n_sessions": len(sessions),
        "n_turns": n_turns,
        "n_passes": len(passes),
        "n_padded_pieces": sum(inputs["input_ids"].numel() for inputs in passes),
        "threads": torch.get_num_threads(),
        "seconds": taken,
        "turns_per_s": {name: n_turns / s for name, s in taken.items()},
        "tagger_over_bare": taken["tagger"] / taken["bare"],
    }


def main() -> None:
    """Print and write the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", required=True, help="LoCoMo, or any input of many sessions")
    parser.add_argument("--sessions", type=int, default=60, help="how many (default: 60)")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    result = compare(args.input, args.sessions)
    text = json.dumps(result, indent=2)
    print(text)
    if args.out:
        args.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
