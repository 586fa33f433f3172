"""What runs in the replicas: thin shells around the read side, the write side and the models.

What blocks runs in threads. Refusals are returned, not raised: Ray logs what a replica raises, and
such messages can name people's words.
"""

import asyncio
import atexit
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from time import perf_counter
from typing import ParamSpec, TypeVar

from ray import serve

from glong.build import Models
from glong.config import load_models_config
from glong.errors import GlongError, ModelError, StoreError
from glong.ids import dialogue_key
from glong.memory import Memory, store_meta
from glong.models.load import load_encoder, load_responder, load_scorer
from glong.protocols import StreamingGenerator
from glong.store import Store
from glong.types import Generation, GenerationRequest, Retrieval, Vectors
from serve.accesses import AccessBuffer, write_accesses
from serve.cache import LoadingCache
from serve.errors import Problem, ProblemError, problem_of
from serve.logs import LOG, set_up
from serve.metrics import CacheMeters, WriteMeters
from serve.reading import Held, Reader
from serve.records import Answered, Ask, Changed, Document, FactChange, Forget, Ingested, Posted
from serve.reuse import reusing_extractor
from serve.settings import ServeSettings
from serve.warming import warm_reader, warm_search
from serve.writing import LiveWriter, wait_for_purge

__all__ = ["Encoder", "Memories", "Responder", "Writer", "attempt", "changed"]

P = ParamSpec("P")
R = TypeVar("R")

MAX_STICKY = 4_000
"""Memories that a replica is known for to the router; at least as many as it keeps in its cache."""


async def attempt(work: Awaitable[R]) -> R | Problem:
    """The result, or why there is none."""
    try:
        return await work
    except ProblemError as error:
        return error.problem
    except GlongError as error:
        problem = problem_of(error)
        if problem.status >= 500:
            LOG.warning("refused", extra={"fields": {"type": problem.type}})
        return problem


async def in_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | Problem:
    """The same of something that blocks."""
    return await attempt(asyncio.to_thread(work, *args, **kwargs))


class Memories:
    """Graphs on demand: loaded once, kept while there is room, renewed after a commit."""

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
        await asyncio.to_thread(self._warm)
        self._upkeep = asyncio.create_task(self._keep_up())
        atexit.register(self._flush_at_exit)

    def _warm(self) -> None:
        warm_search()
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

    async def retrieve(self, ask: Ask) -> Answered | Problem:
        """The memories that answer a question; noted as accessed."""
        return await attempt(self._retrieve(ask))

    async def _retrieve(self, ask: Ask) -> Answered:
        question = ask.question
        key = dialogue_key(question.tenant, question.dialogue_id)
        await self._stick()
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


class Encoder:
    """Queries that come together are encoded together."""

    def __init__(self, settings: ServeSettings) -> None:
        set_up()
        self._encoder = load_encoder(load_models_config(settings.models).encoder)
        with contextlib.suppress(ModelError):  # an endpoint that is down now may be up later
            self._encoder.encode(["ready"])

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.002)
    async def _encode(self, texts: Sequence[str]) -> list[Vectors | Problem]:
        vectors = await in_thread(self._encoder.encode, texts)
        return [vectors] * len(texts) if isinstance(vectors, Problem) else list(vectors)

    async def encode(self, text: str) -> Vectors | Problem:
        """The vector of one text, shape (d,)."""
        vector: Vectors | Problem = await self._encode(text)
        return vector

    async def ready(self) -> bool:
        """The model is loaded, else the replica would not be there."""
        return True


