"""``glong ...``: the embedded mode on the command line of one machine.

Every command prints text for people and, with ``--json``, one JSON document for programs. Exit
status: 0 done, 1 something failed or is not healthy, 2 bad usage or configuration, 130 interrupted.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from glong._version import __version__
from glong.config import PROFILES, load_models_config
from glong.drawing.wording import history_text, hits_text
from glong.errors import ConfigError, GlongError, NotFoundError, SchemaError, SourceError
from glong.planning import Rebuild
from glong.sources import FORMATS, Reader, expand_inputs, sample_dialogues
from glong.types import Failure, Hit, Session

if TYPE_CHECKING:
    from glong.graph import MemoryGraph

__all__ = ["main"]

DONE, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130
PICTURES = (".html", ".htm", ".png")
MAX_EDGES, MAX_EDGES_AROUND = 500, 60
"""Facts drawn of a whole memory, and around a question or an entity, if nothing is said."""
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
    _add_question(retrieve)

    respond = _command(commands, "respond", _respond, "answer a message with what is remembered")
    _add_store(respond)
    respond.add_argument("--dialogue", required=True, metavar="ID", help="the dialogue to ask")
    respond.add_argument("message", help="what the user says now")
    _add_question(respond, as_of=False)

    graph = _command(commands, "graph", _graph, "draw a memory, or what is around a question")
    _add_store(graph)
    graph.add_argument("--dialogue", required=True, metavar="ID", help="the dialogue to draw")
    graph.add_argument(
        "--out", required=True, metavar="FILE",
        help="picture to write: .html (opens without a network) or .png",
    )  # fmt: skip
    around = graph.add_mutually_exclusive_group()
    around.add_argument("--query", metavar="TEXT", help="draw what is around this question's hits")
    around.add_argument("--entity", metavar="NAME", help="draw what is around this entity")
    graph.add_argument(
        "--max-edges", type=int, metavar="N",
        help=f"facts at most, the heaviest (default: {MAX_EDGES}, around something"
        f" {MAX_EDGES_AROUND})",
    )  # fmt: skip
    _add_question(graph)

    history = _command(commands, "history", _history, "every fact of an entity, in order of time")
    history.add_argument("--store", required=True, metavar="URI", help="the memory store")
    history.add_argument("--tenant", default="default", help="whose memories (default: default)")
    history.add_argument("--dialogue", required=True, metavar="ID", help="the dialogue to ask")
    history.add_argument("entity", help="a name, another spelling of it, or an id")
    history.add_argument(
        "--relation", metavar="NAME",
        help="only facts of this relation, and its denials, such as live_in (default: all)",
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

    forget = _command(commands, "forget", _forget, "forget a dialogue or a part of it, for good")
    forget.add_argument("--store", required=True, metavar="URI", help="the memory store")
    forget.add_argument("--tenant", default="default", help="whose memories (default: default)")
    forget.add_argument("--dialogue", required=True, metavar="ID", help="all of it, or a part:")
    forget.add_argument("--session", metavar="ID", help="one of its sessions")
    forget.add_argument("--turn", type=int, metavar="N", help="a turn of --session, from 0")
    forget.add_argument("--edge", metavar="ID", help="an edge")
    forget.add_argument("--entity", metavar="NAME", help="an entity, by id, name or alias")
    forget.add_argument(
        "--turns", action="store_true",
        help="with --entity: also every turn that it speaks or is named in (to remove a person)",
    )  # fmt: skip
    forget.add_argument(
        "--purge", action="store_true",
        help="also remove it from the disk, old versions and indexes included; waits for writers",
    )  # fmt: skip

    serve = _command(commands, "serve", _serve, "run the service on this machine (serve run)")
    serve.add_argument("--store", required=True, metavar="URI", help="the memory store")
    _add_models(serve)
    serve.add_argument(
        "--keys-file", metavar="FILE",
        help="TOML file of hashed keys; make one with `python -m serve.auth TENANT`"
        " (default: none, only this machine is answered)",
    )  # fmt: skip

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


def _add_question(parser: argparse.ArgumentParser, *, as_of: bool = True) -> None:
    """How a question is asked, whatever is done with its hits."""
    parser.add_argument("--k", type=int, default=3, help="hits at most (default: 3)")
    parser.add_argument(
        "--recent", action="append", default=[], metavar="TEXT",
        help="a turn before the question, oldest first, for its pronouns; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--now", type=_time, metavar="TIME",
        help="time of the question, RFC 3339 (default: the clock's)",
    )  # fmt: skip
    if as_of:
        parser.add_argument(
            "--as-of", type=_time, metavar="TIME",
            help="answer with what was known and held then, RFC 3339 (default: all that is known)",
        )  # fmt: skip
    parser.add_argument(
        "--profile", choices=tuple(PROFILES), default="hybrid",
        help="retrieval preset (default: hybrid)",
    )  # fmt: skip


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """The options of ``_add_question`` as arguments of ``Memory.retrieve``."""
    names = ("k", "recent", "now", "as_of", "profile")
    return {name: getattr(args, name) for name in names if hasattr(args, name)}


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
        result = memory.retrieve(args.dialogue, args.query, **_asked(args))
    _show(args, asdict(result), hits_text(result.hits))
    return DONE


def _graph(args: argparse.Namespace) -> int:
    from glong.drawing import arrange, caption, picture_of, save_png, to_html
    from glong.validity import entity_index, intervals

    out = Path(args.out)
    if out.suffix.lower() not in PICTURES:
        raise ConfigError(f"--out is {args.out!r}; allowed: a file ending in .html or .png.")
    if args.max_edges is not None and args.max_edges < 1:
        raise ConfigError(f"--max-edges is {args.max_edges}; allowed: 1 or more.")
    graph, hits = _graph_and_hits(args)
    around = args.query or args.entity or ""
    drawing = arrange(
        picture_of(
            graph,
            intervals(graph),
            f"{args.dialogue}: {around}" if around else args.dialogue,
            max_links=args.max_edges or (MAX_EDGES_AROUND if around else MAX_EDGES),
            hits=hits,
            entity=entity_index(graph, args.entity) if args.entity else None,
        )
    )
    try:
        if out.suffix.lower() == ".png":
            save_png(drawing, out)
        else:
            out.write_text(to_html(drawing), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out is {args.out!r} and cannot be written: {error}.") from error
    _show(args, {"out": args.out} | asdict(drawing.picture), f"{out}: {caption(drawing)}")
    return DONE


def _graph_and_hits(args: argparse.Namespace) -> "tuple[MemoryGraph, tuple[Hit, ...]]":
    """One dialogue's graph; models are loaded only where there is a query."""
    from glong.store import Store

    if not args.query:
        return Store.open(args.store).read_graph(args.tenant, args.dialogue), ()
    from glong.memory import Memory

    with Memory.open(args.store, tenant=args.tenant, models=args.models, create=False) as memory:
        result = memory.retrieve(args.dialogue, args.query, touch=False, **_asked(args))
        return memory.graph(args.dialogue, version=result.store_version), result.hits


