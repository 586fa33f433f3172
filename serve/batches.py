"""Texts of several questions encoded together. No Ray.

Ray's ``@serve.batch`` keeps requests with different multiplexed ids apart, so that questions to
different memories would never share a batch.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
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
        self._n_alone = 0
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
            size = 1 if self._n_alone else MAX_BATCH
            taken, self._waiting = self._waiting[:size], self._waiting[size:]
            self._n_alone = max(0, self._n_alone - 1)
            batch = [item for item in taken if not item[1].done()]  # who gave up is left out
            if batch:
                await self._encode_batch(batch)

    async def _encode_batch(self, batch: list[Waiting]) -> None:
        texts = [text for text, _ in batch]
        try:
            loop = asyncio.get_running_loop()
            vectors = await loop.run_in_executor(self._thread, self._encode, texts)
            for (_, future), vector in zip(batch, vectors, strict=True):
                if not future.done():
                    future.set_result(vector)
        except ModelError as error:
            if error.retryable:
                # Who waits behind an endpoint that is down would find it down, only later.
                _fail([*batch, *self._waiting], error)
                self._waiting, self._n_alone = [], 0
            elif len(batch) == 1:
                _fail(batch, error)
            else:  # one text that is refused is not the others' error: each alone
                self._waiting, self._n_alone = [*batch, *self._waiting], len(batch)
        except BaseException as error:  # a bug, or a panic of a native library: who waits is told
            _fail(batch, error)
            if isinstance(error, asyncio.CancelledError):
                raise


def _fail(items: Iterable[Waiting], error: BaseException) -> None:
    for _, future in items:
        if not future.done():
            future.set_exception(error)
