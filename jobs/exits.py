"""How a job ends: its exit status, what it says then, and its summary."""

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from glong.errors import ConfigError, GlongError, SchemaError, SourceError
from jobs.progress import say

__all__ = [
    "ABOVE_LIMIT",
    "BAD_USAGE",
    "DONE",
    "EXIT_STATUS",
    "INTERRUPTED",
    "STOPPED",
    "USAGE_ERRORS",
    "interrupt_on_sigterm",
    "run_to_end",
]

DONE, ABOVE_LIMIT, BAD_USAGE, STOPPED, INTERRUPTED = 0, 1, 2, 3, 130
USAGE_ERRORS: tuple[type[GlongError], ...] = (ConfigError, SourceError, SchemaError)
EXIT_STATUS = """\
exit status: 0 done, or stopped after --minutes with a checkpoint and a model; 2 bad usage or
configuration (before any work), 3 stopped by an error, 130 interrupted (checkpoints stay).
"""
_STAYS = "the last checkpoint stays. Run the same command again to go on."


def run_to_end(
    work: Callable[[], Mapping[str, Any]],
    summary: str | Path | None,
    *,
    stays: str = _STAYS,
    usage: tuple[type[GlongError], ...] = USAGE_ERRORS,
    above_limit: Callable[[Mapping[str, Any]], bool] = lambda numbers: False,
) -> int:
    """Do the work, say how it ended, and return the exit status.

    Args:
        work: returns the summary.
        summary: where to write it as JSON, last of all.
        stays: what is left of work that was stopped, and what to do then.
        usage: errors that mean that the job was asked for something it cannot do.
        above_limit: whether work that was done ends with 1 all the same.
    """
    before = interrupt_on_sigterm()
    try:
        numbers = work()
        if summary:
            text = json.dumps(numbers, indent=2)
            Path(summary).write_text(text + "\n", encoding="utf-8")
    except usage as error:
        say(f"error: {error}")
        return BAD_USAGE
    except (GlongError, OSError) as error:
        say(f"error: {error}\nStopped; {stays}")
        return STOPPED
    except KeyboardInterrupt:
        say(f"Interrupted; {stays}")
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    return ABOVE_LIMIT if above_limit(numbers) else DONE


def interrupt_on_sigterm() -> Any:
    """``ray job stop`` and process managers send SIGTERM: end as after Ctrl-C.

    ``ray.init`` puts a handler of its own in this place; call it again after that.

    Returns:
        The handler before.
    """
    return signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
