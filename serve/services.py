"""What the API asks of the rest of the service, and how Ray Serve answers it.

Each call has a limit of time; where the replicas have more to do than they may queue, the answer is
503 with ``Retry-After`` at once. Refusals come back as values (:class:`~serve.errors.Problem`) and
are raised here.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

from ray.exceptions import RayActorError
from ray.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RequestCancelledError,
)
from ray.serve.handle import DeploymentHandle, DeploymentResponse

from glong.types import Generation, GenerationRequest
from serve.errors import Problem, ProblemError, overloaded, timed_out
from serve.metrics import scrape
from serve.records import (
    Answered,
    Changed,
    Document,
    FactChange,
    Forget,
    Ingested,
    Posted,
    Question,
)
from serve.routing import bucket_of
from serve.settings import ServeSettings

__all__ = ["NO_RESPONDER", "RayServices", "Services"]

R = TypeVar("R")
NO_RESPONDER = Problem(
    501, "no_responder", "This service has no language model that answers.",
    "Its operator adds a table [responder] to the TOML file that GLONG_MODELS names.",
)  # fmt: skip
_READY_S = 5.0


class Services(Protocol):
    """The rest of the service; every method raises :class:`~serve.errors.ProblemError`."""

    async def retrieve(self, question: Question) -> Answered:
        """The memories that answer best."""
        ...

    async def graph(self, tenant: str, dialogue_id: str) -> Document:
        """One memory as nodes and edges."""
        ...

    async def export(self, tenant: str, dialogue_id: str) -> Document:
        """All visible rows of one memory, by table."""
        ...

    async def dialogues(self, tenant: str, search: str, after: str, limit: int) -> Document:
        """A page of a tenant's dialogues."""
        ...

    async def sessions(self, tenant: str, dialogue_id: str, after: str, limit: int) -> Document:
        """A page of a dialogue's sessions."""
        ...

    async def post(self, posted: Posted) -> Ingested:
        """Commit a session."""
        ...

    async def forget(self, forget: Forget) -> Document:
        """Forget, with a receipt."""
        ...

    async def change_fact(self, change: FactChange) -> Changed:
        """State or correct a fact by hand."""
        ...

    async def generate(self, request: GenerationRequest) -> Generation:
        """Ask the language model."""
        ...

    def stream(self, request: GenerationRequest) -> AsyncIterator[Generation]:
        """Ask it, piece by piece."""
        ...

    async def not_ready(self) -> list[str]:
        """Names of the parts that do not work yet."""
        ...

    async def metrics(self) -> str:
        """Prometheus text."""
        ...


