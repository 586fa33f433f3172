"""Look at and look after a memory store: ``python jobs/maintain_memory.py status --store DIR``.

Runs on one machine and needs no Ray; only ``import``, ``reweigh`` and ``reembed`` load a model.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from glong._version import __version__
from glong.config import load_models_config
from glong.errors import ConfigError, NotFoundError
from glong.models.load import load_encoder, load_scorer
from glong.prompts import EXTRACTION_PROMPT_VERSION
from glong.protocols import Encoder
from glong.store import Store, StoreMeta, Target
from glong.store.origins import Tables, read_export, read_store
from glong.store.status import Status
from glong.store.transfer import add_rows, reweigh
from jobs.checks import check_absolute, check_summary
from jobs.exits import USAGE_ERRORS, run_to_end

__all__ = ["main"]

EPILOG = """\
exit status: 0 done, 1 verify found violations, 2 bad usage or no such store, dialogue or part of
one, 3 stopped by an error, 130 interrupted (what was done stays).

examples:
  python jobs/maintain_memory.py status --store memory
  python jobs/maintain_memory.py export --store s3://bucket/memory --out dump --tenant acme
  python jobs/maintain_memory.py forget --store memory --dialogue d1 --entity Rex --turns
  python jobs/maintain_memory.py purge --store memory
"""
STAYS = "what was done stays. Run the same command again to go on."
Result = tuple[dict[str, Any], str]
"""What was done, for programs and for people."""
Command = Callable[[argparse.Namespace], Result]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command; returns the exit status."""
    args = _parser().parse_args(argv)
    command: Command = args.run

    def work() -> dict[str, Any]:
        for option, name in (("--store", "store"), ("--out", "out"), ("--from", "source")):
            check_absolute(option, getattr(args, name, None))
        check_summary(args.summary)
        numbers, text = command(args)
        print(json.dumps(numbers, indent=2, sort_keys=True) if args.json else text)
        return numbers

    return run_to_end(
        work,
        args.summary,
        stays=STAYS,
        usage=(*USAGE_ERRORS, NotFoundError),
        above_limit=lambda numbers: bool(numbers.get("violations")),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="maintain_memory.py",
        description="Look at and look after a memory store.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_looking(commands)
    _add_removing(commands)
    _add_moving(commands)
    return parser


def _command(commands: Any, name: str, run: Command, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}."
    )
    command.add_argument("--store", required=True, metavar="URI", help="folder or object-store URI")
    command.add_argument("--json", action="store_true", help="print JSON, for programs")
    command.add_argument("--summary", metavar="FILE", help="write that JSON there, last of all")
    command.set_defaults(run=run)
    return command


def _add_looking(commands: Any) -> None:
    _command(commands, "status", _status, "count sessions, rows, garbage, files and index coverage")
    _command(commands, "verify", _verify, "check every rule that the rows of a store must keep")
    export = _command(
        commands, "export", _export, "write one TABLE.jsonl a table, visible rows only"
    )
    export.add_argument("--out", required=True, type=Path, metavar="DIR", help="made if missing")
    export.add_argument("--tenant", metavar="NAME", help="only this tenant (default: all)")
    export.add_argument("--with-vectors", action="store_true", help="write vectors too")


def _add_removing(commands: Any) -> None:
    compact = _command(
        commands, "compact", _compact, "delete garbage rows, merge files, drop old versions"
    )
    compact.add_argument(
        "--grace-hours",
        type=_hours,
        default=1.0,
        metavar="H",
        help="leave younger rows and versions alone; longer than any read or wave takes"
        " (hours, default: %(default)s; 0 only while nothing else uses the store)",
    )
    _add_forget(
        _command(commands, "forget", _forget, "forget a dialogue, session, turn, edge or entity")
    )
    _command(
        commands,
        "purge",
        _purge,
        "remove from the disk what no reader sees: what was forgotten, garbage, old versions and"
        " indexes (writers are refused meanwhile; stop them first on an object store)",
    )


def _add_moving(commands: Any) -> None:
    imported = _command(
        commands,
        "import",
        _import,
        "add what `export` wrote; the store is made if missing, what is there is not added twice,"
        " other content of a session replaces it (the export is read into memory)",
    )
    imported.add_argument(
        "--from", dest="source", required=True, type=Path, metavar="DIR",
        help="an export's folder; with vectors only if it was made with the same encoder",
    )  # fmt: skip
    weighed = _command(
        commands,
        "reweigh",
        _reweigh,
        "weigh the edges of all sessions with another scorer, in place, a wave at a time (run again"
        " after a stop: what is done is skipped; facts by hand keep the weight 1)",
    )
    weighed.add_argument("--tenant", metavar="NAME", help="only this tenant (default: all)")
    embedded = _command(
        commands,
        "reembed",
        _reembed,
        "embed everything with another encoder into a new store; a store has vectors of one encoder"
        " only, so the old one stays as it is and readers move when it is done (run again after a"
        " stop: what is done is skipped)",
    )
    embedded.add_argument(
        "--to", required=True, metavar="URI", help="the new store, made if missing"
    )
    for command in (imported, weighed, embedded):
        command.add_argument(
            "--models", default="small", metavar="NAME",
            help="preset small, small-decoder, paper or fake, or a TOML file (default: small)",
        )  # fmt: skip


