"""Fine-tune the extractor's language model: ``train_extractor.py --data DIR --out DIR``.

LoRA on a causal language model that learns to answer the very prompt of extraction. Stopped
anywhere and run again, the job goes on from its last checkpoint.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from glong._version import __version__
from glong.config import ExtractorSpec
from glong.errors import ConfigError
from glong.models.extras import extra
from glong.models.weights import SMOLLM2
from jobs.checks import check_at_least, check_folders
from jobs.exits import EXIT_STATUS, run_to_end
from jobs.training import check_plots, read_note

__all__ = ["PRESETS", "main"]

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "small": MappingProxyType(
            {
                "model": SMOLLM2,
                "quantization": "none",
                "rank": 16,
                "alpha": 32,
                "epochs": 1,
                "learning_rate": 5e-4,
                "batch_tokens": 1024,
                "batch_rows": 0,
            }
        ),
        "paper": MappingProxyType(
            {
                "model": "Qwen/Qwen3-8B",
                "quantization": "nf4",
                "rank": 32,
                "alpha": 32,
                "epochs": 10,
                "learning_rate": 2e-4,
                "batch_tokens": 24576,  # no limit for 16 windows of 1,536 tokens
                "batch_rows": 16,
            }
        ),
    }
)
"""Preset -> what an option is that is not given."""
EPILOG = f"""\
{EXIT_STATUS}
Writes OUT/model (adapter in float16, its configuration, SHA256SUMS, MODEL_CARD.md),
OUT/models.toml (for --models, to build with it), OUT/extractor.json, OUT/losses.json,
OUT/losses.png; OUT/work holds the checkpoint and the windows. --evaluate-only judges an adapter on
the windows that it was trained for, whatever the options say, and leaves its card as it is.

examples:
  python jobs/train_extractor.py --data data --out extractor --max-windows 4000 --minutes 60
  python jobs/train_extractor.py --data data --out extractor --relations tagger --window-turns 1
  python jobs/train_extractor.py --data data --out paper --preset paper --relations tagger
  python jobs/train_extractor.py --data data --out judged --evaluate-only extractor/model
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    args = _parser().parse_args(argv)

    def work() -> Mapping[str, Any]:
        _check(args)
        with extra("models"):
            from jobs.extractor.run import run

        return run(args)

    return run_to_end(work, args.summary)


def _parser() -> argparse.ArgumentParser:
    """Every option with its default and unit."""
    p = argparse.ArgumentParser(
        prog="train_extractor.py",
        description="Fine-tune the extractor's language model, judge it, write its adapter down.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _data_options(p.add_argument_group("data"))
    _model_options(p.add_argument_group("model"))
    _work_options(p.add_argument_group("work"))
    p.add_argument("--version", action="version", version=f"glong {__version__}")
    return p


def _data_options(group: "argparse._ArgumentGroup") -> None:
    spec = ExtractorSpec(backend="fake")
    group.add_argument(
        "--data", required=True, type=Path, metavar="DIR", help="folder with personaext, msc, ..."
    )
    group.add_argument("--out", required=True, type=Path, metavar="DIR", help="made if missing")
    group.add_argument(
        "--relations", type=Path, metavar="FOLDER",
        help="the --out of jobs/train_tagger.py, whose teacher names relations (default: none, and"
        " relations keep their verbs)",
    )  # fmt: skip
    for option, default, what in (
        ("--window-turns", spec.window_turns, "turns of a window"),
        ("--context-turns", spec.context_turns, "turns shown before it"),
        ("--composed", 8000, "exchanges made of plain sentences"),
        ("--max-windows", 0, "most windows to train on, drawn by the seed; 0: all"),
        ("--limit", 0, "use only N windows, evenly spread, as if there were no more; 0: all"),
    ):
        group.add_argument(
            option, type=int, default=default, metavar="N", help=f"{what} (default: {default})"
        )
    group.add_argument(
        "--negative-share", type=float, default=0.25, metavar="X",
        help="highest share of windows that state nothing, 0 to 1 (default: 0.25)",
    )  # fmt: skip


def _model_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--preset", choices=PRESETS, default="small", help="values of what is not given here"
    )
    kinds: tuple[tuple[str, type, str], ...] = (
        ("model", str, "package:smollm2, a folder, or a hub name"),
        ("rank", int, "of LoRA, on all linear projections"),
        ("alpha", int, "of LoRA; its factor is alpha / rank"),
        ("epochs", int, "passes over all windows"),
        ("learning_rate", float, "the highest"),
        (
            "batch_tokens",
            int,
            "most padded tokens of a step, of each worker, beside the prompt's shared beginning",
        ),
        ("batch_rows", int, "most windows of a step, of each worker; 0: as many as fit"),
    )
    for name, kind, what in kinds:
        values = ", ".join(f"{preset} {own[name]}" for preset, own in PRESETS.items())
        group.add_argument(
            f"--{name.replace('_', '-')}", type=kind, metavar="X", help=f"{what} ({values})"
        )
    group.add_argument(
        "--quantization", choices=("none", "nf4"),
        help="of the base model's weights; nf4 needs a GPU (small none, paper nf4)",
    )  # fmt: skip
    group.add_argument(
        "--evaluate-only", type=Path, metavar="FOLDER", help="train nothing, judge this adapter"
    )


