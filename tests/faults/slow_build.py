"""The build job with a slow or a dying driver: ``python -m tests.faults.slow_build FAULT ARGS...``.

FAULT is JSON: ``pause_s`` to sleep after every step of a wave, and ``die_after``, a step and a
count: the driver gets SIGKILL from itself right after that step was done so often. The job itself
knows nothing of faults; only functions of the store are wrapped, in this process.

Steps: ``create`` (a table was made) · ``turns``, ``entities``, ``edges``, ``failures`` (rows of
this table were appended) · ``fragments`` (files of the workers were appended) ·
``merge_failures`` (all data is committed, the manifest is not) · ``manifest`` · ``upkeep`` (one
piece of it).
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from lancedb.db import LanceDBConnection

from glong.store import upkeep, waves
from glong.store.layout import Layout
from jobs import build_memory


class Fault:
    """Counts steps, sleeps after each, dies after the chosen one."""

    def __init__(self, pause_s: float = 0.0, die_after: tuple[str, int] = ("", 0)) -> None:
        self.pause_s = pause_s
        self.die_after = tuple(die_after)
        self.done: Counter[str] = Counter()

    def after(self, step: str) -> None:
        self.done[step] += 1
        if (step, self.done[step]) == self.die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.pause_s)

    def wrap(self, owner: Any, name: str, step: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self.after(step)
            return result

        setattr(owner, name, watched)

    def wrap_appends(self) -> None:
        """One table at a time, as the original does, with a step after each."""
        original = waves.append_rows

        def watched(layout: Layout, tables: Mapping[str, pa.Table]) -> None:
            for name, rows in tables.items():
                original(layout, {name: rows})
                self.after(name)

        waves.append_rows = watched


def main(fault_json: str, *arguments: str) -> int:
    fault = Fault(**json.loads(fault_json))
    fault.wrap_appends()
    fault.wrap(LanceDBConnection, "create_table", "create")
    fault.wrap(waves, "append_fragments", "fragments")
    fault.wrap(waves, "merge_failures", "merge_failures")
    fault.wrap(waves, "merge_manifest", "manifest")
    fault.wrap(upkeep, "carry_out", "upkeep")
    return build_memory.main(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
