"""Structured logs: one JSON object a line, without ids or words of dialogues.

A route stands for a path, the kind of an exception for its message: paths hold ids, and messages
may quote what a person said. Frames of a traceback hold neither.
"""

import json
import logging
import traceback
from datetime import UTC, datetime

__all__ = ["LOG", "JsonFormatter", "frames", "set_up"]

LOG = logging.getLogger("glong.serve")
"""Takes ``extra={"fields": {...}}`` with plain values."""


class JsonFormatter(logging.Formatter):
    """``{"time", "level", "event", ...fields}``; times in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time.replace("+00:00", "Z"), "level": record.levelname.lower()}
        line |= {"event": record.getMessage(), **getattr(record, "fields", {})}
        return json.dumps(line, default=str)


def set_up() -> None:
    """Send the service's log to stderr, which Ray keeps by replica."""
    if not LOG.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter())
        LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False


def frames(error: BaseException) -> list[str]:
    """Where an exception came from, innermost last: file names and lines only."""
    trace = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in trace[-12:]]
