"""Score extractors against annotated triplets: ``evaluate_extractor.py --data DIR --out DIR``."""

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glong._version import __version__
from glong.config import ModelsConfig, load_models_config
from glong.errors import ConfigError
from glong.models.load import load_extractor
from glong.protocols import Extractor
from glong.training.judging import Case, Scores, evaluation_sets, score
from jobs.checks import check_absolute, check_at_least, check_summary
from jobs.exits import run_to_end
from jobs.progress import say

__all__ = ["main"]

DESCRIPTION = """\
Score an extractor on PersonaExt's held-out utterances, conversation_triples, MSC test persona and
DialogRE test: precision, recall and F1 (exact and soft), valid outputs, triplets and turns.
"""
EPILOG = """\
exit status: 0 done, 2 bad usage or data, 3 stopped by an error, 130 interrupted.

examples:
  python jobs/evaluate_extractor.py --data data --out report
  python jobs/evaluate_extractor.py --data data --out rules --extractor rules --sets triples
"""
_COLUMNS = (
    "precision",
    "recall",
    "f1",
    "soft_f1",
    "pair_recall",
    "valid_rate",
    "triplets_per_turn",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    args = _parser().parse_args(argv)
    return run_to_end(lambda: _evaluate(args), args.summary, stays="no report was written.")


def _evaluate(args: argparse.Namespace) -> dict[str, Any]:
    check_at_least(args, {"limit": 0})
    check_summary(args.summary)
    for name in ("data", "out"):
        check_absolute(f"--{name}", getattr(args, name))
    models = load_models_config(
        args.models, {"extractor": args.extractor} if args.extractor else None
    )
    every = dict(evaluation_sets(args.data))
    beginnings = tuple(part.strip() for part in args.sets.removesuffix(",").split(","))
    for beginning in beginnings:
        if not any(name.startswith(beginning) for name in every):
            raise ConfigError(
                f"--sets has {beginning!r}; allowed: the beginnings of {', '.join(every)}."
            )
    sets = [
        (name, cases[:: max(1, len(cases) // args.limit)] if args.limit else cases)
        for name, cases in every.items()
        if name.startswith(beginnings)
    ]
    report = evaluate(load_extractor(models.extractor), sets, models)
    _write(report, args.out)
    return report


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="evaluate_extractor.py",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "--data", required=True, type=Path, metavar="DIR", help="folder with personaext, msc, ..."
    )
    p.add_argument("--out", required=True, type=Path, metavar="DIR", help="made if missing")
    p.add_argument(
        "--models", default="small", metavar="NAME",
        help="preset small, small-decoder, paper or fake, or a TOML file (default: small)",
    )  # fmt: skip
    p.add_argument(
        "--extractor", metavar="SPEC", help="another extractor: a preset's name, or BACKEND[:MODEL]"
    )
    p.add_argument(
        "--sets", default="", metavar="LIST",
        help="only sets whose names begin so, with commas (default: all)",
    )  # fmt: skip
    p.add_argument(
        "--limit", type=int, default=0, metavar="N",
        help="about N cases of each set, evenly spread (default: 0 = all)",
    )  # fmt: skip
    p.add_argument("--summary", metavar="FILE", help="write the report there too, last of all")
    p.add_argument("--version", action="version", version=f"glong {__version__}")
    return p


def evaluate(
    extractor: Extractor, sets: Sequence[tuple[str, list[Case]]], models: ModelsConfig
) -> dict[str, Any]:
    """Scores by set and turns a second, the extractor warm."""
    extractor.extract([sets[0][1][0].session])
    results: dict[str, Scores] = {}
    n_turns, seconds = 0, 0.0
    size = models.extractor.batch_size
    for name, cases in sets:
        began_s = time.perf_counter()
        found = [
            extraction
            for start in range(0, len(cases), size)
            for extraction in extractor.extract([c.session for c in cases[start : start + size]])
        ]
        seconds += time.perf_counter() - began_s
        n_turns += sum(len(case.session.turns) for case in cases)
        results[name] = score(cases, found)
        say(f"{name}: recall {results[name].recall:.3f}, soft F1 {results[name].soft_f1:.3f}")
    return {
        "sets": {name: asdict(scores) for name, scores in results.items()},
        "turns_per_s": n_turns / seconds,
        "extractor": asdict(models.extractor),
        "fingerprint": extractor.fingerprint,
        "environment": {
            "glong": __version__,
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}",
        },
    }


def _write(report: dict[str, Any], out: Path) -> None:
    """``report.json``, and the same as a table for people."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    lines = [
        f"# Extractor {report['extractor']['backend']} {report['extractor']['model']}"
        f" {report['extractor']['adapter']}".rstrip(),
        "",
        f"{report['turns_per_s']:.1f} turns a second. Exact: subject, relation and object equal;"
        " soft: token F1 of both ends at least .5 and the relation or a synonym of it; pair: both"
        " ends equal, any relation.",
        "",
        "| set | gold | " + " | ".join(name.replace("_", " ") for name in _COLUMNS) + " |",
        "| --- |" + " ---: |" * (len(_COLUMNS) + 1),
    ]
    for name, row in report["sets"].items():
        values = " | ".join(f"{row[column]:.3f}" for column in _COLUMNS)
        lines.append(f"| {name} | {row['n']} | {values} |")
    text = "\n".join(lines) + "\n"
    (out / "report.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    sys.exit(main())
