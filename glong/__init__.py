"""glong: long-term memory for dialogue agents, built in bulk and served on demand."""

from typing import TYPE_CHECKING, Any

from glong._version import __version__

if TYPE_CHECKING:
    from glong.memory import Memory

__all__ = ["Memory", "__version__"]


def __getattr__(name: str) -> Any:
    """Import :class:`Memory` on first use, so that ``import glong`` alone stays quick."""
    if name == "Memory":
        from glong.memory import Memory

        return Memory
    raise AttributeError(f"module 'glong' has no attribute {name!r}")