class RayServices:
    """The other deployments, through their handles."""

    def __init__(
        self,
        settings: ServeSettings,
        *,
        memories: DeploymentHandle[Any],
        writer: DeploymentHandle[Any],
        responder: DeploymentHandle[Any] | None,
    ) -> None:
        self._settings = settings
        self._memories = memories
        self._writer = writer
        self._responder = responder

    def _memory(self, tenant: str, dialogue_id: str) -> DeploymentHandle[Any]:
        """The replica that holds this memory, if one does."""
        return self._memories.options(
            multiplexed_model_id=bucket_of(tenant, dialogue_id, time.time())
        )

    async def _read(self, what: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """A read is asked again, once, where the replica that had it died."""
        try:
            return await answered(what, call(), self._settings.timeout_s)
        except ProblemError as error:
            if error.problem is not _LOST:
                raise
        return await answered(what, call(), self._settings.timeout_s)

    async def _write(self, what: str, response: Awaitable[Any]) -> Any:
        return await answered(what, response, self._settings.write_timeout_s)

    async def retrieve(self, question: Question) -> Answered:
        """The memories that answer best."""
        handle = self._memory(question.tenant, question.dialogue_id)
        found: Answered = await self._read(
            "search the memory", lambda: handle.retrieve.remote(question)
        )
        return found

    async def graph(self, tenant: str, dialogue_id: str) -> Document:
        """One memory as nodes and edges."""
        handle = self._memory(tenant, dialogue_id)
        graph: Document = await self._read(
            "read the memory", lambda: handle.graph.remote(tenant, dialogue_id)
        )
        return graph

    async def export(self, tenant: str, dialogue_id: str) -> Document:
        """All visible rows of one memory, by table."""
        rows: Document = await self._write(
            "export the memory", self._memories.export.remote(tenant, dialogue_id)
        )
        return rows

    async def dialogues(self, tenant: str, search: str, after: str, limit: int) -> Document:
        """A page of a tenant's dialogues."""
        page: Document = await self._read(
            "list the dialogues",
            lambda: self._memories.dialogues.remote(tenant, search, after, limit),
        )
        return page

    async def sessions(self, tenant: str, dialogue_id: str, after: str, limit: int) -> Document:
        """A page of a dialogue's sessions."""
        page: Document = await self._read(
            "list the sessions",
            lambda: self._memories.sessions.remote(tenant, dialogue_id, after, limit),
        )
        return page

    async def post(self, posted: Posted) -> Ingested:
        """Commit a session."""
        done: Ingested = await self._write("commit the session", self._writer.post.remote(posted))
        return done

    async def forget(self, forget: Forget) -> Document:
        """Forget, with a receipt."""
        receipt: Document = await self._write("forget it", self._writer.forget.remote(forget))
        return receipt

    async def change_fact(self, change: FactChange) -> Changed:
        """State or correct a fact by hand."""
        done: Changed = await self._write("store it", self._writer.change_fact.remote(change))
        return done

    async def generate(self, request: GenerationRequest) -> Generation:
        """Ask the language model."""
        if self._responder is None:
            raise ProblemError(NO_RESPONDER)
        written: Generation = await answered(
            "answer", self._responder.generate.remote(request), self._settings.respond_timeout_s
        )
        return written

    async def stream(self, request: GenerationRequest) -> AsyncIterator[Generation]:
        """Ask it, piece by piece."""
        if self._responder is None:
            raise ProblemError(NO_RESPONDER)
        limit_s = self._settings.respond_timeout_s
        streaming: Any = self._responder.options(stream=True)
        pieces: AsyncIterator[Any] = aiter(streaming.stream.remote(request))
        ends_s = asyncio.get_running_loop().time() + limit_s
        while True:
            left_s = ends_s - asyncio.get_running_loop().time()
            try:
                yield await answered("answer", anext(pieces), max(0.0, left_s), limit_s)
            except StopAsyncIteration:
                return

    async def not_ready(self) -> list[str]:
        """Names of the parts that do not work yet."""
        parts = {"memories": self._memories, "writer": self._writer}
        if self._responder is not None:
            parts["responder"] = self._responder
        checks = (answered("be ready", part.ready.remote(), _READY_S) for part in parts.values())
        results = await asyncio.gather(*checks, return_exceptions=True)
        return [name for name, ok in zip(parts, results, strict=True) if ok is not True]

    async def metrics(self) -> str:
        """Prometheus text."""
        return await scrape()


async def answered(
    what: str, response: Awaitable[R | Problem], left_s: float, limit_s: float | None = None
) -> R:
    """What a replica answered.

    Args:
        what: it was to do.
        response: of the replica.
        left_s: how long it may still take.
        limit_s: how long in all, if part of that is over.

    Raises:
        ProblemError: it refused, took too long, has too much to do, or died.
    """
    try:
        result = await asyncio.wait_for(_awaited(response), left_s)
    except TimeoutError as error:
        if isinstance(response, DeploymentResponse):
            # `wait_for` only stops waiting; what is accepted is written all the same.
            response.cancel()  # type: ignore[no-untyped-call]
        raise ProblemError(timed_out(what, limit_s or left_s)) from error
    except BackPressureError as error:
        raise ProblemError(overloaded(what)) from error
    except (RayActorError, DeploymentUnavailableError, RequestCancelledError) as error:
        raise ProblemError(_LOST) from error
    if isinstance(result, Problem):
        raise ProblemError(result)
    return result


_LOST = Problem(
    503, "replica_lost", "The replica that had this request stopped.",
    "Send the request again after Retry-After seconds.", 1.0,
)  # fmt: skip


async def _awaited(response: Awaitable[R]) -> R:
    return await response
