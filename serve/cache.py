"""A cache of what is slow to load, bounded by number and by bytes, where one loads for all.

For one event loop. Who asks says how new an entry has to be: an older one is loaded again, and an
entry whose load began before the question does not count as an answer unless it is new enough.
Knows nothing of graphs or stores.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

__all__ = ["Entry", "LoadingCache", "Stamp", "is_new"]

Stamp = tuple[int, ...]
"""Versions of the tables that an entry was made from; each only grows."""


class Entry(Protocol):
    """What a cache needs to know of what it holds."""

    @property
    def stamp(self) -> Stamp:
        """What it was made from."""
        ...

    @property
    def nbytes(self) -> int:
        """What it weighs."""
        ...


E = TypeVar("E", bound=Entry)
_LOADS = 3
"""Of one entry in a row, at most, where others swap or drop it meanwhile."""
Load = Callable[[E | None], Awaitable[E]]
"""The entry that is there, if any -> one at least as new as the moment of the call."""


@dataclass(slots=True)
class CacheCounts:
    """What happened so far, and what is there now."""

    hits: int = 0
    misses: int = 0
    refreshes: int = 0
    evictions: int = 0
    nbytes: int = 0


class LoadingCache(Generic[E]):
    """Least recently used goes first, as soon as there are too many or they weigh too much.

    Args:
        max_entries: entries at most.
        max_bytes: bytes at most; a single entry that weighs more is answered from, but not kept.
    """

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, E] = OrderedDict()
        self._loading: dict[str, asyncio.Task[E]] = {}
        self.counts = CacheCounts()

    def __len__(self) -> int:
        return len(self._entries)

    def held(self) -> list[str]:
        """Keys of all entries, least recently used first."""
        return list(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def peek(self, key: str) -> E | None:
        """The entry, however old; who then answers from it says so with :meth:`used`."""
        return self._entries.get(key)

    def used(self, key: str) -> None:
        """A question was answered from the entry, which need not be there any more."""
        self.counts.hits += 1
        if key in self._entries:
            self._entries.move_to_end(key)

    async def get(self, key: str, stamp: Stamp, load: "Load[E]") -> E:
        """The entry, at least as new as ``stamp``.

        Args:
            key: whose entry.
            stamp: read by the caller just before.
            load: makes or renews it; one call at a time for a key, shared by all who wait.

        Raises:
            Exception: what ``load`` raises; nothing is kept then.
        """
        first, failed = True, False
        while True:
            entry = self._entries.get(key)
            if entry is not None and is_new(entry.stamp, stamp):
                self._entries.move_to_end(key)
                self.counts.hits += first
                return entry
            if first:
                self.counts.misses += entry is None
                self.counts.refreshes += entry is not None
            first = False
            old = key in self._loading and not failed
            try:
                loaded = await self._load(key, load)
            except Exception:
                if not old:
                    raise
                failed = True  # but it may have begun before what lets the next one succeed
                continue
            if is_new(loaded.stamp, stamp):
                return loaded

    async def _load(self, key: str, load: "Load[E]") -> E:
        """Wait for the load that runs, or start one; a caller that leaves does not end it."""
        task = self._loading.get(key)
        if task is None:
            task = asyncio.create_task(self._loaded(key, load))
            self._loading[key] = task
            task.add_done_callback(_looked_at)
        return await asyncio.shield(task)

    async def _loaded(self, key: str, load: "Load[E]") -> E:
        try:
            entry = await self._made(key, load)
        except BaseException:
            self.drop([key])
            raise
        finally:
            # Before any waiter goes on: one that found the load listed, but done and too old, would
            # find it again and again, and never give way to what takes it off the list.
            del self._loading[key]
        self.drop([key], evicted=False)
        if entry.nbytes <= self._max_bytes:
            self._entries[key] = entry
            self.counts.nbytes += entry.nbytes
            self._shrink()
        return entry

    async def _made(self, key: str, load: "Load[E]") -> E:
        """What ``load`` makes of the entry that is there in the end."""
        for _ in range(_LOADS):
            old = self._entries.get(key)
            entry = await load(old)
            if self._entries.get(key) is old:
                break
        return entry

    def _shrink(self) -> None:
        while len(self._entries) > self._max_entries or self.counts.nbytes > self._max_bytes:
            self.drop([next(iter(self._entries))])

    def swap(self, key: str, old: E, new: E) -> bool:
        """Put an entry of the same weight in the place of ``old``; whether that was still there."""
        there = self._entries.get(key) is old
        if there:
            self._entries[key] = new
        return there

    def drop(self, keys: Iterable[str], *, evicted: bool = True) -> None:
        """Let entries go; keys that are not there do not matter."""
        for key in keys:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self.counts.nbytes -= entry.nbytes
                self.counts.evictions += evicted

    def clear(self) -> None:
        """Let all go."""
        self.drop(list(self._entries))


def _looked_at(task: "asyncio.Task[E]") -> None:
    """Who waited has the exception: asyncio need not log it."""
    if not task.cancelled():
        task.exception()


def is_new(stamp: Stamp, wanted: Stamp) -> bool:
    """Whether what has one stamp is at least as new as another says."""
    return all(have >= want for have, want in zip(stamp, wanted, strict=True))
