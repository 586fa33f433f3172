import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from serve.cache import LoadingCache, Stamp


@dataclass(frozen=True)
class Thing:
    name: str
    stamp: Stamp = (1,)
    nbytes: int = 10


class Loads:
    """Loads things, counts, and can be held up."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.version = 1
        self.gate = asyncio.Event()
        self.gate.set()

    def of(self, name: str, nbytes: int = 10) -> Callable[[Thing | None], Awaitable[Thing]]:
        async def load(old: Thing | None) -> Thing:
            self.names.append(name)
            version = self.version
            await self.gate.wait()
            return Thing(name, (version,), nbytes)

        return load


def test_many_who_ask_at_once_load_once() -> None:
    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(10, 1_000)
        loads = Loads()
        things = await asyncio.gather(*(cache.get("a", (1,), loads.of("a")) for _ in range(50)))
        assert loads.names == ["a"]
        assert len(set(map(id, things))) == 1
        assert (cache.counts.misses, cache.counts.hits) == (50, 0)
        await cache.get("a", (1,), loads.of("a"))
        assert (loads.names, cache.counts.hits) == (["a"], 1)

    asyncio.run(run())


def test_different_keys_load_side_by_side() -> None:
    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(10, 1_000)
        loads = Loads()
        loads.gate.clear()
        tasks = [asyncio.create_task(cache.get(k, (1,), loads.of(k))) for k in "abc"]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sorted(loads.names) == ["a", "b", "c"]
        loads.gate.set()
        await asyncio.gather(*tasks)

    asyncio.run(run())


def test_after_a_commit_an_older_entry_is_renewed_even_if_its_load_still_runs() -> None:
    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(10, 1_000)
        loads = Loads()
        loads.gate.clear()
        early = asyncio.create_task(cache.get("a", (1,), loads.of("a")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        loads.version = 2  # a commit while the first load runs
        late = asyncio.create_task(cache.get("a", (2,), loads.of("a")))
        await asyncio.sleep(0)
        loads.gate.set()
        assert (await early).stamp == (1,)
        assert (await late).stamp == (2,)
        assert loads.names == ["a", "a"]

    asyncio.run(run())


def test_the_least_recently_used_goes_when_there_are_too_many() -> None:
    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(2, 1_000)
        loads = Loads()
        for key in ("a", "b", "a", "c"):
            await cache.get(key, (1,), loads.of(key))
        assert cache.held() == ["a", "c"]
        assert cache.counts.evictions == 1

    asyncio.run(run())


def test_bytes_are_bounded_and_counted_through_many_entries() -> None:
    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(10_000, 95)
        loads = Loads()
        for n in range(2_000):
            await cache.get(str(n), (1,), loads.of(str(n), nbytes=1 + n % 40))
            assert cache.counts.nbytes <= 95
        assert cache.counts.nbytes == sum(1 + int(key) % 40 for key in cache.held())
        thing = await cache.get("huge", (1,), loads.of("huge", nbytes=96))
        assert thing.name == "huge"
        assert "huge" not in cache

    asyncio.run(run())


def test_a_load_that_fails_fails_for_all_who_wait_and_is_tried_again() -> None:
    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(10, 1_000)
        calls = []

        async def broken(old: Thing | None) -> Thing:
            calls.append(old)
            await asyncio.sleep(0)
            raise KeyError("a")

        results = await asyncio.gather(
            *(cache.get("a", (1,), broken) for _ in range(9)), return_exceptions=True
        )
        assert [type(result) for result in results] == [KeyError] * 9
        assert len(calls) == 2  # the others' own, which began after they asked
        assert (await cache.get("a", (1,), Loads().of("a"))).name == "a"

    asyncio.run(run())


def test_who_joined_a_load_that_began_too_early_to_succeed_gets_the_next() -> None:
    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(10, 1_000)
        gate, there = asyncio.Event(), False

        async def load(old: Thing | None) -> Thing:
            found = there
            await gate.wait()
            if not found:
                raise KeyError("a")
            return Thing("a")

        early = asyncio.create_task(cache.get("a", (1,), load))
        await asyncio.sleep(0.01)
        there = True
        late = asyncio.create_task(cache.get("a", (1,), load))
        await asyncio.sleep(0.01)
        gate.set()
        assert (await late).name == "a"
        with pytest.raises(KeyError):
            await early

    asyncio.run(run())


def test_a_load_that_ends_too_old_as_another_asks_is_made_again() -> None:
    """Both go on in one pass of the event loop: the load is done, and still known as running."""

    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(10, 1_000)
        loop = asyncio.get_running_loop()
        read, stamped, versions = loop.create_future(), loop.create_future(), iter((1, 2))

        async def load(old: Thing | None) -> Thing:
            version = next(versions)
            if version == 1:
                await read
            return Thing("a", (version,))

        async def second() -> Thing:
            await stamped
            return await cache.get("a", (2,), load)

        tasks = [asyncio.create_task(cache.get("a", (1,), load)), asyncio.create_task(second())]
        await asyncio.sleep(0.01)
        read.set_result(None)
        stamped.set_result(None)
        first, later = await asyncio.gather(*tasks)
        assert (first.stamp, later.stamp) == ((1,), (2,))

    asyncio.run(run())


def test_what_was_swapped_in_while_a_load_ran_is_what_it_starts_from() -> None:
    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(10, 1_000)
        await cache.get("a", (1,), Loads().of("a"))
        given: list[Thing | None] = []

        async def renew(old: Thing | None) -> Thing:
            given.append(old)
            if len(given) == 1:
                held = cache.peek("a")
                assert held is not None
                assert cache.swap("a", held, Thing("touched"))
            assert old is not None
            return Thing(old.name, (2,))

        assert (await cache.get("a", (2,), renew)).name == "touched"
        assert [one and one.name for one in given] == ["a", "touched"]
        held = cache.peek("a")
        assert held is not None
        assert held.name == "touched"

    asyncio.run(run())


def test_one_who_gives_up_does_not_end_the_load_of_the_others() -> None:
    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(10, 1_000)
        loads = Loads()
        loads.gate.clear()
        impatient, patient = (
            asyncio.create_task(cache.get("a", (1,), loads.of("a"))) for _ in range(2)
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        loads.gate.set()
        assert (await patient).name == "a"
        assert loads.names == ["a"]

    asyncio.run(run())


def test_a_peek_counts_nothing_until_the_entry_was_used_which_keeps_it_longest() -> None:
    async def run() -> None:
        cache: LoadingCache[Thing] = LoadingCache(2, 1_000)
        loads = Loads()
        for name in "ab":
            await cache.get(name, (1,), loads.of(name))
        assert cache.peek("a") == Thing("a")
        assert cache.peek("c") is None
        assert cache.counts.hits == 0
        cache.used("a")
        await cache.get("c", (1,), loads.of("c"))
        assert (cache.held(), cache.counts.hits) == (["a", "c"], 1)
        cache.used("b")  # it was let go meanwhile
        assert (cache.held(), cache.counts.hits) == (["a", "c"], 2)

    asyncio.run(run())
