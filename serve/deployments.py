"""The replicas that write and that generate: thin shells around the write side and the models.

What blocks runs in threads.
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from time import perf_counter

from glong.build import Models
from glong.config import load_models_config
from glong.memory import Memory, store_meta
from glong.models.load import load_encoder, load_responder, load_scorer
from glong.protocols import StreamingGenerator
from glong.store import Store
from glong.types import Generation, GenerationRequest
from serve.attempts import attempt, in_thread
from serve.errors import Problem
from serve.logs import LOG, set_up
from serve.metrics import WriteMeters
from serve.records import Changed, Document, FactChange, Forget, Ingested, Posted
from serve.reuse import reusing_extractor
from serve.settings import ServeSettings
from serve.writing import LiveWriter, wait_for_purge

__all__ = ["Responder", "Writer", "changed"]


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
        self._forgotten_version = -1
        self._upkeep = asyncio.create_task(self._keep_up(settings.upkeep_s))

    async def _keep_up(self, every_s: float) -> None:
        """What a wave does after itself, for the accesses that come in where nobody posts."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self._live.alone(self._forgotten_elsewhere)
                await self._live.alone(self._live.store.routine)
            except Exception as error:  # a store that cannot be read now, or a bug: not the end
                LOG.warning("upkeep_failed", extra={"fields": {"error": type(error).__name__}})

    def _forgotten_elsewhere(self) -> None:
        version = int(self._live.store.layout.dataset("forgotten").version)
        if version != self._forgotten_version:
            self._forget_words()
        self._forgotten_version = version

    def _forget_words(self) -> None:
        """What is kept of extractions are people's words."""
        if clear := getattr(self._extractor, "clear", None):
            clear()

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
            try:
                return asdict(memory.forget(values.pop("dialogue_id"), **values))
            finally:
                self._forget_words()

        return await attempt(self._live.alone(work))

    async def change_fact(self, change: FactChange) -> Changed | Problem:
        """State or correct a fact by hand."""

        def work() -> Changed:
            memory = self._memory(change.tenant)
            try:
                edge_id = changed(memory, change)
            finally:
                if change.edge_id is not None:  # what is corrected is forgotten
                    self._forget_words()
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
        at_once = self._spec.max_concurrency if self._spec.backend in ("openai", "fake") else 1
        self._free = asyncio.Semaphore(at_once)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="glong-responder")

    def _bounded(self, request: GenerationRequest) -> GenerationRequest:
        return replace(request, max_tokens=min(request.max_tokens, self._spec.max_tokens))

    async def generate(self, request: GenerationRequest) -> Generation | Problem:
        """Answer one request."""
        async with self._free:
            asked = [self._bounded(request)]
            results = await in_thread(self._threads, self._generator.generate, asked)
        return results if isinstance(results, Problem) else results[0]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[Generation | Problem]:
        """Answer it piece by piece; whole where the model cannot do that."""
        if not isinstance(self._generator, StreamingGenerator):
            yield await self.generate(request)
            return
        async with self._free:
            pieces = self._generator.stream(self._bounded(request))
            while (piece := await in_thread(self._threads, next, pieces, None)) is not None:
                yield piece

    async def ready(self) -> bool:
        """The model is loaded, else the replica would not be there."""
        return True