def _add_forget(command: argparse.ArgumentParser) -> None:
    command.add_argument("--dialogue", required=True, metavar="ID", help="all of it, or a part:")
    command.add_argument("--session", metavar="ID", help="one of its sessions")
    command.add_argument("--turn", type=int, metavar="N", help="a turn of --session, from 0")
    command.add_argument("--edge", metavar="ID", help="an edge")
    command.add_argument("--entity", metavar="NAME", help="an entity, by id, name or alias")
    command.add_argument(
        "--turns", action="store_true",
        help="with --entity: also every turn that it speaks or is named in (to remove a person)",
    )  # fmt: skip
    command.add_argument("--tenant", default="default", help="whose (default: %(default)s)")


def _hours(text: str) -> float:
    hours = float(text)
    if not 0 <= hours < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours of at least 0")
    return hours


def _status(args: argparse.Namespace) -> Result:
    status = Store.open(args.store).status()
    return asdict(status), describe(status)


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


def _verify(args: argparse.Namespace) -> Result:
    violations = Store.open(args.store).verify()
    lines = [f"{found.table}: {found.rule}: {found.n} {found.detail}" for found in violations]
    lines.append(f"{len(violations)} rules broken" if violations else "no violations")
    return {"violations": [asdict(found) for found in violations]}, "\n".join(lines)


def _export(args: argparse.Namespace) -> Result:
    store = Store.open(args.store)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"--out is '{args.out}', which cannot be made ({error.strerror}); give a folder."
        ) from error
    rows = store.export(args.out, args.tenant, args.with_vectors)
    counts = ", ".join(f"{n:,} {table}" for table, n in rows.items())
    return {"out": str(args.out), "rows": rows}, f"{args.out}: {counts}"


def _compact(args: argparse.Namespace) -> Result:
    grace = timedelta(hours=args.grace_hours)
    done = Store.open(args.store).compact(now=datetime.now(UTC), grace=grace)
    before, after = sum(done.fragments_before.values()), sum(done.fragments_after.values())
    garbage = sum(done.garbage_rows.values())
    return asdict(done), f"{garbage:,} garbage rows deleted, {before} files are now {after}"


def _forget(args: argparse.Namespace) -> Result:
    target = Target(args.dialogue, args.session, args.turn, args.edge, args.entity, args.turns)
    receipt = Store.open(args.store).forget(args.tenant, target, datetime.now(UTC))
    rows = _counted(receipt.rows)
    text = f"forgotten ({receipt.scope}): {rows}; still on the disk until a purge"
    return asdict(receipt) | {"forgotten_at": receipt.forgotten_at.isoformat()}, text


def _counted(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {table}" for table, n in rows.items() if n) or "no rows"


def _purge(args: argparse.Namespace) -> Result:
    done = Store.open(args.store).purge(datetime.now(UTC))
    size = ""
    if done.bytes_before is not None and done.bytes_after is not None:
        size = f", {done.bytes_before / 1e6:.1f} MB are now {done.bytes_after / 1e6:.1f} MB"
    text = (
        "purged: nothing that was forgotten is on the disk any more"
        f" ({_counted(done.rows)} besides what `forget` had taken out{size})"
    )
    return asdict(done) | {"purged_at": done.purged_at.isoformat()}, text


def _import(args: argparse.Namespace) -> Result:
    encoder = load_encoder(load_models_config(args.models).encoder)
    store = Store.create_or_open(args.store, _meta(encoder))
    return _add(store, read_export(args.source, store), encoder)


def _reembed(args: argparse.Namespace) -> Result:
    check_absolute("--to", args.to)
    source = Store.open(args.store)
    encoder = load_encoder(load_models_config(args.models).encoder)
    target = Store.create_or_open(args.to, _meta(encoder))
    return _add(target, read_store(source, encoder.dimension), encoder)


def _meta(encoder: Encoder) -> StoreMeta:
    return StoreMeta(
        encoder=encoder.fingerprint,
        dimension=encoder.dimension,
        prompt_version=EXTRACTION_PROMPT_VERSION,
        glong_version=__version__,
    )


def _add(store: Store, tables: Tables, encoder: Encoder) -> Result:
    n = sum(add_rows(store, tables, datetime.now(UTC), encoder))
    return _sessions(store, n, "added")


def _reweigh(args: argparse.Namespace) -> Result:
    store = Store.open(args.store)
    scorer = load_scorer(load_models_config(args.models).scorer)
    n = sum(reweigh(store, scorer, datetime.now(UTC), args.tenant))
    return _sessions(store, n, "weighed again")


def _sessions(store: Store, n: int, what: str) -> Result:
    store.routine()
    text = f"{n:,} sessions {what}, {store.uri} is at version {store.version}"
    return {"sessions": n, "store": store.uri, "store_version": store.version}, text


if __name__ == "__main__":
    sys.exit(main())
