"""Options of ``build_memory`` and their check: what can be known to be wrong before Ray starts."""

import argparse
from dataclasses import dataclass

from glong._version import __version__
from glong.config import ModelsConfig, load_models_config
from glong.errors import ConfigError
from glong.planning import Rebuild
from glong.sources import FORMATS, expand_inputs
from jobs.checks import check_absolute, check_at_least, check_summary
from jobs.resources import parse_actors

__all__ = ["STAGES", "Job", "check", "parser"]

STAGES = ("extract", "weigh", "embed")
DESCRIPTION = """\
Build memories from dialogues in bulk: read, extract triplets, weigh, embed, commit to a Lance
store in waves. A job that is stopped anywhere and run again ends with the same visible tables.
"""
EPILOG = """\
exit status: 0 done, 1 finished above the failure limit, 2 bad usage or configuration (before any
work), 3 stopped by an error (what was committed stays), 130 interrupted (what was committed stays).

examples:
  python jobs/build_memory.py --input dialogues.jsonl --store memory
  python jobs/build_memory.py --input 's3://bucket/2026-01-*/' --store s3://bucket/memory --models
  paper ray job submit --address http://head:8265 --working-dir . -- \\
      python jobs/build_memory.py --input s3://bucket/dialogues/ --store s3://bucket/memory
      --models paper
"""


def parser() -> argparse.ArgumentParser:
    """Every option with its default and unit."""
    p = argparse.ArgumentParser(
        prog="build_memory.py",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _data_options(p.add_argument_group("data"))
    _models_options(p.add_argument_group("models"))
    _work_options(p.add_argument_group("work"))
    _report_options(p.add_argument_group("report"))
    p.add_argument("--version", action="version", version=f"glong {__version__}")
    return p


def _data_options(data: "argparse._ArgumentGroup") -> None:
    data.add_argument(
        "--input", action="append", required=True, metavar="URI",
        help="file, folder, glob or object-store URI; .json .jsonl .parquet, also .gz .xz .zst;"
        " repeatable",
    )  # fmt: skip
    data.add_argument(
        "--format", choices=("auto", *FORMATS), default="auto",
        help="how the input is laid out (default: auto, which says what it decided)",
    )  # fmt: skip
    data.add_argument(
        "--store", required=True, metavar="URI",
        help="the memory store, a folder or object-store URI; made if missing",
    )  # fmt: skip
    data.add_argument(
        "--tenant", default="default", help="whose memories these are (default: default)"
    )
    data.add_argument(
        "--limit", type=int, default=0, metavar="N",
        help="only the first N sessions of the input, those built included (default: 0 = all)",
    )  # fmt: skip


def _models_options(models: "argparse._ArgumentGroup") -> None:
    models.add_argument(
        "--models", default="small", metavar="NAME",
        help="preset small, small-decoder, paper or fake, or a TOML file (default: small)",
    )  # fmt: skip
    for part in ("extractor", "scorer", "encoder"):
        models.add_argument(
            f"--{part}", metavar="SPEC", help=f"another {part}: a preset's name, or BACKEND[:MODEL]"
        )


def _work_options(work: "argparse._ArgumentGroup") -> None:
    work.add_argument(
        "--rebuild", choices=[str(r) for r in Rebuild], default="none",
        help="build again: nothing, what other models made, what failed for good, or everything"
        " (default: none)",
    )  # fmt: skip
    work.add_argument(
        "--restore-forgotten", action="store_true",
        help="build what was forgotten of this input too; it is then forgotten no more",
    )  # fmt: skip
    work.add_argument(
        "--wave-size", type=int, default=1000, metavar="N",
        help="sessions committed together; a crash costs that much at most (default: 1000)",
    )  # fmt: skip
    work.add_argument(
        "--wave-seconds", type=float, default=300.0, metavar="S",
        help="seconds after which a smaller wave is committed all the same (default: 300)",
    )  # fmt: skip
    for stage in STAGES:
        work.add_argument(
            f"--{stage}-actors", metavar="N|MIN:MAX",
            help=f"actors of the {stage} stage (default: by the cluster's size)",
        )  # fmt: skip
    work.add_argument(
        "--writer", choices=("auto", "driver", "workers"), default="auto",
        help="who writes rows to the store (default: auto: driver on one node, workers on many)",
    )  # fmt: skip
    work.add_argument("--dry-run", action="store_true", help="read and plan, build nothing")


def _report_options(report: "argparse._ArgumentGroup") -> None:
    report.add_argument(
        "--max-failure-rate", type=float, default=0.05, metavar="F",
        help="share of sessions and input records that may fail before the exit status is 1, 0 to 1"
        " (default: 0.05)",
    )  # fmt: skip
    report.add_argument(
        "--summary", metavar="FILE", help="write the summary there as JSON, last of all"
    )


@dataclass(frozen=True, slots=True)
class Job:
    """A checked request: what can be known to be wrong without Ray and models has been found."""

    args: argparse.Namespace
    paths: tuple[str, ...]
    models: ModelsConfig
    rebuild: Rebuild
    actors: dict[str, tuple[int, int]]


def check(args: argparse.Namespace) -> Job:
    """Options -> a job.

    Raises:
        ConfigError: an option's value; says what is wrong, what is allowed, what to do.
        SourceError: an input that is not there or cannot be read.
    """
    check_at_least(args, {"limit": 0, "wave_size": 1, "wave_seconds": 0.001})
    if not 0 <= args.max_failure_rate <= 1:
        raise ConfigError(f"--max-failure-rate is {args.max_failure_rate}; allowed: 0 to 1.")
    if not args.tenant:
        raise ConfigError("--tenant is empty; allowed: any name.")
    check_summary(args.summary)
    for option, value in [("--store", args.store), *(("--input", value) for value in args.input)]:
        check_absolute(option, value)
    actors = {
        stage: parse_actors(text)
        for stage in STAGES
        if (text := getattr(args, f"{stage}_actors")) is not None
    }
    parts = {part: getattr(args, part) for part in ("extractor", "scorer", "encoder")}
    models = load_models_config(args.models, {k: v for k, v in parts.items() if v is not None})
    return Job(args, tuple(expand_inputs(args.input)), models, Rebuild(args.rebuild), actors)
