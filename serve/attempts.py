"""The result of work, or why there is none, as a value.

Ray logs what a replica raises, and such messages can name people's words: refusals are returned.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from glong.errors import GlongError
from serve.errors import Problem, ProblemError, problem_of
from serve.logs import LOG

__all__ = ["attempt", "in_thread"]

P = ParamSpec("P")
R = TypeVar("R")


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
