"""The replicas that answer questions: a thin shell around the read side and the encoder.

What blocks runs in threads.
"""

import asyncio
import atexit
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter

from ray import serve

from glong.config import load_models_config
from glong.errors import ModelError, StoreError
from glong.ids import dialogue_key
from glong.models.load import load_encoder
from glong.retrieval import query_text
from glong.store import Store
from glong.types import Retrieval, Vectors
from serve.accesses import AccessBuffer, write_accesses
from serve.attempts import attempt, in_thread
from serve.cache import LoadingCache
from serve.errors import Problem, ProblemError
from serve.logs import LOG, set_up
from serve.metrics import CacheMeters
from serve.reading import Held, Reader
from serve.records import Answered, Ask, Document, Question
from serve.settings import ServeSettings
from serve.warming import warm_reader, warm_search

__all__ = ["Memories"]

MAX_STICKY = 4_000
"""Memories that a replica is known for to the router; at least as many as it keeps in its cache."""


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
        self._encoder = await asyncio.to_thread(
            load_encoder, load_models_config(settings.models).encoder
        )
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

    @serve.multiplexed(max_num_models_per_replica=MAX_STICKY)  # type: ignore[untyped-decorator]
    async def _sticky(self, key: str) -> str:
        """Ray then sends this memory's requests here; the cache below decides what is kept."""
        return key

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

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.0)
    async def _encode(self, texts: Sequence[str]) -> list[Vectors | Problem]:
        """What comes while one batch is encoded is the next one; nothing waits for company."""
        vectors = await in_thread(self._encoder.encode, texts)
        return [vectors] * len(texts) if isinstance(vectors, Problem) else list(vectors)

    async def retrieve(self, question: Question) -> Answered | Problem:
        """The memories that answer a question; noted as accessed."""
        return await attempt(self._retrieve(question))

    async def _retrieve(self, question: Question) -> Answered:
        await self._stick()
        began_s = perf_counter()
        vector = await self._encode(query_text(question.query, question.recent))
        if isinstance(vector, Problem):
            raise ProblemError(vector)
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
        await self._note(found.retrieval, held, ask)
        return found

    def _answer_held(self, held: Held | None, ask: Ask) -> Answered | None:
        return self._reader().answer_held(held, ask)

    async def _note(self, retrieval: Retrieval, held: Held, ask: Ask) -> None:
        """The triplets of the hits were accessed."""
        question = ask.question
        used = [edge.edge_id for hit in retrieval.hits for edge in hit.edges]
        self._accesses.add(question.tenant, question.dialogue_id, used, ask.now)
        if question.profile == "paper" and used:  # whose next score depends on it
            touched = await asyncio.to_thread(self._reader().touched, held, retrieval, ask.now)
            self._cache.swap(dialogue_key(question.tenant, question.dialogue_id), held, touched)

    async def graph(self, tenant: str, dialogue_id: str) -> Document | Problem:
        """One memory as nodes and edges."""

        async def read() -> Document:
            await self._stick()
            held = await self._held(tenant, dialogue_id)
            return await asyncio.to_thread(self._reader().graph, dialogue_id, held)

        return await attempt(read())

    async def export(self, tenant: str, dialogue_id: str) -> Document | Problem:
        """All visible rows of one memory."""
        return await in_thread(lambda: self._reader().store.export_dialogue(tenant, dialogue_id))

    async def dialogues(
        self, tenant: str, search: str, after: str, limit: int
    ) -> Document | Problem:
        """A page of a tenant's dialogues."""
        return await in_thread(lambda: self._reader().dialogues(tenant, search, after, limit))

    async def sessions(
        self, tenant: str, dialogue_id: str, after: str, limit: int
    ) -> Document | Problem:
        """A page of a dialogue's sessions."""
        return await in_thread(lambda: self._reader().sessions(tenant, dialogue_id, after, limit))

    async def ready(self) -> bool | Problem:
        """Whether the store can be read."""

        def check() -> bool:
            return self._reader().stamp() >= (0,)

        return await in_thread(check)

    async def _keep_up(self) -> None:
        """Now and then: let go of what was forgotten, write accesses, report."""
        while True:
            await asyncio.sleep(self._settings.flush_s)
            try:
                await self._sweep()
                await self._flush()
            except StoreError as error:
                fields = {"error": type(error).__name__, "accesses": len(self._accesses)}
                LOG.warning("upkeep_put_off", extra={"fields": fields})
            counts = self._cache.counts
            seen = {"hit": counts.hits, "miss": counts.misses, "refresh": counts.refreshes}
            self._meters.report(seen, len(self._cache), counts.nbytes)

    async def _sweep(self) -> None:
        """After a forgetting anywhere: drop the memories that it may concern."""
        if self._opened is None:
            return
        store = self._opened.store
        version = await asyncio.to_thread(lambda: int(store.layout.dataset("forgotten").version))
        if version == self._forgotten_version:
            return
        forgotten = await asyncio.to_thread(store.forgotten)
        self._cache.drop(filter(forgotten.touches, self._cache.held()))
        self._accesses.drop(forgotten.touches)
        self._forgotten_version = version

    async def _flush(self) -> None:
        if self._opened is None or not len(self._accesses):
            return
        rows = self._accesses.take()
        try:
            n = await asyncio.to_thread(write_accesses, self._opened.store, rows)
        except StoreError:
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
