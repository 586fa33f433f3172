import pickle

import pytest

from glong.errors import (
    ConfigError,
    ConflictError,
    GlongError,
    ModelError,
    NotFoundError,
    SchemaError,
    SourceError,
    StoreError,
    StoreNotFoundError,
)
from serve.errors import NOT_FOUND, document, headers_of, invalid, overloaded, problem_of

SECRET = "Mira has a greyhound in /home/x"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFoundError(SECRET), 404), (StoreNotFoundError(SECRET), 404),
        (ModelError(SECRET, retryable=True), 503), (ModelError(SECRET), 502),
        (ConflictError(SECRET), 503), (SchemaError(SECRET), 500), (StoreError(SECRET), 503),
        (GlongError(SECRET), 500),
    ],
)  # fmt: skip
def test_what_the_core_says_of_data_and_places_reaches_no_client(
    error: GlongError, status: int
) -> None:
    problem = problem_of(error)
    assert problem.status == status
    assert SECRET not in f"{problem.message}{problem.hint}"
    assert problem.message
    assert (problem.retry_after_s > 0) == (status == 503)
    assert pickle.loads(pickle.dumps(problem)) == problem


@pytest.mark.parametrize("error", [ConfigError("k is 0"), SourceError("k is 0")])
def test_bad_input_is_told_as_it_is(error: GlongError) -> None:
    assert (problem_of(error).status, problem_of(error).message) == (422, "k is 0")


def test_every_error_has_the_same_body() -> None:
    (error,) = document(NOT_FOUND, "r-1").values()
    assert set(error) == {"type", "message", "hint", "request_id"}
    assert error["request_id"] == "r-1"


def test_retry_after_is_in_whole_seconds() -> None:
    assert headers_of(overloaded("do", 0.2)) == {"Retry-After": "1"}
    assert headers_of(NOT_FOUND) == {}


def test_invalid_input_says_where_and_not_what() -> None:
    errors = [{"loc": ("body", "turns", 0, "text"), "msg": "too long", "input": SECRET}] * 7
    problem = invalid(errors)
    assert problem.status == 422
    assert "turns.0.text: too long" in problem.message
    assert "2 more" in problem.message
    assert SECRET not in problem.message