class Writer:
    """Live sessions become waves; facts by hand and forgetting go the same way, in order."""

    async def __init__(self, settings: ServeSettings) -> None:  # type: ignore[misc]
        set_up()
        config = load_models_config(settings.models)
        self._extractor = reusing_extractor(config)
        models = Models(self._extractor, load_scorer(config.scorer), load_encoder(config.encoder))
        store = Store.create_or_open(settings.store, store_meta(models))
        self._live = LiveWriter(
            store,
            models,
            window_s=settings.merge_window_s,
            wave_sessions=settings.wave_sessions,
            max_waiting=settings.max_waiting,
        )
        self._meters = WriteMeters()
        self._upkeep = asyncio.create_task(self._keep_up(settings.upkeep_s))

    async def _keep_up(self, every_s: float) -> None:
        """What a wave does after itself, for the accesses that come in where nobody posts."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self._live.alone(self._live.store.routine)
            except StoreError as error:
                LOG.warning("upkeep_failed", extra={"fields": {"error": type(error).__name__}})

    def _memory(self, tenant: str) -> Memory:
        wait_for_purge(self._live.store)
        return Memory(self._live.store, tenant, self._live.models)

    async def post(self, posted: Posted) -> Ingested | Problem:
        """Commit a session; visible when this returns."""
        began_s = perf_counter()
        done = await self._live.post(posted)
        if isinstance(done, Ingested):
            counts = done.counts
            self._meters.ingested(
                done.status, perf_counter() - began_s, counts["n_triplets"], counts["n_failures"]
            )
        return done

    async def forget(self, forget: Forget) -> Document | Problem:
        """Forget; what was kept of extractions goes too."""

        def work() -> Document:
            values = asdict(forget)
            memory = self._memory(values.pop("tenant"))
            receipt = asdict(memory.forget(values.pop("dialogue_id"), **values))
            if clear := getattr(self._extractor, "clear", None):
                clear()
            return receipt

        return await attempt(self._live.alone(work))

    async def change_fact(self, change: FactChange) -> Changed | Problem:
        """State or correct a fact by hand."""

        def work() -> Changed:
            memory = self._memory(change.tenant)
            edge_id = changed(memory, change)
            return Changed(edge_id, memory.store.version)

        return await attempt(self._live.alone(work))

    async def ready(self) -> bool:
        """Models are loaded and the store is open, else the replica would not be there."""
        return True

    async def __del__(self) -> None:
        """No session that was taken is lost when the replica is told to stop."""
        self._upkeep.cancel()
        await self._live.drain()


def changed(memory: Memory, change: FactChange) -> str:
    """Carry out a change by hand; the id of the edge that states the fact then."""
    if change.edge_id is not None:
        parts = {name: getattr(change, name) for name in ("subject", "relation", "object")}
        return memory.correct(change.dialogue_id, change.edge_id, **parts)
    return memory.add_fact(
        change.dialogue_id,
        change.subject or "",
        change.relation or "",
        change.object or "",
        time=change.time,
        session_id=change.session_id,
    )


class Responder:
    """The language model that answers: an endpoint, several requests at once; or a local one."""

    def __init__(self, settings: ServeSettings) -> None:
        set_up()
        self._spec = load_models_config(settings.models).responder
        self._generator = load_responder(self._spec)
        many = self._spec.backend in ("openai", "fake")
        self._free = asyncio.Semaphore(self._spec.max_concurrency if many else 1)

    def _bounded(self, request: GenerationRequest) -> GenerationRequest:
        return replace(request, max_tokens=min(request.max_tokens, self._spec.max_tokens))

    async def generate(self, request: GenerationRequest) -> Generation | Problem:
        """Answer one request."""
        async with self._free:
            results = await in_thread(self._generator.generate, [self._bounded(request)])
        return results if isinstance(results, Problem) else results[0]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[Generation | Problem]:
        """Answer it piece by piece; whole where the model cannot do that."""
        if not isinstance(self._generator, StreamingGenerator):
            yield await self.generate(request)
            return
        async with self._free:
            pieces = self._generator.stream(self._bounded(request))
            while (piece := await in_thread(next, pieces, None)) is not None:
                yield piece

    async def ready(self) -> bool:
        """The model is loaded, else the replica would not be there."""
        return True
