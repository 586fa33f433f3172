import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from glong.errors import ModelError
from glong.types import Vectors
from serve.batches import MAX_BATCH, EncodingBatches


class Held:
    """An encoder that can be held up; a text's vector is its length."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.errors: dict[str, Exception] = {}

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.batches.append(list(texts))
        self.gate.wait(10)
        for text in texts:
            if text in self.errors:
                raise self.errors[text]
        return np.array([[len(text)] for text in texts], np.float32)


async def started(batches: EncodingBatches, *texts: str) -> list["asyncio.Task[Vectors]"]:
    tasks = [asyncio.create_task(batches.encode(text)) for text in texts]
    await asyncio.sleep(0.01)
    return tasks


def test_what_comes_while_a_batch_is_encoded_is_the_next_one() -> None:
    async def run() -> None:
        held = Held()
        batches = EncodingBatches(held.encode)
        tasks = await started(batches, "a")
        for n in range(2, MAX_BATCH + 4):
            tasks += await started(batches, "a" * n)
        held.gate.set()
        vectors = await asyncio.gather(*tasks)
        assert [int(v[0]) for v in vectors] == list(range(1, MAX_BATCH + 4))
        assert [len(batch) for batch in held.batches] == [1, MAX_BATCH, 2]

    asyncio.run(run())


def test_a_text_that_is_refused_is_not_the_error_of_the_others() -> None:
    async def run() -> None:
        held = Held()
        held.errors["bad"] = ModelError("no")
        batches = EncodingBatches(held.encode)
        tasks = await started(batches, "first") + await started(batches, "a", "bad", "abc")
        held.gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[2], ModelError)
        assert [float(results[i][0]) for i in (0, 1, 3)] == [5, 1, 3]  # type: ignore[index]

    asyncio.run(run())


def test_all_who_wait_for_an_endpoint_that_is_down_are_told_at_once() -> None:
    async def run() -> None:
        held = Held()
        held.errors["first"] = ModelError("down", retryable=True)
        batches = EncodingBatches(held.encode)
        tasks = await started(batches, "first") + await started(batches, *map(str, range(99)))
        held.gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, ModelError) for result in results)
        assert held.batches == [["first"]]
        assert float((await batches.encode("later"))[0]) == 5

    asyncio.run(run())


def test_no_text_gets_anothers_vector_where_an_endpoint_goes_down_amid_a_refused_batch() -> None:
    async def run() -> None:
        held = Held()
        held.errors |= {"down": ModelError("429", retryable=True), "bad": ModelError("400")}
        batches = EncodingBatches(held.encode)
        first = await started(batches, "first")
        tasks = await started(batches, "bad", "down", "cccc") + await started(batches, *["z"] * 40)
        held.gate.set()
        results = await asyncio.gather(*first, *tasks, return_exceptions=True)
        assert float(results[0][0]) == 5  # type: ignore[index]
        assert all(isinstance(result, ModelError) for result in results[1:])
        retryable = [result.retryable for result in results[1:]]  # type: ignore[union-attr]
        assert retryable == [False] + [True] * 42
        assert held.batches[2:] == [["bad"], ["down"]]  # and nobody after it is tried

    asyncio.run(run())


def test_who_waits_for_an_encoder_that_panics_or_loses_a_row_is_told() -> None:
    class Panic(BaseException):
        """As native code raises it."""

    async def run() -> None:
        held = Held()
        held.gate.set()
        batches = EncodingBatches(held.encode)
        held.errors["a"] = Panic()  # type: ignore[assignment]
        with pytest.raises(Panic):
            await batches.encode("a")
        lossy = EncodingBatches(lambda texts: np.zeros((0, 1), np.float32))
        with pytest.raises(ValueError, match="zip"):
            await asyncio.wait_for(lossy.encode("a"), 5)
        assert float((await batches.encode("bb"))[0]) == 2

    asyncio.run(run())


def test_a_bug_is_raised_to_who_asked_and_the_next_text_is_encoded() -> None:
    async def run() -> None:
        held = Held()
        held.errors["a"] = ZeroDivisionError()
        held.gate.set()
        batches = EncodingBatches(held.encode)
        with pytest.raises(ZeroDivisionError):
            await batches.encode("a")
        assert float((await batches.encode("bb"))[0]) == 2

    asyncio.run(run())


def test_who_gave_up_is_not_encoded() -> None:
    async def run() -> None:
        held = Held()
        batches = EncodingBatches(held.encode)
        (first,) = await started(batches, "a")
        gone, last = await started(batches, "gone", "last")
        gone.cancel()
        await asyncio.sleep(0.01)
        held.gate.set()
        await asyncio.gather(first, last)
        assert held.batches == [["a"], ["last"]]

    asyncio.run(run())
