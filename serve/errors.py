"""Every error as ``{"error": {"type", "message", "hint", "request_id"}}`` with the right status.

A :class:`Problem` is a value, so that it can travel between replicas without a traceback: what
glong raises often names a person's text or the store's place, which belong in no log and no
answer. Knows nothing of Ray.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glong.errors import (
    ConfigError,
    ConflictError,
    GlongError,
    ModelError,
    NotFoundError,
    SchemaError,
    SourceError,
    StoreError,
)

__all__ = [
    "INTERNAL",
    "NOT_FOUND",
    "Problem",
    "ProblemError",
    "document",
    "headers_of",
    "http_problem",
    "invalid",
    "overloaded",
    "problem_of",
    "timed_out",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request was not answered.

    Attributes:
        status: of HTTP.
        type: a short snake_case word to branch on.
        message: what was wrong and what is allowed.
        hint: what to do.
        retry_after_s: when to try again; 0 where that would not help.
    """

    status: int
    type: str
    message: str
    hint: str = ""
    retry_after_s: float = 0.0


class ProblemError(Exception):
    """Ends a request with a :class:`Problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.type)
        self.problem = problem


NOT_FOUND = Problem(
    404, "not_found", "There is no such dialogue, session, turn, edge or entity.",
    "Check the ids; a memory is there once its first session was posted.",
)  # fmt: skip
"""The same for what never was, what was forgotten, and what another tenant has."""


INTERNAL = Problem(500, "internal", "The service failed.", "Tell its operator the request_id.")


def overloaded(what: str, retry_after_s: float = 1.0, status: int = 503) -> Problem:
    """Work is refused rather than queued without bound."""
    message = f"The service has as much to {what} as it can hold."
    hint = "Send the request again after Retry-After seconds."
    return Problem(status, "overloaded", message, hint, retry_after_s)


def timed_out(what: str, limit_s: float) -> Problem:
    """Took longer than allowed."""
    message = f"The service did not {what} within {limit_s:g} s."
    hint = "Send the request again after Retry-After seconds; posts of sessions are idempotent."
    return Problem(503, "timeout", message, hint, 1.0)


def problem_of(error: GlongError) -> Problem:
    """What a client is told of an error of the core; never its text where that could name data."""
    match error:
        case NotFoundError():
            return NOT_FOUND
        case ConfigError() | SourceError():
            return Problem(422, "invalid_input", str(error), "Correct the request.")
        case ModelError() if error.retryable:
            message, hint = "A model of the service is unavailable for now.", "Try again later."
            return Problem(503, "model_unavailable", message, hint, 5.0)
        case ModelError():
            message = "A model of the service failed."
            hint = "Tell its operator; `glong doctor` shows which model and why."
            return Problem(502, "model_failed", message, hint)
        case ConflictError():
            message = "Other writers were faster every time."
            return Problem(503, "conflict", message, "Send the request again.", 1.0)
        case SchemaError():
            message = "The store was made with another encoder or format."
            hint = "Tell the service's operator: GLONG_MODELS and GLONG_STORE do not fit."
            return Problem(500, "store_mismatch", message, hint)
        case StoreError():
            message = "The store cannot be read or written for now."
            return Problem(503, "store_unavailable", message, "Try again later.", 5.0)
    return INTERNAL


_HINTS: Mapping[int, tuple[str, str]] = {
    404: ("not_found", "See /docs for the paths."),
    405: ("method_not_allowed", "See /docs for the methods of this path."),
    413: ("too_large", "Send less at once: split a session, or shorten its turns."),
    415: ("unsupported_media_type", "Send JSON with Content-Type: application/json."),
}


def http_problem(status: int, detail: object) -> Problem:
    """An error of the web framework, which has 400 for a body that is no text at all."""
    if status == 400:
        return invalid([{"msg": "not JSON in UTF-8"}])
    kind, hint = _HINTS.get(status, ("http_error", "See /docs."))
    return Problem(status, kind, f"{detail}.".replace("..", "."), hint)


def invalid(errors: Sequence[Mapping[str, Any]]) -> Problem:
    """Input that a schema refuses; says where and why, not what was sent."""
    places = []
    for error in errors[:5]:
        where = ".".join(str(part) for part in error.get("loc", ()) if part != "body")
        places.append(f"{where or 'body'}: {error.get('msg', 'not valid')}")
    more = f" (and {len(errors) - 5} more)" if len(errors) > 5 else ""
    hint = "Correct the request; /docs and /openapi.json show every field with its bounds."
    return Problem(422, "invalid_input", "; ".join(places) + more + ".", hint)


def document(problem: Problem, request_id: str) -> dict[str, dict[str, str]]:
    """The body of an error."""
    return {
        "error": {
            "type": problem.type,
            "message": problem.message,
            "hint": problem.hint,
            "request_id": request_id,
        }
    }


def headers_of(problem: Problem) -> dict[str, str]:
    """Headers that come with an error."""
    headers = {}
    if problem.retry_after_s:
        headers["Retry-After"] = str(math.ceil(problem.retry_after_s))
    if problem.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="glong", Basic realm="glong"'
    return headers
