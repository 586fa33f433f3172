"""Options of ``reindex_benchmark`` and their check, before Ray and models."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from glong._version import __version__
from glong.config import ModelsConfig
from glong.errors import ConfigError
from glong.evaluation.methods import ABLATION, DEFAULT_METHODS, OURS, methods_by_name
from glong.evaluation.plots import check_plots
from glong.evaluation.questions import BENCHMARKS, Benchmark, load_benchmark
from glong.sources import Reader, expand_inputs
from glong.types import Session
from jobs import options as build_options
from jobs.checks import check_absolute, check_at_least

__all__ = ["Request", "check", "parser"]

KS = (1, 3, 5, 10, 20)
MAX_K = 1000
DESCRIPTION = """\
Build (or reuse) the index of a benchmark's dialogues as build_memory does, answer all questions by
every method over it, and report recall, MRR, NDCG, tokens and latency, with intervals and plots.
"""
EPILOG = """\
exit status: 0 done, 1 done, but more sessions than --max-failure-rate could not be built, 2 bad
usage or configuration (before any work), 3 stopped by an error, 130 interrupted (what was indexed
stays).

example:
  python jobs/reindex_benchmark.py --benchmark locomo --data locomo10.json.gz --store memory \\
      --out report
"""


@dataclass(frozen=True, slots=True)
class Request:
    """A checked request.

    Attributes:
        args: as given.
        benchmark: its questions, as many as asked for.
        path: the file.
        methods: in the report's order, the ablation's last.
        ks: cut-offs, ascending.
        build: the job that builds the index.
    """

    args: argparse.Namespace
    benchmark: Benchmark
    path: str
    methods: tuple[str, ...]
    ks: tuple[int, ...]
    build: build_options.Job

    @property
    def models(self) -> ModelsConfig:
        """The models of the index; its encoder reads the questions too."""
        return self.build.models


def parser() -> argparse.ArgumentParser:
    """Every option with its default and unit."""
    p = argparse.ArgumentParser(
        prog="reindex_benchmark.py",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "--benchmark", required=True, choices=BENCHMARKS,
        help="which data set it is; conversation_chronicles has no labels to judge by",
    )  # fmt: skip
    p.add_argument(
        "--data", required=True, metavar="PATH", help="its file, as build_memory reads it, or URI"
    )
    p.add_argument(
        "--store", required=True, metavar="URI",
        help="the index, a folder or object-store URI; made or completed where dialogues are"
        " missing",
    )  # fmt: skip
    p.add_argument("--out", required=True, type=Path, metavar="DIR", help="made if missing")
    p.add_argument("--tenant", default="default", help="whose memories (default: default)")
    p.add_argument(
        "--methods", default=",".join(DEFAULT_METHODS), metavar="LIST",
        help="with commas (default: %(default)s); also paper_2_hops, hipporag_ppr_published and"
        f" the ablation's, {OURS}_<part>_off",
    )  # fmt: skip
    p.add_argument(
        "--no-ablation", action="store_true", help=f"leave out {OURS} with each part switched"
    )
    p.add_argument(
        "--models", default="small", metavar="NAME",
        help="preset small, small-decoder, paper or fake, or a TOML file (default: small)",
    )  # fmt: skip
    for part in ("extractor", "scorer", "encoder"):
        p.add_argument(
            f"--{part}", metavar="SPEC", help=f"another {part}: a preset's name, or BACKEND[:MODEL]"
        )
    p.add_argument(
        "--limit", type=int, default=0, metavar="N",
        help="only the first N questions, and the dialogues up to theirs (default: 0 = all)",
    )  # fmt: skip
    p.add_argument(
        "--k", default=",".join(map(str, KS)), metavar="LIST",
        help="cut-offs in distinct turns, with commas (default: %(default)s)",
    )  # fmt: skip
    p.add_argument("--seed", type=int, default=0, metavar="N", help="of the bootstrap (default: 0)")
    p.add_argument(
        "--max-failure-rate", type=float, default=0.05, metavar="F",
        help="share of sessions that may fail to build before the exit status is 1, 0 to 1"
        " (default: 0.05)",
    )  # fmt: skip
    p.add_argument("--summary", metavar="FILE", help="write a summary there as JSON, last of all")
    p.add_argument("--version", action="version", version=f"glong {__version__}")
    return p


def check(args: argparse.Namespace) -> Request:
    """Options -> a request, the questions read.

    Raises:
        ConfigError: an option's value; says what is wrong, what is allowed, what to do.
        SourceError: the data cannot be read or has another form.
    """
    check_at_least(args, {"limit": 0, "seed": 0})
    for name in ("data", "store", "out"):
        check_absolute(f"--{name}", getattr(args, name))
    if args.out.exists() and not args.out.is_dir():
        raise ConfigError(f"--out is '{args.out}', which is no folder; give a folder.")
    check_plots()
    ks = _cut_offs(args.k)
    methods = _methods(args)
    paths = expand_inputs([args.data])
    if len(paths) != 1:
        raise ConfigError(f"--data is {args.data!r}, which is {len(paths)} files; give one.")
    whole = load_benchmark(args.benchmark, paths[0])
    benchmark = whole.first(args.limit) if args.limit else whole
    n_sessions = _n_sessions(benchmark, paths[0]) if args.limit else 0
    build = build_options.check(_build_args(args, paths[0], n_sessions))
    return Request(args, benchmark, paths[0], methods, ks, build)


def _cut_offs(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 1 <= int(word) <= MAX_K for word in words):
        raise ConfigError(f"--k is {text!r}; allowed: whole numbers, 1 to {MAX_K}, with commas.")
    return tuple(sorted({int(word) for word in words}))


def _methods(args: argparse.Namespace) -> tuple[str, ...]:
    """What is asked for, and the ablation with ours; a benchmark without labels has no recipes."""
    names = [word.strip() for word in args.methods.split(",") if word.strip()]
    if OURS in names and not args.no_ablation:
        names += ABLATION
    names = list(dict.fromkeys(names))
    if args.benchmark != "conversation_chronicles":  # whose labels are missed first
        methods_by_name(tuple(names), args.benchmark)
    return tuple(names)


def _n_sessions(benchmark: Benchmark, path: str) -> int:
    """Sessions of the input up to the last of the dialogues that are asked."""
    wanted = {question.dialogue_id for question in benchmark.questions}
    seen: set[str] = set()
    last = 0
    found = (item for item in Reader(path, benchmark.name) if isinstance(item, Session))
    for number, session in enumerate(found, 1):
        if session.dialogue_id in wanted:
            seen.add(session.dialogue_id)
            last = number
        elif seen == wanted:
            break
    return last


def _build_args(args: argparse.Namespace, path: str, n_sessions: int) -> argparse.Namespace:
    """The same request for ``build_memory``."""
    words = ["--input", path, "--format", args.benchmark, "--store", args.store]
    words += ["--tenant", args.tenant, "--models", args.models, "--limit", str(n_sessions)]
    words += ["--max-failure-rate", str(args.max_failure_rate)]
    for part in ("extractor", "scorer", "encoder"):
        if getattr(args, part) is not None:
            words += [f"--{part}", getattr(args, part)]
    if args.summary:
        words += ["--summary", args.summary]
    return build_options.parser().parse_args(words)
