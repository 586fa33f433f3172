"""What the options name: a memory, a store, a question, an output.

Stores and models are imported when they are opened, so that the command line itself stays quick.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from glong.errors import ConfigError, NotFoundError

if TYPE_CHECKING:
    from glong.memory import Memory
    from glong.store import Store

__all__ = [
    "check_dialogue",
    "open_dialogue",
    "open_memory",
    "open_store",
    "question_of",
    "writing_to",
]


_SHOWN = 5
"""Dialogues that an error names."""


def open_memory(args: argparse.Namespace, *, create: bool = False) -> "Memory":
    """The memory of ``--store``, ``--tenant`` and ``--models``.

    Args:
        args: the options.
        create: make a store where there is none.

    Raises:
        GlongError: as :meth:`glong.memory.Memory.open`.
    """
    from glong.memory import Memory

    return Memory.open(args.store, tenant=args.tenant, models=args.models, create=create)


def open_store(args: argparse.Namespace) -> "Store":
    """The store of ``--store``, without models.

    Raises:
        StoreNotFoundError: there is none.
    """
    from glong.store import Store

    return Store.open(args.store)


def open_dialogue(args: argparse.Namespace) -> "Memory":
    """The memory, where it has ``--dialogue``; that is looked up before models are loaded.

    Raises:
        GlongError: as :func:`check_dialogue` and :func:`open_memory`.
    """
    check_dialogue(args)
    return open_memory(args)


def check_dialogue(args: argparse.Namespace) -> None:
    """See whether the store has ``--dialogue``.

    Raises:
        StoreNotFoundError: there is no store.
        NotFoundError: it has no such dialogue; the message names some that it has.
    """
    store = open_store(args)
    try:
        store.sessions_of(args.tenant, args.dialogue)
    except NotFoundError as error:
        there = store.dialogues(args.tenant).column("dialogue_id").to_pylist()
        close = get_close_matches(args.dialogue, there, _SHOWN) or there[:_SHOWN]
        allowed = f"allowed: one of its {len(there):,}, such as {', '.join(map(repr, close))}."
        none = "It has no dialogue at all: check --tenant and --store, or add one (glong build)."
        raise NotFoundError(
            f"{error} {'Check --dialogue; ' + allowed if there else none}"
        ) from error


def question_of(args: argparse.Namespace) -> dict[str, Any]:
    """How a question is asked, as arguments of ``Memory.retrieve``."""
    names = ("k", "recent", "now", "as_of", "profile")
    return {name: getattr(args, name) for name in names if hasattr(args, name)}


@contextmanager
def writing_to(out: str) -> Iterator[None]:
    """Name the option where an output cannot be written.

    Raises:
        ConfigError: it cannot.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(f"--out is {out!r} and cannot be written: {error}.") from error