def _work_options(group: "argparse._ArgumentGroup") -> None:
    for option, default, what in (
        ("--checkpoint-every", 50, "steps between checkpoints"),
        ("--eval-every", 250, "steps between looks at held-out windows"),
        ("--eval-windows", 100, "held-out windows of a look"),
        ("--eval-cases", 0, "held-out utterances of PersonaExt that a look extracts from"),
        ("--seed", 0, "of the adapter, the order and what is drawn"),
        ("--threads", 0, "of torch; 0: as many as torch takes"),
        ("--workers", 1, "processes that share a step, by Ray Train above 1"),
    ):
        group.add_argument(
            option, type=int, default=default, metavar="N", help=f"{what} (default: {default})"
        )
    group.add_argument(
        "--minutes", type=float, default=0.0, metavar="X",
        help="stop cleanly after that many minutes of training; 0: never (default: 0)",
    )  # fmt: skip
    group.add_argument(
        "--summary", type=Path, metavar="FILE", help="write the summary there as JSON, last of all"
    )


def _check(args: argparse.Namespace) -> None:
    """Fill in the preset, then what can be known to be wrong before any work.

    Raises:
        ConfigError: says what is wrong, what is allowed, what to do.
    """
    if args.evaluate_only:
        _as_trained(args)
    for name, value in PRESETS[args.preset].items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    lowest = {
        "window_turns": 1, "context_turns": 0, "composed": 0, "max_windows": 0, "limit": 0,
        "negative_share": 0, "rank": 1, "alpha": 1, "epochs": 1, "learning_rate": 1e-8,
        "batch_tokens": 64, "batch_rows": 0, "checkpoint_every": 1, "eval_every": 1,
        "eval_windows": 1, "eval_cases": 0, "seed": 0, "threads": 0, "workers": 1, "minutes": 0,
    }  # fmt: skip
    check_at_least(args, lowest)
    if args.negative_share > 1:
        raise ConfigError(f"--negative-share is {args.negative_share}; allowed: 0 to 1.")
    if not math.isfinite(args.learning_rate):
        raise ConfigError(f"--learning-rate is {args.learning_rate}; allowed: a number.")
    if args.workers > 1:  # a worker runs in a folder of its own
        args.out = args.out.absolute()
        args.model = str(Path(args.model).absolute()) if Path(args.model).is_dir() else args.model
    if args.relations and not args.relations.is_dir():
        raise ConfigError(
            f"--relations is '{args.relations}'; allowed: the --out of a jobs/train_tagger.py."
        )
    check_folders(args, ("data", "out", "relations"))
    check_plots()


def _as_trained(args: argparse.Namespace) -> None:
    """The options that decide what was held out, from an adapter's own note.

    Its base model and quantization too, unless they are given.

    Raises:
        ConfigError: it is no adapter, or learnt a teacher's names and none are given, or the
            reverse.
    """
    note = read_note(args.evaluate_only)
    if note and "window_turns" not in note:
        raise ConfigError(
            f"--evaluate-only is '{args.evaluate_only}', another job's model; allowed: an adapter,"
            " such as OUT/model of this job."
        )
    for name in (
        "window_turns", "context_turns", "composed", "seed", "negative_share", "limit",
    ):  # fmt: skip
        setattr(args, name, note.get(name, getattr(args, name)))
    args.quantization = args.quantization or note.get("quantization")
    args.model = args.model or note.get("model")
    if note and (note["relations"] == "verbs") != (args.relations is None):
        raise ConfigError(
            f"--evaluate-only learnt as relations {note['relations']}; allowed: the --relations of"
            " its training, none for verbs."
        )


if __name__ == "__main__":
    sys.exit(main())
