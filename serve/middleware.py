"""Around every request: its id, who asks, its size, its log line, and the answer to a bug.

Plain ASGI, so that streamed answers stay streams. The one place that catches every exception.
"""

import re
import uuid
from collections.abc import Callable
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve.auth import OPEN_PATHS, Keys, Peer
from serve.errors import INTERNAL, Problem, ProblemError, document, headers_of
from serve.logs import LOG, frames
from serve.pages import is_page
from serve.schemas import MAX_BODY_BYTES

__all__ = ["Observe", "RequestMiddleware", "problem_response"]

Observe = Callable[[str, str, int, float], None]
"""Route, method, status, seconds."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TOO_LARGE = f"The body is larger than {MAX_BODY_BYTES // 2**20} MB"


def problem_response(problem: Problem, request_id: str) -> JSONResponse:
    """An error as a response."""
    return JSONResponse(document(problem, request_id), problem.status, headers_of(problem))


class RequestMiddleware:
    """See the module.

    Args:
        app: the routes.
        keys: who may ask.
        observe: counts the request.
        names_request: send the request's id as a header; Ray Serve's proxy does that by itself.
    """

    def __init__(
        self, app: ASGIApp, keys: Keys, observe: Observe, names_request: bool = True
    ) -> None:
        self._app = app
        self._keys = keys
        self._observe = observe
        self._names_request = names_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = perf_counter()
        headers = Headers(scope=scope)
        request_id = _request_id(headers)
        answer = _Answer(send, request_id, self._names_request)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        try:
            if not self._is_open(scope["path"]):
                state["tenant"] = self._keys.tenant_of(_peer(scope, headers))
            await self._app(scope, _Bounded(receive, headers), answer)
        except ProblemError as error:
            await answer.end(error.problem, scope, receive)
        except Exception as error:  # a bug: the client gets an id, the log where it happened
            fields = {"request_id": request_id, "error": type(error).__name__}
            LOG.error("request_failed", extra={"fields": {**fields, "frames": frames(error)}})
            await answer.end(INTERNAL, scope, receive)
        self._note(scope, answer.status, perf_counter() - began_s)

    def _is_open(self, path: str) -> bool:
        """Whether all may ask; the viewer's files too where a key then lets its user on."""
        return path in OPEN_PATHS or (bool(self._keys.entries) and is_page(path))

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "") or "(none)"
        state = scope["state"]
        self._observe(route, scope["method"], status, seconds)
        fields = {
            "request_id": state["request_id"],
            "tenant": state.get("tenant", ""),
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 1),
        }
        if status == 403 and not self._keys.entries:
            fields["why"] = "no keys are configured and the peer is not loopback"
        LOG.info("request", extra={"fields": fields})


class _Answer:
    """Sends, with the request's id in the headers, and remembers the status."""

    def __init__(self, send: Send, request_id: str, names_request: bool) -> None:
        self._send = send
        self._request_id = request_id
        self._names_request = names_request
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            if self._names_request:
                headers["X-Request-Id"] = self._request_id
            headers["X-Content-Type-Options"] = "nosniff"
        await self._send(message)

    async def end(self, problem: Problem, scope: Scope, receive: Receive) -> None:
        """Answer with a problem, unless an answer has begun: then the stream just ends."""
        if not self.status:
            await problem_response(problem, self._request_id)(scope, receive, self)


class _Bounded:
    """Receives a body up to the limit."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        self._receive = receive
        length = headers.get("content-length", "")
        self._announced = int(length) if length.isdecimal() else 0
        self._n_bytes = 0

    async def __call__(self) -> Message:
        message: Message = await self._receive()
        if message["type"] == "http.request":
            self._n_bytes += len(message.get("body", b""))
            if max(self._n_bytes, self._announced) > MAX_BODY_BYTES:
                raise HTTPException(413, _TOO_LARGE)
        return message


def _request_id(headers: Headers) -> str:
    """The client's own, if it is harmless; else a fresh one."""
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _peer(scope: Scope, headers: Headers) -> Peer:
    client = scope.get("client")
    return Peer(
        host=client[0] if client else "",
        authorization=headers.get("authorization", ""),
        named=headers.get("host", ""),
    )
