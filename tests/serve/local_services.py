"""The service in this process, without Ray: the same cores behind the same routes.

That Ray Serve connects them in the same way is tested in ``test_service.py``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TypeVar

from glong.build import Models
from glong.config import FAKE_MODELS
from glong.ids import dialogue_key
from glong.memory import Memory, store_meta
from glong.models.fake import FakeResponder
from glong.models.load import load_models
from glong.protocols import Generator, StreamingGenerator
from glong.retrieval import query_text
from glong.store import Store
from glong.types import Generation, GenerationRequest
from serve.accesses import AccessBuffer
from serve.attempts import attempt
from serve.cache import LoadingCache
from serve.deployments import changed
from serve.errors import Problem, ProblemError
from serve.reading import Held, Reader
from serve.records import (
    Answered,
    Ask,
    Changed,
    Document,
    FactChange,
    Forget,
    Ingested,
    Posted,
    Question,
)
from serve.writing import LiveWriter

R = TypeVar("R")


class LocalServices:
    """As :class:`serve.services.RayServices`."""

    def __init__(self, uri: str, generator: Generator | None = None) -> None:
        self.models: Models = load_models(FAKE_MODELS)
        self.store = Store.create_or_open(uri, store_meta(self.models))
        self.reader = Reader(self.store)
        self.cache: LoadingCache[Held] = LoadingCache(100, 2**30)
        self.accesses = AccessBuffer()
        self.writer = LiveWriter(
            self.store, self.models, window_s=0.0, wave_sessions=16, max_waiting=16
        )
        self.generator: Any = generator or FakeResponder()
        self.down: list[str] = []

    async def _held(self, tenant: str, dialogue_id: str) -> Held:
        async def load(held: Held | None) -> Held:
            return await asyncio.to_thread(self.reader.load, tenant, dialogue_id, held)

        return await self.cache.get(dialogue_key(tenant, dialogue_id), self.reader.stamp(), load)

    async def retrieve(self, question: Question) -> Answered:
        vector = self.models.encoder.encode([query_text(question.query, question.recent)])[0]
        ask = Ask(question=question, vector=vector, now=question.now or datetime.now(UTC))

        async def work() -> Answered:
            held = await self._held(question.tenant, question.dialogue_id)
            factors = self.reader.factors(held, question.profile)
            return Answered(self.reader.answer(held, ask), {"search": 0.0}, factors)

        return await raised(work())

    async def graph(self, tenant: str, dialogue_id: str) -> Document:
        async def work() -> Document:
            return self.reader.graph(dialogue_id, await self._held(tenant, dialogue_id))

        return await raised(work())

    async def export(self, tenant: str, dialogue_id: str) -> Document:
        return await raised(asyncio.to_thread(self.store.export_dialogue, tenant, dialogue_id))

    async def dialogues(self, tenant: str, search: str, after: str, limit: int) -> Document:
        return await raised(asyncio.to_thread(self.reader.dialogues, tenant, search, after, limit))

    async def sessions(self, tenant: str, dialogue_id: str, after: str, limit: int) -> Document:
        return await raised(
            asyncio.to_thread(self.reader.sessions, tenant, dialogue_id, after, limit)
        )

    async def post(self, posted: Posted) -> Ingested:
        return await raised(self.writer.post(posted))

    async def forget(self, forget: Forget) -> Document:
        def work() -> Document:
            values = asdict(forget)
            memory = Memory(self.store, values.pop("tenant"), self.models)
            return asdict(memory.forget(values.pop("dialogue_id"), **values))

        return await raised(self.writer.alone(work))

    async def change_fact(self, change: FactChange) -> Changed:
        def work() -> Changed:
            memory = Memory(self.store, change.tenant, self.models)
            return Changed(changed(memory, change), self.store.version)

        return await raised(self.writer.alone(work))

    async def generate(self, request: GenerationRequest) -> Generation:
        (generation,) = self.generator.generate([request])
        return generation  # type: ignore[no-any-return]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[Generation]:
        if not isinstance(self.generator, StreamingGenerator):
            yield await self.generate(request)
            return
        for piece in self.generator.stream(request):
            yield piece

    async def not_ready(self) -> list[str]:
        return self.down

    async def metrics(self) -> str:
        return "glong_requests_total 1.0\n"


async def raised(work: Awaitable[R]) -> R:
    """The result; a refusal is raised."""
    result = await attempt(work)
    if isinstance(result, Problem):
        raise ProblemError(result)
    return result
