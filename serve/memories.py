"""The replicas that answer questions: a thin shell around the read side and the encoder.

What blocks runs in threads.
"""

import asyncio
import atexit
import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter

from ray import serve

from glong.config import EncoderSpec, load_models_config
from glong.errors import ModelError, StoreError
from glong.ids import dialogue_key
from glong.models.load import load_encoder
from glong.retrieval import query_text
from glong.store import Store
from glong.types import Retrieval
from serve.accesses import AccessBuffer, write_accesses
from serve.attempts import attempt, in_thread
from serve.batches import EncodingBatches
from serve.cache import LoadingCache
from serve.errors import Problem
from serve.logs import LOG, set_up
from serve.metrics import CacheMeters
from serve.reading import Held, Reader
from serve.records import Answered, Ask, Document, Question
from serve.routing import N_BUCKETS
from serve.settings import ServeSettings
from serve.warming import warm_reader, warm_search

__all__ = ["Memories", "encoder_spec"]

_N_LISTS = 2
"""Lists and exports at once: large ones take long, and must not keep questions from a thread."""
_SWEEPS = 5
"""How often caches are swept after a forgetting is seen: its marks come a moment before the commit,
and a memory that was loaded in between would stay."""


def encoder_spec(settings: ServeSettings) -> EncoderSpec:
    """The encoder as questions need it: an endpoint that is down is given up in good time.

    It is asked once: who asks the service is told when to come back, and a retry may have to wait
    for minutes, in the one thread that encodes.
    """
    spec = load_models_config(settings.models).encoder
    return replace(spec, timeout_s=min(spec.timeout_s, settings.timeout_s / 2), max_retries=0)


