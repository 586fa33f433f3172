"""How a training job ends, and what it checks before it begins."""

import argparse
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from glong.errors import ConfigError, GlongError, SourceError
from jobs.progress import say

__all__ = [
    "BAD_USAGE",
    "DONE",
    "EXIT_STATUS",
    "INTERRUPTED",
    "STOPPED",
    "check_at_least",
    "check_folders",
    "run_to_end",
]

DONE, BAD_USAGE, STOPPED, INTERRUPTED = 0, 2, 3, 130
EXIT_STATUS = """\
exit status: 0 done, or stopped after --minutes with a checkpoint and a model; 2 bad usage or
configuration (before any work), 3 stopped by an error, 130 interrupted (checkpoints stay).
"""
_STAYS = "The last checkpoint stays. Run the same command again to go on."
_SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"


def run_to_end(work: Callable[[], Mapping[str, Any]], summary: Path | None) -> int:
    """Do the work, say how it ended, and return the exit status.

    Args:
        work: returns the summary.
        summary: where to write it as JSON, last of all.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        numbers = work()
    except (ConfigError, SourceError) as error:
        say(f"error: {error}")
        return BAD_USAGE
    except (GlongError, OSError) as error:
        say(f"error: {error}\nStopped. {_STAYS}")
        return STOPPED
    except KeyboardInterrupt:
        say(f"Interrupted. {_STAYS}")
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    if summary:
        summary.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    return DONE


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """``ray job stop`` and process managers send SIGTERM: end as after Ctrl-C."""
    raise KeyboardInterrupt


def check_at_least(args: argparse.Namespace, lowest: Mapping[str, float]) -> None:
    """Each option's value against the lowest allowed.

    Raises:
        ConfigError: one is lower, or not a number.
    """
    for name, low in lowest.items():
        value = getattr(args, name)
        if not value >= low:  # a NaN too
            raise ConfigError(f"--{name.replace('_', '-')} is {value}; allowed: {low} or more.")


def check_folders(args: argparse.Namespace, absolute: Sequence[str] = ("data", "out")) -> None:
    """``--data``, ``--evaluate-only`` and ``--summary``, and paths of a submitted job.

    Raises:
        ConfigError: says what is wrong, what is allowed, what to do.
    """
    if not args.data.is_dir():
        raise ConfigError(f"--data is '{args.data}', not a folder; give the folder of data sets.")
    if args.evaluate_only and not args.evaluate_only.is_dir():
        raise ConfigError(f"--evaluate-only is '{args.evaluate_only}'; allowed: a model's folder.")
    if args.summary and not args.summary.absolute().parent.is_dir():
        raise ConfigError(f"--summary is '{args.summary}', in a folder that does not exist.")
    for name in absolute:
        path = getattr(args, name)
        if _SUBMITTED in os.environ and path and not path.is_absolute():
            raise ConfigError(
                f"--{name} is '{path}', a relative path, in a submitted job, where"
                " the working directory is a copy made by Ray; give an absolute path."
            )
