"""Progress of a job: a bar on a terminal, plain lines elsewhere (a file, a log collector)."""

import sys
import time
from types import TracebackType
from typing import Self

from tqdm import tqdm

__all__ = ["Progress", "say"]

LINE_EVERY_S = 10.0


class Progress:
    """Sessions done so far, with the rate; the total is unknown while files are being read."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.n_done = 0
        self.began_s = self.line_s = time.monotonic()
        self.bar = tqdm(desc=label, unit=" sessions", dynamic_ncols=True) if _terminal() else None

    def __enter__(self) -> Self:
        """Shown since construction."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last state on screen."""
        if self.bar is not None:
            self.bar.close()

    def advance(self, n_sessions: int, note: str) -> None:
        """Add sessions and say in what state the job is."""
        self.n_done += n_sessions
        if self.bar is not None:
            self.bar.set_postfix_str(note, refresh=False)
            self.bar.update(n_sessions)
        elif time.monotonic() - self.line_s >= LINE_EVERY_S:
            self.line_s = time.monotonic()
            rate = self.n_done / (self.line_s - self.began_s)
            say(f"{self.label}: {self.n_done} sessions, {rate:.1f}/s, {note}")


def say(line: str) -> None:
    """One line for people, clear of any bar."""
    tqdm.write(line, file=sys.stderr)


def _terminal() -> bool:
    return sys.stderr.isatty()
