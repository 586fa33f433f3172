"""``glong ...``: the embedded mode on the command line of one machine.

Every command prints text for people and, with ``--json``, one JSON document for programs. Exit
status: 0 done, 1 something failed or is not healthy, 2 bad usage or configuration, 130 interrupted.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from glong._version import __version__
from glong.config import PROFILES, load_models_config
from glong.errors import ConfigError, GlongError, NotFoundError, SchemaError, SourceError
from glong.planning import Rebuild
from glong.sources import FORMATS, Reader, expand_inputs, sample_dialogues
from glong.types import Failure, Hit, Session

__all__ = ["main"]

DONE, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130
DEMO_QUESTIONS = ("What does Mira like to grill?", "Which pet does Mira have?")
Handler = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    args = _parser().parse_args(argv)
    handler: Handler = args.handler
    try:
        return handler(args)
    except (ConfigError, SourceError, SchemaError, NotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_USAGE
    except GlongError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("Interrupted; what was committed stays.", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="glong", description="Long-term memory for dialogue agents."
    )
    parser.add_argument("--version", action="version", version=f"glong {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = _command(commands, "build", _build, "build memories from dialogues, in this process")
    _add_store(build)
    build.add_argument(
        "--input", action="append", required=True, metavar="URI",
        help="file, folder, glob or URI; .json .jsonl .parquet, also .gz .xz .zst; repeatable",
    )  # fmt: skip
    build.add_argument(
        "--format", choices=("auto", *FORMATS), default="auto",
        help="layout of the input (default: auto)",
    )  # fmt: skip
    build.add_argument(
        "--limit", type=int, default=0, metavar="N",
        help="only the first N sessions (default: 0 = all)",
    )  # fmt: skip
    build.add_argument(
        "--wave-size", type=int, default=16, metavar="N",
        help="sessions committed together (default: 16)",
    )  # fmt: skip
    build.add_argument(
        "--rebuild", choices=[str(r) for r in Rebuild], default="none",
        help="build again: nothing, what other models made, what failed, or all (default: none)",
    )  # fmt: skip

    retrieve = _command(commands, "retrieve", _retrieve, "the memories that answer a question")
    _add_store(retrieve)
    retrieve.add_argument("--dialogue", required=True, metavar="ID", help="the dialogue to ask")
    retrieve.add_argument("query", help="a question or message")
    retrieve.add_argument("--k", type=int, default=3, help="hits at most (default: 3)")
    retrieve.add_argument(
        "--now", type=_time, metavar="TIME",
        help="time of the question, RFC 3339 (default: the clock's)",
    )  # fmt: skip
    retrieve.add_argument(
        "--profile", choices=tuple(PROFILES), default="hybrid",
        help="retrieval preset (default: hybrid)",
    )  # fmt: skip

    export = _command(
        commands, "export", _export, "write the visible rows of a store as JSON lines"
    )
    export.add_argument("--store", required=True, metavar="URI", help="the memory store")
    export.add_argument("--tenant", default="default", help="whose memories (default: default)")
    export.add_argument(
        "--out", required=True, metavar="DIR", help="folder for one TABLE.jsonl a table"
    )
    export.add_argument("--vectors", action="store_true", help="with vectors (default: without)")

    doctor = _command(commands, "doctor", _doctor, "what is installed, what loads, how fast it is")
    _add_models(doctor)
    doctor.add_argument("--store", metavar="URI", help="also check this store")

    demo = _command(commands, "demo", _demo, "build a memory from sample dialogues and ask it")
    _add_models(demo)
    return parser


def _command(commands: Any, name: str, handler: Handler, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(handler=handler)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", required=True, metavar="URI", help="the memory store")
    parser.add_argument("--tenant", default="default", help="whose memories (default: default)")
    _add_models(parser)


def _add_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models", default="small", metavar="NAME",
        help="preset small, small-decoder, paper or fake, or a TOML file (default: small)",
    )  # fmt: skip


def _time(text: str) -> datetime:
    try:
        time_ = datetime.fromisoformat(text)
    except ValueError:
        time_ = None
    if time_ is None or time_.tzinfo is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time with a zone; allowed: RFC 3339, such as 2026-01-05T10:00:00Z"
        )
    return time_


def _show(args: argparse.Namespace, document: Any, text: str) -> None:
    print(json.dumps(document, ensure_ascii=False, default=_rfc3339) if args.json else text)


def _rfc3339(value: object) -> str:
    """Times as JSON; anything else is a bug."""
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} has no JSON form.")
    return value.isoformat().replace("+00:00", "Z")


def _build(args: argparse.Namespace) -> int:
    from glong.memory import Memory

    if args.limit < 0 or args.wave_size < 1:
        raise ConfigError("--limit allows 0 or more, --wave-size 1 or more.")
    paths = expand_inputs(args.input)
    with Memory.open(args.store, tenant=args.tenant, models=args.models) as memory:
        readers = [Reader(path, args.format) for path in paths]
        items = _progress(_limited((item for reader in readers for item in reader), args.limit))
        added = memory.build(items, wave_size=args.wave_size, rebuild=Rebuild(args.rebuild))
    _show(
        args,
        asdict(added),
        f"{added.n_built} sessions built, {added.n_skipped} skipped, {added.n_failed} failed,"
        f" {added.n_pending} to try again; {added.n_turns} turns, {added.n_edges} edges,"
        f" {added.n_failures} failures stored.",
    )
    return FAILED if added.n_failed or added.n_pending else DONE


def _limited(items: Iterator[Session | Failure], limit: int) -> Iterator[Session | Failure]:
    """All items until ``limit`` sessions have come; 0 is no limit."""
    n_sessions = 0
    for item in items:
        yield item
        n_sessions += isinstance(item, Session)
        if limit and n_sessions >= limit:
            return


def _progress(items: Iterator[Session | Failure]) -> Iterator[Session | Failure]:
    bar = tqdm(items, unit=" sessions", dynamic_ncols=True, disable=not sys.stderr.isatty())
    yield from bar


def _retrieve(args: argparse.Namespace) -> int:
    from glong.memory import Memory

    with Memory.open(args.store, tenant=args.tenant, models=args.models, create=False) as memory:
        result = memory.retrieve(
            args.dialogue, args.query, k=args.k, now=args.now, profile=args.profile
        )
    _show(args, asdict(result), _hits_text(result.hits))
    return DONE


def _hits_text(hits: Sequence[Hit]) -> str:
    if not hits:
        return "No memory answers this."
    lines = []
    for rank, hit in enumerate(hits, 1):
        parts = ", ".join(f"{name} {value:.2f}" for name, value in hit.parts.items())
        when = f"{hit.turn.time:%Y-%m-%d %H:%M}" if hit.turn.time else "no time"
        lines.append(
            f"{rank}. {hit.subject} -{hit.relation}-> {hit.object}  [{hit.score:.2f}: {parts}]"
        )
        lines.append(f"   {hit.turn.speaker}, {when}: {hit.turn.text}")
    return "\n".join(lines)


def _export(args: argparse.Namespace) -> int:
    from glong.store import Store

    store = Store.open(args.store)
    try:
        rows = store.export(Path(args.out), args.tenant, args.vectors)
    except OSError as error:
        raise ConfigError(f"--out is {args.out!r} and cannot be written: {error}.") from error
    _show(args, rows, "\n".join(f"{name}.jsonl: {n} rows" for name, n in rows.items()))
    return DONE


def _doctor(args: argparse.Namespace) -> int:
    from glong.doctor import examine

    report = examine(load_models_config(args.models))
    document = asdict(report) | {"healthy": report.healthy}
    lines = [f"glong {report.glong}, Python {report.python}, {report.machine}, {report.device}"]
    lines += [f"  {name:<24}{version}" for name, version in report.packages.items()]
    for part in report.parts:
        state = part.error or f"loads in {part.load_s:.1f} s, {part.rate:.1f} {part.unit}/s"
        lines.append(f"{part.part:<10}{part.model:<30}{state}")
    healthy = report.healthy
    if args.store:
        from glong.store import Store

        store = Store.open(args.store)
        violations = store.verify()
        status = store.status()
        document |= {"store": asdict(status), "violations": [asdict(v) for v in violations]}
        lines.append(
            f"store     {status.sessions_built} sessions built, {status.sessions_failed} failed,"
            f" {len(violations)} rules broken"
        )
        healthy = healthy and not violations
    _show(args, document, "\n".join(lines))
    return DONE if healthy else FAILED


def _demo(args: argparse.Namespace) -> int:
    from glong.memory import Memory

    with tempfile.TemporaryDirectory() as folder:
        _note(f"Loading the models of preset {args.models} ...")
        with Memory.open(str(Path(folder) / "demo"), models=args.models) as memory:
            items = list(Reader(str(sample_dialogues())))
            sessions = [item for item in items if isinstance(item, Session)]
            n_dialogues = len({session.dialogue_id for session in sessions})
            _note(f"Building the memories of {n_dialogues} sample dialogues ...")
            began_s = time.monotonic()
            added = memory.build(_progress(iter(sessions)))
            seconds = time.monotonic() - began_s
            first = sessions[0].dialogue_id
            found = {q: memory.retrieve(first, q) for q in DEMO_QUESTIONS}
    answers = "\n\n".join(f"? {q}\n{_hits_text(result.hits)}" for q, result in found.items())
    document = {
        "built": asdict(added),
        "seconds": seconds,
        "answers": {q: asdict(result) for q, result in found.items()},
    }
    _show(
        args,
        document,
        f"{added.n_built} sessions, {added.n_turns} turns -> {added.n_edges} edges in"
        f" {seconds:.0f} s, {added.n_failures} failures stored.\n\n{answers}",
    )
    return DONE


def _note(line: str) -> None:
    print(line, file=sys.stderr)
