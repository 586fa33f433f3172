"""What commands print: a document for programs, or text for people."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from glong.drawing.wording import hits_text
from glong.types import Failure, Receipt, Retrieval, Session

if TYPE_CHECKING:
    from glong.adding import Added
    from glong.doctor import Report
    from glong.store import Status

__all__ = [
    "added_text",
    "demo_text",
    "note",
    "progress",
    "receipt_text",
    "report_text",
    "show",
    "store_text",
]


def show(args: argparse.Namespace, document: Any, text: str) -> None:
    """Print the document with ``--json``, else the text."""
    print(json.dumps(document, ensure_ascii=False, default=_rfc3339) if args.json else text)


def _rfc3339(value: object) -> str:
    """Times as JSON; anything else is a bug."""
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} has no JSON form.")
    return value.isoformat().replace("+00:00", "Z")


def note(line: str) -> None:
    """Say what is going on, apart from what is printed."""
    print(line, file=sys.stderr)


def progress(items: Iterator[Session | Failure]) -> Iterator[Session | Failure]:
    """The same items, with a bar where somebody watches."""
    bar = tqdm(items, unit=" sessions", dynamic_ncols=True, disable=not sys.stderr.isatty())
    yield from bar


def added_text(added: "Added") -> str:
    """What a build did."""
    return (
        f"{added.n_built} sessions built, {added.n_skipped} skipped, {added.n_failed} failed,"
        f" {added.n_pending} to try again; {added.n_turns} turns, {added.n_edges} edges,"
        f" {added.n_failures} failures stored."
    )


def demo_text(added: "Added", seconds: float, found: Mapping[str, Retrieval]) -> str:
    """What the demo built in how long, and what it remembers."""
    return (
        f"{added.n_built} sessions, {added.n_turns} turns -> {added.n_edges} edges in"
        f" {seconds:.0f} s, {added.n_failures} failures stored.\n\n{_answers(found)}"
    )


def _answers(found: Mapping[str, Retrieval]) -> str:
    """Each question with its hits."""
    return "\n\n".join(f"? {q}\n{hits_text(result.hits)}" for q, result in found.items())


def receipt_text(receipt: Receipt) -> str:
    """What was forgotten, and whether the disk still has it."""
    rows = ", ".join(f"{n} {table}" for table, n in receipt.rows.items() if n) or "no rows"
    due = "; still on the disk until a purge (--purge)" if receipt.purge_due else ""
    return f"forgotten ({receipt.scope}): {rows}{due}"


def report_text(report: "Report") -> str:
    """What is installed, and a line for each model."""
    lines = [f"glong {report.glong}, Python {report.python}, {report.machine}, {report.device}"]
    lines += [f"  {name:<24}{version}" for name, version in report.packages.items()]
    for part in report.parts:
        state = part.error or f"loads in {part.load_s:.1f} s, {part.rate:.1f} {part.unit}/s"
        lines.append(f"{part.part:<10}{part.model:<30}{state}")
    return "\n".join(lines)


def store_text(status: "Status", n_violations: int) -> str:
    """The state of a store in a line."""
    return (
        f"store     {status.sessions_built} sessions built, {status.sessions_failed} failed,"
        f" {n_violations} rules broken"
    )
