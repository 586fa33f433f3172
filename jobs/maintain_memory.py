"""Look at and look after a memory store: ``python jobs/maintain_memory.py status --store DIR``.

Runs on one machine, needs no Ray and loads no model.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from glong.errors import ConfigError, GlongError
from glong.store import Store
from glong.store.status import Status

__all__ = ["main"]

DONE, VIOLATIONS, BAD_USAGE = 0, 1, 2
EPILOG = """\
exit status: 0 done, 1 verify found violations, 2 bad usage, no such store, or it cannot be read.

examples:
  python jobs/maintain_memory.py status --store memory
  python jobs/maintain_memory.py export --store s3://bucket/memory --out dump --tenant acme
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command; returns the exit status."""
    args = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace, Store], int] = args.run
    try:
        _check_store(args.store)
        return command(args, Store.open(args.store))
    except (GlongError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="maintain_memory.py",
        description="Look at and look after a memory store.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace, Store], int], text: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        command.add_argument(
            "--store", required=True, metavar="URI", help="folder or object-store URI"
        )
        command.add_argument("--json", action="store_true", help="print JSON, for programs")
        command.set_defaults(run=run)
        return command

    add("status", _status, "count sessions, rows, garbage, files and index coverage")
    add("verify", _verify, "check every rule that the rows of a store must keep")
    export = add("export", _export, "write one TABLE.jsonl a table, visible rows only")
    export.add_argument("--out", required=True, type=Path, metavar="DIR", help="made if missing")
    export.add_argument("--tenant", metavar="NAME", help="only this tenant (default: all)")
    export.add_argument("--with-vectors", action="store_true", help="write vectors too")
    compact = add("compact", _compact, "delete garbage rows, merge files, drop old versions")
    compact.add_argument(
        "--grace-hours",
        type=_hours,
        default=1.0,
        metavar="H",
        help="leave younger rows and versions alone; longer than any read or wave takes"
        " (hours, default: %(default)s; 0 only while nothing else uses the store)",
    )
    return parser


def _hours(text: str) -> float:
    hours = float(text)
    if not 0 <= hours < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours of at least 0")
    return hours


def _check_store(uri: str) -> None:
    """In a submitted job the working directory is Ray's copy: no relative path points out of it."""
    submitted = "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ
    if submitted and "://" not in uri and not Path(uri).is_absolute():
        raise ConfigError(
            f"--store is {uri!r}, a relative path, in a submitted job, where the working directory"
            " is a copy made by Ray; give an absolute path or a URI."
        )


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, sort_keys=True))


def _status(args: argparse.Namespace, store: Store) -> int:
    status = store.status()
    if args.json:
        _print_json(asdict(status))
    else:
        print(describe(status))
    return DONE


def describe(status: Status) -> str:
    """A store's counts as a few lines for people."""
    size = "" if status.bytes_on_disk is None else f", {status.bytes_on_disk / 1e6:.1f} MB"
    lines = [
        f"{status.uri}: {status.sessions_built} sessions built, {status.sessions_failed} failed,"
        f" {status.dialogues} dialogues of {status.tenants} tenants, {status.waves} waves{size}",
        f"encoder {status.meta.encoder} ({status.meta.dimension} dimensions), prompt"
        f" {status.meta.prompt_version}, glong {status.meta.glong_version}, format"
        f" {status.meta.format_version}",
        f"{'table':<10}{'visible':>12}{'garbage':>12}{'versions':>10}{'files':>8}{'indexed':>9}",
    ]
    lines += [
        f"{table:<10}{status.visible_rows[table]:>12,}{status.garbage_rows[table]:>12,}"
        f"{status.versions[table]:>10}{status.fragments[table]:>8}"
        f"{status.index_coverage[table]:>9.0%}"
        for table in status.rows
    ]
    return "\n".join(lines)


def _verify(args: argparse.Namespace, store: Store) -> int:
    violations = store.verify()
    if args.json:
        _print_json({"violations": [asdict(violation) for violation in violations]})
    else:
        for found in violations:
            print(f"{found.table}: {found.rule}: {found.n} {found.detail}")
        print(f"{len(violations)} rules broken" if violations else "no violations")
    return VIOLATIONS if violations else DONE


def _export(args: argparse.Namespace, store: Store) -> int:
    rows = store.export(args.out, args.tenant, args.with_vectors)
    if args.json:
        _print_json({"out": str(args.out), "rows": rows})
    else:
        counts = ", ".join(f"{n:,} {table}" for table, n in rows.items())
        print(f"{args.out}: {counts}")
    return DONE


def _compact(args: argparse.Namespace, store: Store) -> int:
    done = store.compact(now=datetime.now(UTC), grace=timedelta(hours=args.grace_hours))
    if args.json:
        _print_json(asdict(done))
    else:
        before, after = sum(done.fragments_before.values()), sum(done.fragments_after.values())
        garbage = sum(done.garbage_rows.values())
        print(f"{garbage:,} garbage rows deleted, {before} files are now {after}")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
