"""The options of every command, with their defaults."""

import argparse
from collections.abc import Callable
from datetime import datetime
from typing import Any

from glong._version import __version__
from glong.cli import asking, building, drawing, keeping, machine, mcp
from glong.cli.drawing import MAX_EDGES, MAX_EDGES_AROUND
from glong.config import PROFILES
from glong.planning import Rebuild
from glong.sources import FORMATS

__all__ = ["Handler", "parser"]

Handler = Callable[[argparse.Namespace], int]


def parser() -> argparse.ArgumentParser:
    """The whole command line; ``handler`` of what it parses does the command."""
    p = argparse.ArgumentParser(prog="glong", description="Long-term memory for dialogue agents.")
    p.add_argument("--version", action="version", version=f"glong {__version__}")
    commands = p.add_subparsers(required=True, metavar="COMMAND")
    _build(commands)
    _retrieve(commands)
    _respond(commands)
    _graph(commands)
    _history(commands)
    _export(commands)
    _forget(commands)
    _serve(commands)
    _mcp(commands)
    _doctor(commands)
    _demo(commands)
    return p


def _build(commands: Any) -> None:
    text = "build memories from dialogues, in this process"
    p = _command(commands, "build", building.build, text)
    _store_options(p)
    _models_option(p)
    p.add_argument(
        "--input", action="append", required=True, metavar="URI",
        help="file, folder, glob or URI; .json .jsonl .parquet, also .gz .xz .zst; repeatable",
    )  # fmt: skip
    p.add_argument(
        "--format", choices=("auto", *FORMATS), default="auto",
        help="layout of the input (default: auto)",
    )  # fmt: skip
    p.add_argument(
        "--limit", type=int, default=0, metavar="N",
        help="only the first N sessions (default: 0 = all)",
    )  # fmt: skip
    p.add_argument(
        "--wave-size", type=int, default=16, metavar="N",
        help="sessions committed together (default: 16)",
    )  # fmt: skip
    p.add_argument(
        "--rebuild", choices=[str(r) for r in Rebuild], default="none",
        help="build again: nothing, what other models made, what failed, or all (default: none)",
    )  # fmt: skip


def _retrieve(commands: Any) -> None:
    p = _command(commands, "retrieve", asking.retrieve, "the memories that answer a question")
    _store_options(p)
    _models_option(p)
    _dialogue_option(p, "the dialogue to ask")
    p.add_argument("query", help="a question or message")
    _question_options(p)


def _respond(commands: Any) -> None:
    p = _command(commands, "respond", asking.respond, "answer a message with what is remembered")
    _store_options(p)
    _models_option(p)
    _dialogue_option(p, "the dialogue to ask")
    p.add_argument("message", help="what the user says now")
    _question_options(p, as_of=False)


def _graph(commands: Any) -> None:
    p = _command(commands, "graph", drawing.graph, "draw a memory, or what is around a question")
    _store_options(p)
    _models_option(p)
    _dialogue_option(p, "the dialogue to draw")
    p.add_argument(
        "--out", required=True, metavar="FILE",
        help="picture to write: .html (opens without a network) or .png",
    )  # fmt: skip
    around = p.add_mutually_exclusive_group()
    around.add_argument("--query", metavar="TEXT", help="draw what is around this question's hits")
    around.add_argument("--entity", metavar="NAME", help="draw what is around this entity")
    p.add_argument(
        "--max-edges", type=int, metavar="N",
        help=f"facts at most, the heaviest (default: {MAX_EDGES}, around something"
        f" {MAX_EDGES_AROUND})",
    )  # fmt: skip
    _question_options(p)


def _history(commands: Any) -> None:
    p = _command(commands, "history", asking.history, "every fact of an entity, in order of time")
    _store_options(p)
    _dialogue_option(p, "the dialogue to ask")
    p.add_argument("entity", help="a name, another spelling of it, or an id")
    p.add_argument(
        "--relation", metavar="NAME",
        help="only facts of this relation, and its denials, such as live_in (default: all)",
    )  # fmt: skip