class Memories:
    """Graphs on demand: loaded once, kept while there is room, renewed after a commit.

    A replica encodes the questions to its own memories: one more hop between processes would cost
    more than a small encoder takes.
    """

    async def __init__(self, settings: ServeSettings) -> None:  # type: ignore[misc]
        set_up()
        self._settings = settings
        self._opened: Reader | None = None
        self._cache: LoadingCache[Held] = LoadingCache(
            settings.max_graphs, int(settings.max_graph_mb * 2**20)
        )
        self._accesses = AccessBuffer()
        self._meters = CacheMeters()
        self._forgotten_version = -1
        self._sweeps_left = 0
        self._flushing = asyncio.Lock()
        self._lists = ThreadPoolExecutor(_N_LISTS, thread_name_prefix="glong-lists")
        self._encoder = await asyncio.to_thread(load_encoder, encoder_spec(settings))
        self._batches = EncodingBatches(self._encoder.encode)
        await asyncio.to_thread(self._warm)
        self._upkeep = asyncio.create_task(self._keep_up())
        atexit.register(self._flush_at_exit)

    def _warm(self) -> None:
        warm_search()
        with contextlib.suppress(ModelError):  # an endpoint that is down now may be up later
            self._encoder.encode(["ready"])
        with contextlib.suppress(StoreError):  # the writer makes it, or `ready` says what is wrong
            warm_reader(self._reader())

    def _reader(self) -> Reader:
        """The store, which the writer makes where there is none.

        Raises:
            StoreNotFoundError: it is not there yet.
        """
        if self._opened is None:
            self._opened = Reader(Store.open(self._settings.store))
        return self._opened

    @serve.multiplexed(max_num_models_per_replica=N_BUCKETS)  # type: ignore[untyped-decorator]
    async def _sticky(self, bucket: str) -> str:
        """Ray then sends requests of this bucket here; the cache decides what is kept."""
        return bucket

    async def _stick(self) -> None:
        if routed := serve.get_multiplexed_model_id():
            await self._sticky(routed)

    async def _held(self, tenant: str, dialogue_id: str) -> Held:
        """The memory as of now.

        Raises:
            NotFoundError: the tenant has no such dialogue.
        """
        reader = await asyncio.to_thread(self._reader)
        stamp = await asyncio.to_thread(reader.stamp)

        async def load(held: Held | None) -> Held:
            loaded = await asyncio.to_thread(reader.load, tenant, dialogue_id, held)
            self._meters.loaded(loaded.load_s)
            return loaded

        return await self._cache.get(dialogue_key(tenant, dialogue_id), stamp, load)

    async def retrieve(self, question: Question) -> Answered | Problem:
        """The memories that answer a question; noted as accessed."""
        return await attempt(self._retrieve(question))

    async def _retrieve(self, question: Question) -> Answered:
        await self._stick()
        began_s = perf_counter()
        vector = await self._batches.encode(query_text(question.query, question.recent))
        encode_ms = 1000 * (perf_counter() - began_s)
        ask = Ask(question=question, vector=vector, now=question.now or datetime.now(UTC))
        found = await self._searched(ask)
        return replace(found, timings_ms={"encode": encode_ms, **found.timings_ms})

    async def _searched(self, ask: Ask) -> Answered:
        question = ask.question
        key = dialogue_key(question.tenant, question.dialogue_id)
        held = self._cache.peek(key)
        # One thread for a memory that is here, from the check of its age to the hits.
        found = await asyncio.to_thread(self._answer_held, held, ask)
        if held is None or found is None:
            began_s = perf_counter()
            held = await self._held(question.tenant, question.dialogue_id)
            graph_s = perf_counter() - began_s
            found = await asyncio.to_thread(Reader.answered, held, ask, graph_s)
        else:
            self._cache.used(key)
        await self._note(found.retrieval, ask)
        return found

    def _answer_held(self, held: Held | None, ask: Ask) -> Answered | None:
        return self._reader().answer_held(held, ask)

    async def _note(self, retrieval: Retrieval, ask: Ask) -> None:
        """The triplets of the hits were accessed."""
        question = ask.question
        used = [edge.edge_id for hit in retrieval.hits for edge in hit.edges]
        self._accesses.add(question.tenant, question.dialogue_id, used, ask.now)
        key = dialogue_key(question.tenant, question.dialogue_id)
        # The next score of this profile depends on it; another may touch the memory meanwhile.
        while question.profile == "paper" and used and (held := self._cache.peek(key)):
            touched = await asyncio.to_thread(self._reader().touched, held, retrieval, ask.now)
            if self._cache.swap(key, held, touched):
                break

    async def graph(self, tenant: str, dialogue_id: str) -> Document | Problem:
        """One memory as nodes and edges."""

        async def read() -> Document:
            await self._stick()
            held = await self._held(tenant, dialogue_id)
            return await asyncio.to_thread(self._reader().graph, dialogue_id, held)

        return await attempt(read())

    async def export(self, tenant: str, dialogue_id: str) -> Document | Problem:
        """All visible rows of one memory."""
        return await in_thread(
            self._lists, lambda: self._reader().store.export_dialogue(tenant, dialogue_id)
        )

    async def dialogues(
        self, tenant: str, search: str, after: str, limit: int
    ) -> Document | Problem:
        """A page of a tenant's dialogues."""
        return await in_thread(
            self._lists, lambda: self._reader().dialogues(tenant, search, after, limit)
        )

    async def sessions(
        self, tenant: str, dialogue_id: str, after: str, limit: int
    ) -> Document | Problem:
        """A page of a dialogue's sessions."""
        return await in_thread(
            self._lists, lambda: self._reader().sessions(tenant, dialogue_id, after, limit)
        )

    async def ready(self) -> bool | Problem:
        """Whether the store can be read."""

        def check() -> bool:
            return self._reader().stamp() >= (0,)

        return await in_thread(None, check)

    async def _keep_up(self) -> None:
        """Now and then: let go of what was forgotten, write accesses, report."""
        while True:
            await asyncio.sleep(self._settings.flush_s)
            for work in (self._sweep, self._flush):
                try:
                    await asyncio.shield(work())
                except Exception as error:  # a store that cannot be read now, or a bug: not the end
                    fields = {"error": type(error).__name__, "accesses": len(self._accesses)}
                    LOG.warning("upkeep_put_off", extra={"fields": fields})
            counts = self._cache.counts
            seen = {"hit": counts.hits, "miss": counts.misses, "refresh": counts.refreshes}
            self._meters.report(seen, len(self._cache), counts.nbytes)

    async def _sweep(self) -> None:
        """After a forgetting anywhere: drop the memories that it may concern."""
        if self._opened is None:
            return
        reader, store = self._opened, self._opened.store
        version = await asyncio.to_thread(lambda: int(store.layout.dataset("forgotten").version))
        if version != self._forgotten_version:
            self._sweeps_left = _SWEEPS
        if not self._sweeps_left:
            return
        forgotten = await asyncio.to_thread(store.forgotten)
        touched = {k: self._cache.peek(k) for k in filter(forgotten.touches, self._cache.held())}
        self._cache.drop(await asyncio.to_thread(reader.changed, touched))
        self._forgotten_version = version
        self._sweeps_left -= 1

    async def _flush(self) -> None:
        async with self._flushing:  # a stop waits for the flush that runs: it may put rows back
            if self._opened is None or not len(self._accesses):
                return
            rows = self._accesses.take()
            try:
                n = await asyncio.to_thread(write_accesses, self._opened.store, rows)
            except Exception:
                self._accesses.put_back(rows)
                raise
            self._meters.accesses_written(n)

    def _flush_at_exit(self) -> None:
        """A process that is told to end (SIGTERM) writes what is left; Ray calls no `__del__`."""
        if self._opened is not None and len(self._accesses):
            write_accesses(self._opened.store, self._accesses.take())

    async def __del__(self) -> None:
        """Ray may call and await this when it stops a replica, but kills it after 20 seconds."""
        self._upkeep.cancel()
        with contextlib.suppress(StoreError):
            await self._flush()
