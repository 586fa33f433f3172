"""Texts of several questions encoded together. No Ray.

Ray's ``@serve.batch`` keeps requests with different multiplexed ids apart, so that questions to
different memories would never share a batch.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from glong.errors import ModelError
from glong.types import Vectors

__all__ = ["MAX_BATCH", "EncodingBatches"]

MAX_BATCH = 32

Waiting = tuple[str, "asyncio.Future[Vectors]"]


class EncodingBatches:
    """What comes while one batch is encoded is the next; nothing waits for company.

    For one event loop.

    Args:
        encode: n texts -> (n, d) vectors; blocks, and runs in a thread of its own.
    """

    def __init__(self, encode: Callable[[Sequence[str]], Vectors]) -> None:
        self._encode = encode
        self._waiting: list[Waiting] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="glong-encoder")
        self._working: asyncio.Task[None] | None = None

    async def encode(self, text: str) -> Vectors:
        """The vector of one text, shape (d,).

        Raises:
            ModelError: the encoder failed.
        """
        future: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        self._waiting.append((text, future))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            batch = [item for item in taken if not item[1].done()]  # who gave up is left out
            outcomes = await self._outcomes([text for text, _ in batch])
            if any(isinstance(o, ModelError) and o.retryable for o in outcomes):
                # Who waits behind an endpoint that is down would find it down, only later.
                batch, self._waiting = [*batch, *self._waiting], []
                outcomes += outcomes[-1:] * (len(batch) - len(outcomes))
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                _settle(future, outcome)

    async def _outcomes(self, texts: Sequence[str]) -> list[Vectors | Exception]:
        if not texts:
            return []
        loop = asyncio.get_running_loop()
        try:
            return list(await loop.run_in_executor(self._thread, self._encode, texts))
        except ModelError as error:
            if error.retryable or len(texts) == 1:
                return [error] * len(texts)
        except Exception as error:  # a bug: raised to all who wait, as if each had been alone
            return [error] * len(texts)
        # One text that an endpoint refuses is not the others' error.
        return [outcome for text in texts for outcome in await self._outcomes([text])]


def _settle(future: "asyncio.Future[Vectors]", outcome: Vectors | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
