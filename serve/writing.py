"""The write side: posted sessions become waves of their own, one at a time, in order. No Ray.

Sessions that come within a short window are committed together; a session that comes twice is
committed twice, in order. Forgetting and facts by hand stand in the same queue, so that forgetting
a session and posting it again happen in the order in which they were asked for. One thread does all
that writes; the event loop only waits.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

import pyarrow.compute as pc

from glong.build import Models
from glong.errors import ConflictError, GlongError
from glong.ids import content_hash, dialogue_key
from glong.memory import Memory
from glong.store import Store
from glong.store.lease import writing
from glong.types import Session, Turn
from serve.errors import INTERNAL, Problem, overloaded, problem_of
from serve.logs import LOG
from serve.records import Ingested, Posted

__all__ = ["LiveWriter", "commit", "next_wave", "wait_for_purge"]

PURGE_WAIT_S, PURGE_POLL_S = 60.0, 0.1
P = ParamSpec("P")
R = TypeVar("R")
_COUNTS = ("n_turns", "n_triplets", "n_edges", "n_failures")
_MANIFEST = ("session_id", "started_at", "status", "content_hash", "batch_id", *_COUNTS)
_ABSENT = dict.fromkeys(_COUNTS, 0)

Waiting = tuple[Posted, "asyncio.Future[Ingested | Problem]"]
Work = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class LiveWriter:
    """Takes posts, commits them as waves; for one event loop.

    Args:
        store: where to.
        models: with which models, as :class:`~glong.build.Models`.
        window_s: how long the first of a wave waits for others.
        wave_sessions: sessions of a wave at most.
        max_waiting: posts that wait at most; more are refused.
    """

    def __init__(
        self,
        store: Store,
        models: Models,
        *,
        window_s: float,
        wave_sessions: int,
        max_waiting: int,
    ) -> None:
        self.store = store
        self.models = models
        self._window_s = window_s
        self._wave_sessions = wave_sessions
        self._max_waiting = max_waiting
        self._queue: list[Waiting | Work] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="glong-writer")
        self._working: asyncio.Task[None] | None = None

    async def post(self, posted: Posted) -> Ingested | Problem:
        """Commit a session; returns once it is visible.

        What was taken is committed even if the caller gives up waiting.
        """
        if sum(isinstance(asked, Posted) for asked, _ in self._queue) >= self._max_waiting:
            return overloaded("commit", 2.0, status=429)
        done: Ingested | Problem = await self._asked(posted)
        return done

    async def alone(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do something else that writes, after what was asked for before it."""
        result: R = await self._asked(lambda: work(*args, **kwargs))
        return result

    async def drain(self) -> None:
        """Wait until all that was taken is done."""
        while self._queue or (self._working and not self._working.done()):
            if self._working:
                await asyncio.wait([self._working])

    async def _asked(self, what: Posted | Callable[[], Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((what, future))  # type: ignore[arg-type]
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work_off())
        return await asyncio.shield(future)

    async def _work_off(self) -> None:
        while self._queue:
            asked, future = self._queue[0]
            if isinstance(asked, Posted):
                await self._commit_wave()
                continue
            self._queue.pop(0)
            try:
                future.set_result(await self._in_thread(asked))
            except BaseException as error:  # raised to who asked for it
                future.set_exception(error)
                future.exception()  # looked at: asyncio would log it where nobody waits any more
                if isinstance(error, asyncio.CancelledError):
                    raise

    async def _commit_wave(self) -> None:
        if self._n_posts() == len(self._queue):  # nobody waits for them behind
            await asyncio.sleep(self._window_s)
        n = self._n_posts()
        wave, rest = next_wave(self._queue[:n], self._wave_sessions)  # type: ignore[arg-type]
        self._queue[:n] = rest
        posts = [posted for posted, _ in wave]
        try:
            results = await self._in_thread(lambda: commit(self.store, self.models, posts))
        except BaseException as error:  # a bug, or a panic in native code: the next wave goes on
            LOG.error("wave_failed", extra={"fields": {"error": type(error).__name__}})
            if isinstance(error, asyncio.CancelledError):
                raise
            results = [INTERNAL] * len(wave)
        for (_, future), result in zip(wave, results, strict=True):
            future.set_result(result)

    def _n_posts(self) -> int:
        """Posts before the first other work."""
        others = (i for i, (asked, _) in enumerate(self._queue) if not isinstance(asked, Posted))
        return next(others, len(self._queue))

    async def _in_thread(self, work: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def next_wave(waiting: Sequence[Waiting], limit: int) -> tuple[list[Waiting], list[Waiting]]:
    """The posts of the next wave, and the rest: no session twice, else in order."""
    wave: list[Waiting] = []
    rest: list[Waiting] = []
    taken: set[tuple[str, str, str]] = set()
    for item in waiting:
        posted = item[0]
        key = (posted.tenant, posted.dialogue_id, posted.session_id)
        if len(wave) < limit and key not in taken:
            wave.append(item)
        else:
            rest.append(item)
        taken.add(key)
    return wave, rest


def commit(store: Store, models: Models, posts: Sequence[Posted]) -> list[Ingested | Problem]:
    """Build and commit posts of any tenants, no session twice; one result for each, in order."""
    results: dict[int, Ingested | Problem] = {}
    by_tenant: dict[str, list[int]] = {}
    for place, posted in enumerate(posts):
        by_tenant.setdefault(posted.tenant, []).append(place)
    for tenant, places in by_tenant.items():
        of_tenant = [posts[place] for place in places]
        try:
            wait_for_purge(store)
            made: Sequence[Ingested | Problem] = _commit_of(
                Memory(store, tenant, models), of_tenant
            )
        except GlongError as error:
            made = [problem_of(error)] * len(places)
        results.update(zip(places, made, strict=True))
    return [results[place] for place in range(len(posts))]


def _commit_of(memory: Memory, posts: Sequence[Posted]) -> list[Ingested]:
    before = _manifests(memory, posts)
    forgotten = memory.store.forgotten(memory.tenant)
    kept: list[Session] = []
    anew: list[Session] = []
    contents = []
    for posted in posts:
        session = _session(memory, posted, before[posted.dialogue_id])
        # A turn that was forgotten stays so while its session grows; what was forgotten as a whole
        # comes back if its owner posts it anew.
        left = forgotten.strip(memory.tenant, session)
        (anew if left is None else kept).append(session if left is None else left)
        contents.append(content_hash(session if left is None else left))
    for sessions, restore in ((kept, False), (anew, True)):
        if sessions:
            memory.build(sessions, wave_size=len(sessions), restore_forgotten=restore)
    after = _manifests(memory, posts)
    version = memory.store.version
    results = []
    for posted, content in zip(posts, contents, strict=True):
        was, now = (rows[posted.dialogue_id].get(posted.session_id) for rows in (before, after))
        results.append(_ingested(content, was, now, version))
    return results


def _manifests(memory: Memory, posts: Sequence[Posted]) -> dict[str, dict[str, "Row"]]:
    """Dialogue id -> its manifest."""
    return {d: _manifest(memory, d) for d in {posted.dialogue_id for posted in posts}}


def wait_for_purge(store: Store, limit_s: float = PURGE_WAIT_S) -> None:
    """Return once no purge holds the store: what is to be written waits, and is not built twice.

    Raises:
        ConflictError: it took longer.
    """
    ends_s = time.monotonic() + limit_s
    while True:
        try:
            with writing(store.layout):
                return
        except ConflictError:
            if time.monotonic() >= ends_s:
                raise
        time.sleep(PURGE_POLL_S)


Row = dict[str, object]


def _manifest(memory: Memory, dialogue_id: str) -> dict[str, Row]:
    """Session id -> its manifest row, of one dialogue."""
    rows = memory.store.visible(
        "sessions", dialogue_key=dialogue_key(memory.tenant, dialogue_id), columns=list(_MANIFEST)
    )
    return {row["session_id"]: row for row in rows.to_pylist()}


def _session(memory: Memory, posted: Posted, known: dict[str, Row]) -> Session:
    row = known.get(posted.session_id)
    stored = row["started_at"] if row else None
    started = posted.started_at or (stored if isinstance(stored, datetime) else datetime.now(UTC))
    turns = posted.turns
    if posted.append and row:
        turns = _appended(_stored_turns(memory, posted), turns)
    return Session(posted.dialogue_id, posted.session_id, started, turns)


def _appended(stored: tuple[Turn, ...], new: tuple[Turn, ...]) -> tuple[Turn, ...]:
    start = stored[-1].index + 1 if stored else 0
    return stored + tuple(replace(turn, index=start + i) for i, turn in enumerate(new))


def _stored_turns(memory: Memory, posted: Posted) -> tuple[Turn, ...]:
    key = dialogue_key(memory.tenant, posted.dialogue_id)
    columns = ["session_id", "turn_index", "speaker", "text", "time"]
    rows = memory.store.visible("turns", dialogue_key=key, columns=columns)
    rows = rows.filter(pc.equal(rows.column("session_id"), posted.session_id))
    return tuple(
        Turn(row["turn_index"], row["speaker"], row["text"], row["time"])
        for row in rows.sort_by("turn_index").to_pylist()
    )


def _ingested(content: str, before: Row | None, after: Row | None, version: int) -> Ingested:
    """What became of a session with this content, from its manifest rows before and after."""
    if after is None or after["content_hash"] != content:
        return Ingested("pending", _ABSENT, version)
    same = before is not None and before["batch_id"] == after["batch_id"]
    counts = {name: int(str(after[name])) for name in _COUNTS}
    return Ingested("unchanged" if same else str(after["status"]), counts, version)
