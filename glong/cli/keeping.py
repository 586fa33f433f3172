"""``export`` and ``forget``: what leaves a store, as files or for good."""

import argparse
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from glong.cli.exits import DONE
from glong.cli.opening import open_store, writing_to
from glong.cli.text import receipt_text, show

__all__ = ["export", "forget"]


def export(args: argparse.Namespace) -> int:
    """Write the visible rows as JSON lines."""
    store = open_store(args)
    with writing_to(args.out):
        rows = store.export(Path(args.out), args.tenant, args.vectors)
    show(args, rows, "\n".join(f"{name}.jsonl: {n} rows" for name, n in rows.items()))
    return DONE


def forget(args: argparse.Namespace) -> int:
    """Forget a dialogue or a part of it; with ``--purge`` on the disk too."""
    from glong.store import Target

    store = open_store(args)
    target = Target(args.dialogue, args.session, args.turn, args.edge, args.entity, args.turns)
    receipt = store.forget(args.tenant, target, datetime.now(UTC))
    if args.purge:
        store.purge(datetime.now(UTC))
        receipt = replace(receipt, purge_due=False)
    show(args, asdict(receipt), receipt_text(receipt))
    return DONE
