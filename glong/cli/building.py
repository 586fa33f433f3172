"""``build`` and ``demo``: dialogues become memories, in this process."""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from glong.cli.exits import DONE, FAILED
from glong.cli.opening import open_memory
from glong.cli.text import added_text, demo_text, note, progress, show
from glong.errors import ConfigError
from glong.planning import Rebuild
from glong.sources import Reader, expand_inputs, sample_dialogues
from glong.types import Failure, Session

__all__ = ["build", "demo"]

DEMO_QUESTIONS = ("What does Mira like to grill?", "Which pet does Mira have?")


def build(args: argparse.Namespace) -> int:
    """Build what is pending of the inputs."""
    if args.limit < 0 or args.wave_size < 1:
        raise ConfigError("--limit allows 0 or more, --wave-size 1 or more.")
    paths = expand_inputs(args.input)
    with open_memory(args, create=True) as memory:
        readers = [Reader(path, args.format) for path in paths]
        items = progress(_limited((item for reader in readers for item in reader), args.limit))
        added = memory.build(items, wave_size=args.wave_size, rebuild=Rebuild(args.rebuild))
    show(args, asdict(added), added_text(added))
    return FAILED if added.n_failed or added.n_pending else DONE


def _limited(items: Iterator[Session | Failure], limit: int) -> Iterator[Session | Failure]:
    """All items until ``limit`` sessions have come; 0 is no limit."""
    n_sessions = 0
    for item in items:
        yield item
        n_sessions += isinstance(item, Session)
        if limit and n_sessions >= limit:
            return


def demo(args: argparse.Namespace) -> int:
    """Build the sample dialogues in a folder that does not stay, and ask the first of them."""
    from glong.memory import Memory

    with tempfile.TemporaryDirectory() as folder:
        note(f"Loading the models of preset {args.models} ...")
        with Memory.open(str(Path(folder) / "demo"), models=args.models) as memory:
            items = list(Reader(str(sample_dialogues())))
            sessions = [item for item in items if isinstance(item, Session)]
            n_dialogues = len({session.dialogue_id for session in sessions})
            note(f"Building the memories of {n_dialogues} sample dialogues ...")
            began_s = time.monotonic()
            added = memory.build(progress(iter(sessions)))
            seconds = time.monotonic() - began_s
            first = sessions[0].dialogue_id
            found = {q: memory.retrieve(first, q) for q in DEMO_QUESTIONS}
    answers = {q: asdict(result) for q, result in found.items()}
    document = {"built": asdict(added), "seconds": seconds, "answers": answers}
    show(args, document, demo_text(added, seconds, found))
    return DONE