def _history(args: argparse.Namespace) -> int:
    from glong.store import Store
    from glong.validity import history, intervals

    graph = Store.open(args.store).read_graph(args.tenant, args.dialogue)
    facts = history(graph, intervals(graph), args.entity, args.relation)
    _show(args, [asdict(fact) for fact in facts], history_text(facts))
    return DONE


def _respond(args: argparse.Namespace) -> int:
    from glong.memory import Memory

    with Memory.open(args.store, tenant=args.tenant, models=args.models, create=False) as memory:
        response = memory.respond(args.dialogue, args.message, **_asked(args))
    _show(args, asdict(response), f"{response.text}\n\n{hits_text(response.memories)}")
    return DONE


def _serve(args: argparse.Namespace) -> int:
    """Ray Serve in a process of its own, until it ends; this library knows neither."""
    settings = {"GLONG_STORE": args.store, "GLONG_MODELS": args.models}
    # Half the CPU of a request: 21 instead of 40 ms for a retrieve, measured on two busy cores.
    settings |= {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "1"}
    settings |= {"GLONG_KEYS_FILE": args.keys_file} if args.keys_file else {}
    if importlib.util.find_spec("ray") is None:
        raise ConfigError('Ray is not installed. Install it with: pip install "glong[serve]"')
    command = [sys.executable, "-m", "ray.serve.scripts", "run", "serve.app:app"]
    return subprocess.call(command, env={**os.environ, **settings})


def _export(args: argparse.Namespace) -> int:
    from glong.store import Store

    store = Store.open(args.store)
    try:
        rows = store.export(Path(args.out), args.tenant, args.vectors)
    except OSError as error:
        raise ConfigError(f"--out is {args.out!r} and cannot be written: {error}.") from error
    _show(args, rows, "\n".join(f"{name}.jsonl: {n} rows" for name, n in rows.items()))
    return DONE


def _forget(args: argparse.Namespace) -> int:
    from glong.store import Store, Target

    store = Store.open(args.store)
    target = Target(args.dialogue, args.session, args.turn, args.edge, args.entity, args.turns)
    receipt = store.forget(args.tenant, target, datetime.now(UTC))
    if args.purge:
        store.purge(datetime.now(UTC))
        receipt = replace(receipt, purge_due=False)
    rows = ", ".join(f"{n} {table}" for table, n in receipt.rows.items() if n) or "no rows"
    due = "; still on the disk until a purge (--purge)" if receipt.purge_due else ""
    _show(args, asdict(receipt), f"forgotten ({receipt.scope}): {rows}{due}")
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
    answers = "\n\n".join(f"? {q}\n{hits_text(result.hits)}" for q, result in found.items())
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
