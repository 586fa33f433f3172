"""Who may write: any number of writers, or one purge alone.

A purge deletes files that nothing names yet, which a writer beside it may be about to name. So it
takes a *lease*, an entry with holder and expiry in the configuration of the table ``forgotten``,
which writers look at and refuse. On a local store writers also share a lock of the operating system
that a purge takes alone: it waits for writes that have begun, and a lock dies with its process. On
an object store there is no such lock: stop the writers there before a purge.
"""

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from glong.errors import ConflictError
from glong.store.layout import Layout, translated

__all__ = ["Lease", "alone", "writing"]

KEY = "glong.lease"
LASTS = timedelta(minutes=5)
"""Longer than the upkeep of one table, after which a lease is renewed."""
LOCK_FILE = "writers.lock"
WAIT_S = 60.0
"""Longer than writing one wave takes."""
POLL_S = 0.02
RETRIES = 20


def _now() -> datetime:
    # The one clock of the store: the lease of a process that died has to end by itself, whatever
    # times the data of its callers has.
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to be alone with a store; ``renew`` it before each long step."""

    layout: Layout
    holder: str

    def renew(self) -> None:
        """Hold it for another five minutes from now.

        Raises:
            ConflictError: another process took it.
        """
        for _ in range(RETRIES):
            dataset = self.layout.dataset("forgotten")
            present = _read(dataset.config())
            if present and present[0] != self.holder and not self._may_take(present[1]):
                raise _refusal(self.layout, *present)
            entry = f"{self.holder} {(_now() + LASTS).isoformat()}"
            try:
                with translated(f"take the lease of {self.layout.uri}"):
                    dataset.update_config({KEY: entry})
            except ConflictError:
                continue
            return
        raise ConflictError(f"Could not take the lease of {self.layout.uri}; try again.")

    def _may_take(self, until: datetime) -> bool:
        """Where there is a lock, that decides, and a lease without it is of a dead process."""
        return _is_local(self.layout) or until <= _now()

    def release(self) -> None:
        """Let writers go on.

        Raises:
            ConflictError: others change the table all the time; the lease stays until it expires.
        """
        for _ in range(RETRIES):
            dataset = self.layout.dataset("forgotten")
            present = _read(dataset.config())
            if present is None or present[0] != self.holder:
                return
            try:
                with translated(f"give back the lease of {self.layout.uri}"):
                    dataset.update_config({KEY: None})
            except ConflictError:
                continue
            return
        raise ConflictError(
            f"Could not give back the lease of {self.layout.uri}: others change it; writers wait"
            " until it expires, or purge again."
        )


def _read(config: dict[str, str]) -> tuple[str, datetime] | None:
    """Holder and expiry of the lease, if there is one."""
    if not (entry := config.get(KEY)):
        return None
    holder, until = entry.split(" ")
    return holder, datetime.fromisoformat(until)


def _refusal(layout: Layout, holder: str, until: datetime) -> ConflictError:
    return ConflictError(
        f"A purge holds {layout.uri} alone until {until:%Y-%m-%d %H:%M:%S} UTC at the latest"
        f" ({holder}); nothing was written. Try again when it has ended."
    )


@contextmanager
def writing(layout: Layout) -> Iterator[None]:
    """Write beside other writers, but not beside a purge.

    Raises:
        ConflictError: a purge holds the store; the same call succeeds when it has ended.
    """
    with _locked(layout, fcntl.LOCK_SH, wait_s=0.0):
        present = _read(layout.dataset("forgotten").config())
        if present and present[1] > _now():
            raise _refusal(layout, *present)
        yield


@contextmanager
def alone(layout: Layout, *, wait_s: float = WAIT_S) -> Iterator[Lease]:
    """Be the only process that writes; readers go on.

    Args:
        layout: the store.
        wait_s: seconds to wait for writes that have begun.

    Raises:
        ConflictError: another purge holds the store, or writers did not end in time.
    """
    lease = Lease(layout, f"purge-{os.getpid()}-{uuid.uuid4().hex[:8]}")
    lease.renew()
    try:
        with _locked(layout, fcntl.LOCK_EX, wait_s):
            lease.renew()
            yield lease
    finally:
        lease.release()


def _is_local(layout: Layout) -> bool:
    return "://" not in layout.uri


@contextmanager
def _locked(layout: Layout, kind: int, wait_s: float) -> Iterator[None]:
    """Hold the lock file of a local store, shared or alone; nothing on an object store."""
    if not _is_local(layout):
        yield
        return
    path = os.path.join(layout.uri, LOCK_FILE)
    with translated(f"open {path}"):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        deadline_s = time.monotonic() + wait_s
        while not _try_lock(file, kind, path):
            if time.monotonic() >= deadline_s:
                raise ConflictError(
                    f"Others are writing to {layout.uri}, or a purge holds it; nothing was"
                    " changed. Try again when they have ended."
                )
            time.sleep(POLL_S)
        yield
    finally:
        os.close(file)


def _try_lock(file: int, kind: int, path: str) -> bool:
    with translated(f"lock {path}"):
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
