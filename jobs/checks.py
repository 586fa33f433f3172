"""What several jobs check of their options before any work."""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from glong.errors import ConfigError

__all__ = ["check_absolute", "check_at_least", "check_folders", "check_summary"]

_SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Set by Ray in the environment of a submitted job's driver."""


def check_at_least(args: argparse.Namespace, lowest: Mapping[str, float]) -> None:
    """Each option's value against the lowest allowed.

    Raises:
        ConfigError: one is lower, or not a number.
    """
    for name, low in lowest.items():
        value = getattr(args, name)
        if not value >= low:  # a NaN too
            raise ConfigError(f"--{name.replace('_', '-')} is {value}; allowed: {low} or more.")


def check_absolute(option: str, value: str | Path | None) -> None:
    """In a submitted job the working directory is Ray's copy: no relative path points out of it.

    Raises:
        ConfigError: it is one, in such a job.
    """
    if _SUBMITTED not in os.environ or value is None:
        return
    if "://" not in str(value) and not Path(value).is_absolute():
        raise ConfigError(
            f"{option} is '{value}', a relative path, in a submitted job, where the working"
            " directory is a copy made by Ray; give an absolute path that is shared, or a URI."
        )


def check_summary(summary: str | Path | None) -> None:
    """A summary that cannot be written would show only after hours of work.

    Raises:
        ConfigError: there is no such folder, or no right to write there; or the path is relative
            in a submitted job.
    """
    if not summary:
        return
    check_absolute("--summary", summary)
    path = Path(summary).absolute()
    if not path.parent.is_dir():
        raise ConfigError(f"--summary is '{summary}', in a folder that does not exist; make it.")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"--summary is '{summary}'; allowed: a file that can be written.")


def check_folders(args: argparse.Namespace, absolute: Sequence[str] = ("data", "out")) -> None:
    """``--data``, ``--evaluate-only`` and ``--summary``, and paths of a submitted job.

    Raises:
        ConfigError: says what is wrong, what is allowed, what to do.
    """
    if not args.data.is_dir():
        raise ConfigError(f"--data is '{args.data}', not a folder; give the folder of data sets.")
    if args.evaluate_only and not args.evaluate_only.is_dir():
        raise ConfigError(f"--evaluate-only is '{args.evaluate_only}'; allowed: a model's folder.")
    check_summary(args.summary)
    for name in absolute:
        check_absolute(f"--{name}", getattr(args, name))
