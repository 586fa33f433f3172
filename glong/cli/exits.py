"""How a command ends: its exit status."""

__all__ = ["BAD_USAGE", "DONE", "FAILED", "INTERRUPTED"]

DONE, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130
