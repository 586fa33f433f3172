"""What the options name: a memory, a store, a question, an output.

Stores and models are imported when they are opened, so that the command line itself stays quick.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from glong.errors import ConfigError

if TYPE_CHECKING:
    from glong.memory import Memory
    from glong.store import Store

__all__ = ["open_memory", "open_store", "question_of", "writing_to"]


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
