"""The result of work, or why there is none, as a value.

Ray logs what a replica raises, and such messages can name people's words: refusals are returned.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from glong.errors import GlongError
from serve.errors import Problem, ProblemError, problem_of
from serve.logs import LOG

__all__ = ["attempt", "in_thread"]

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


async def in_thread(pool: Executor | None, work: Callable[..., R], *args: Any) -> R | Problem:
    """The same of something that blocks.

    Args:
        pool: where it runs; ``None`` for the event loop's own, in which Ray allows some five.
        work: what to do.
        args: its arguments.
    """
    return await attempt(asyncio.get_running_loop().run_in_executor(pool, work, *args))
