"""Train the importance scorer: ``python jobs/train_scorer.py --data DIR --out DIR``.

A small T5 from scratch, or a checkpoint of the hub to fine-tune, learns to write down the facts of
a session that a summary keeps; its cross-attention is then the weight of a fact. Stopped anywhere
and run again, the job goes on from its last checkpoint.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glong._version import __version__
from glong.errors import ConfigError
from glong.training.summaries import TASKS
from glong.training.summary_sources import SOURCES
from jobs.checks import check_at_least, check_folders
from jobs.exits import EXIT_STATUS, run_to_end
from jobs.training import check_plots

__all__ = ["main"]

EPILOG = f"""\
{EXIT_STATUS}
Writes OUT/model (safetensors in float16, tokeniser, SHA256SUMS, MODEL_CARD.md), OUT/salience.json,
OUT/losses.json, OUT/losses.png; OUT/work holds checkpoints and what can be made anew.

examples:
  python jobs/train_scorer.py --data data --out scorer
  python jobs/train_scorer.py --data data --out research --sources research --base t5-small \\
      --tasks facts,summary,dialogue --target-tokens 64 --learning-rate 0.001
  python jobs/train_scorer.py --data data --out scorer --evaluate-only scorer/model
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    args = _parser().parse_args(argv)

    def work() -> Mapping[str, Any]:
        _check(args)
        from jobs.scorer.run import run

        return run(args)

    return run_to_end(work, args.summary)


def _parser() -> argparse.ArgumentParser:
    """Every option with its default and unit."""
    p = argparse.ArgumentParser(
        prog="train_scorer.py",
        description="Train the importance scorer, judge it, and write it down ready to use.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _data_options(p.add_argument_group("data"))
    _model_options(p.add_argument_group("model"))
    _work_options(p.add_argument_group("work"))
    p.add_argument("--version", action="version", version=f"glong {__version__}")
    return p


def _data_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--data", required=True, type=Path, metavar="DIR", help="folder with the data sets"
    )
    group.add_argument("--out", required=True, type=Path, metavar="DIR", help="made if missing")
    group.add_argument(
        "--sources", choices=SOURCES, default="default",
        help="default: MSC and Synthetic-Persona-Chat; research: SAMSum and DialogSum too, for"
        " non-commercial use (default: default)",
    )  # fmt: skip
    group.add_argument(
        "--extractor", default="rules", metavar="SPEC",
        help="makes the facts to train on: a preset's name, or BACKEND[:MODEL] (default: rules)",
    )  # fmt: skip
    group.add_argument(
        "--judged-extractor", default="small", metavar="SPEC",
        help="makes the facts to judge on (default: small)",
    )  # fmt: skip
    group.add_argument(
        "--encoder", default="small", metavar="SPEC",
        help="makes the vectors of the baseline centrality (default: small)",
    )  # fmt: skip
    group.add_argument(
        "--tasks", default=",".join(TASKS[:2]), metavar="LIST",
        help=f"kinds of pairs, with commas, of {', '.join(TASKS)} (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--limit", type=int, default=0, metavar="N",
        help="at most N sessions to learn from, and N of each set that is judged, evenly spread"
        " (default: 0 = all)",
    )  # fmt: skip


def _model_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--base", default="", metavar="NAME",
        help="fine-tune this T5 (hub name or folder) instead of one from scratch",
    )  # fmt: skip
    group.add_argument(
        "--embeddings", choices=("minilm", "random"), default="minilm",
        help="where the embeddings start, from scratch (default: minilm)",
    )  # fmt: skip
    for option, default, what in (
        ("--vocabulary", 8000, "pieces of the vocabulary"),
        ("--d-model", 128, "width"),
        ("--layers", 2, "layers of the encoder"),
        ("--decoder-layers", 1, "layers of the decoder"),
        ("--heads", 4, "attention heads"),
    ):
        group.add_argument(
            option, type=int, default=default, metavar="N",
            help=f"{what}, from scratch (default: {default})",
        )  # fmt: skip
    group.add_argument(
        "--evaluate-only", type=Path, metavar="FOLDER", help="train nothing, judge this model"
    )


def _work_options(group: "argparse._ArgumentGroup") -> None:
    for option, default, what in (
        ("--steps", 500, "optimiser steps"),
        ("--batch-tokens", 2048, "most padded tokens of a step, source and target"),
        ("--warmup-steps", 30, "steps until the learning rate is reached"),
        ("--checkpoint-every", 50, "steps between checkpoints"),
        ("--guided-tokens", 8, "first summary tokens whose attention is guided, and M of w"),
        ("--target-tokens", 8, "most tokens of a target; longer ones are cut"),
        ("--eval-every", 150, "steps between looks at the held-out part"),
        ("--seed", 0, "of weights, order, names and dropout"),
        ("--threads", 0, "of torch; 0: as many as torch takes"),
        ("--workers", 1, "processes that share a step, by Ray Train above 1"),
    ):
        group.add_argument(
            option, type=int, default=default, metavar="N", help=f"{what} (default: {default})"
        )
    for name, value, text in (
        ("--learning-rate", 2e-2, "highest learning rate, relative to a matrix's own size"),
        ("--answer", 0.1, "factor of the answer's loss"),
        ("--guidance", 4.0, "factor of the attention loss; 0 leaves it out"),
        ("--other-prefixes", 0.5, "share of examples that read another one's summary so far"),
        ("--minutes", 0.0, "stop cleanly after that many minutes of training; 0: never"),
    ):
        group.add_argument(
            name, type=float, default=value, metavar="X", help=f"{text} (default: {value:g})"
        )
    group.add_argument(
        "--summary", type=Path, metavar="FILE", help="write the summary there as JSON, last of all"
    )


def _check(args: argparse.Namespace) -> None:
    """What can be known to be wrong before any work.

    Raises:
        ConfigError: says what is wrong, what is allowed, what to do.
    """
    lowest = {
        "limit": 0, "vocabulary": 64, "d_model": 8, "layers": 1, "decoder_layers": 1, "heads": 1,
        "steps": 1, "batch_tokens": 64, "warmup_steps": 0, "checkpoint_every": 1, "eval_every": 1,
        "seed": 0, "threads": 0, "guided_tokens": 1, "target_tokens": 1,
        "workers": 1, "answer": 0, "guidance": 0, "minutes": 0, "other_prefixes": 0,
        "learning_rate": 1e-8,
    }  # fmt: skip
    check_at_least(args, lowest)
    if args.d_model % args.heads:
        raise ConfigError(f"--d-model is {args.d_model}; allowed: a multiple of --heads.")
    args.tasks = tuple(args.tasks.split(","))
    for task in args.tasks:
        if task not in TASKS:
            raise ConfigError(f"--tasks has {task!r}; allowed: {', '.join(TASKS)}.")
    if "dialogue" in args.tasks and args.sources == "default":
        raise ConfigError(
            "--tasks has 'dialogue', and no set of --sources default has a summary in prose;"
            " allowed: the others, or --sources research."
        )
    check_folders(args)
    check_plots()
    if args.workers > 1:  # a worker runs in a folder of its own
        args.out = args.out.absolute()
        if args.base and Path(args.base).is_dir():
            args.base = str(Path(args.base).absolute())


if __name__ == "__main__":
    sys.exit(main())