def _export(commands: Any) -> None:
    text = "write the visible rows of a store as JSON lines"
    p = _command(commands, "export", keeping.export, text)
    _store_options(p)
    p.add_argument("--out", required=True, metavar="DIR", help="folder for one TABLE.jsonl a table")
    p.add_argument("--vectors", action="store_true", help="with vectors (default: without)")


def _forget(commands: Any) -> None:
    text = "forget a dialogue or a part of it, for good"
    p = _command(commands, "forget", keeping.forget, text)
    _store_options(p)
    _dialogue_option(p, "all of it, or a part:")
    p.add_argument("--session", metavar="ID", help="one of its sessions")
    p.add_argument("--turn", type=int, metavar="N", help="a turn of --session, from 0")
    p.add_argument("--edge", metavar="ID", help="an edge")
    p.add_argument("--entity", metavar="NAME", help="an entity, by id, name or alias")
    p.add_argument(
        "--turns", action="store_true",
        help="with --entity: also every turn that it speaks or is named in (to remove a person)",
    )  # fmt: skip
    p.add_argument(
        "--purge", action="store_true",
        help="also remove it from the disk, old versions and indexes included; waits for writers",
    )  # fmt: skip


def _serve(commands: Any) -> None:
    text = "run the service on this machine, until Ctrl-C"
    p = _command(commands, "serve", machine.serve, text)
    p.add_argument("--store", required=True, metavar="URI", help="the memory store")
    _models_option(p, default="")
    p.add_argument(
        "--keys-file", metavar="FILE",
        help="TOML file of hashed keys; make one with `python -m serve.auth TENANT` (default:"
        " GLONG_KEYS_FILE, else none, and only this machine is answered)",
    )  # fmt: skip
    p.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="address to listen at; 0.0.0.0: every one of this machine (default: 127.0.0.1)",
    )  # fmt: skip
    p.add_argument("--port", type=int, default=8000, metavar="N", help="(default: 8000)")


def _mcp(commands: Any) -> None:
    text = "the memories of a store as tools of a language model (MCP over stdin and stdout)"
    p = _command(commands, "mcp", mcp.mcp, text)
    _store_options(p)
    _models_option(p)


def _doctor(commands: Any) -> None:
    text = "what is installed, what loads, how fast it is"
    p = _command(commands, "doctor", machine.doctor, text)
    _models_option(p)
    p.add_argument("--store", metavar="URI", help="also check this store")


def _demo(commands: Any) -> None:
    text = "build a memory from sample dialogues and ask it"
    _models_option(_command(commands, "demo", building.demo, text))


def _command(commands: Any, name: str, handler: Handler, text: str) -> argparse.ArgumentParser:
    p: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    p.set_defaults(handler=handler)
    p.add_argument("--json", action="store_true", help="print one JSON document")
    return p


def _store_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--store", required=True, metavar="URI", help="the memory store")
    p.add_argument("--tenant", default="default", help="whose memories (default: default)")


def _models_option(p: argparse.ArgumentParser, default: str = "small") -> None:
    p.add_argument(
        "--models", default=default, metavar="NAME",
        help="preset small, small-decoder, paper or fake, or a TOML file"
        f" (default: {default or 'GLONG_MODELS, else small'})",
    )  # fmt: skip


def _dialogue_option(p: argparse.ArgumentParser, text: str) -> None:
    p.add_argument("--dialogue", required=True, metavar="ID", help=text)


def _question_options(p: argparse.ArgumentParser, *, as_of: bool = True) -> None:
    """How a question is asked, whatever is done with its hits."""
    p.add_argument("--k", type=int, default=3, help="hits at most (default: 3)")
    p.add_argument(
        "--recent", action="append", default=[], metavar="TEXT",
        help="a turn before the question, oldest first, for its pronouns; repeatable",
    )  # fmt: skip
    p.add_argument(
        "--now", type=_time, metavar="TIME",
        help="time of the question, RFC 3339 (default: the clock's)",
    )  # fmt: skip
    if as_of:
        p.add_argument(
            "--as-of", type=_time, metavar="TIME",
            help="answer with what was known and held then, RFC 3339 (default: all that is known)",
        )  # fmt: skip
    p.add_argument(
        "--profile", choices=tuple(PROFILES), default="hybrid",
        help="retrieval preset (default: hybrid)",
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
