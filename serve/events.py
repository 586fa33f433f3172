"""Server-sent events from the pieces of an answer."""

import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse

from glong.errors import ModelError
from glong.types import Generation
from serve.errors import ProblemError, problem_of

__all__ = ["checked", "event", "event_stream", "started"]


def event(data: Any, name: str = "") -> str:
    """One event; ``data`` as JSON on one line."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False, default=_rfc3339)}\n\n"


def _rfc3339(value: Any) -> str:
    text: str = value.isoformat()
    return text.replace("+00:00", "Z")


def checked(generation: Generation) -> Generation:
    """The generation, if it is one.

    Raises:
        ProblemError: this request failed at the model.
    """
    if failure := generation.failure:
        error = ModelError(failure.message, retryable=failure.transient)
        raise ProblemError(problem_of(error))
    return generation


async def started(pieces: AsyncIterator[Generation]) -> AsyncIterator[Generation]:
    """The same pieces once the first is there, so that a model that is down is an HTTP error."""
    first = checked(await anext(pieces))

    async def all_of_them() -> AsyncIterator[Generation]:
        yield first
        async for piece in pieces:
            yield checked(piece)

    return all_of_them()


def event_stream(events: AsyncIterator[str]) -> StreamingResponse:
    """A response that proxies neither hold back nor keep."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
