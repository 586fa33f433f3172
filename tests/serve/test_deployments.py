"""What the replicas do, without Ray: their own code in this process."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from glong.config import FAKE_MODELS
from glong.ids import dialogue_key
from glong.memory import Memory
from glong.models.fake import FakeGenerator
from glong.store import forgetting
from glong.store.upkeep import SMALL_FRAGMENTS, due, measure
from glong.tables import ACCESSES
from glong.types import Generation, GenerationRequest, Session, Turn
from serve import reuse
from serve.accesses import write_accesses
from serve.deployments import Writer
from serve.errors import NOT_FOUND
from serve.memories import Memories, encoder_spec
from serve.records import Answered, Forget, Question
from serve.settings import ServeSettings

START = datetime(2026, 1, 5, tzinfo=UTC)
NOW = datetime(2026, 3, 1, tzinfo=UTC)
TURNS = [
    {"speaker": "Mira", "text": "I bought a grey greyhound called Pixel last week."},
    {"speaker": "Mira", "text": "My greyhound is called Pixel."},
    {"speaker": "Mira", "text": "I have a greyhound called Pixel."},
]


class Replica(Memories):
    """Stopped by the test, as Ray does it; not once more when Python lets go of it."""

    stop = Memories.__del__

    def __del__(self) -> None:
        return None


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = Memory.open(str(tmp_path / "store"), models=FAKE_MODELS)
    memory.add_session("d", TURNS, session_id="s1", started_at=START)
    return memory


def in_replica(store: str, work: Callable[[Any], Awaitable[None]], flush_s: float = 10.0) -> None:
    """Start a replica, use it, stop it."""

    async def run() -> None:
        replica: Any = Replica.__new__(Replica)
        await Replica.__init__(replica, ServeSettings(store=store, models="fake", flush_s=flush_s))
        try:
            await work(replica)
        finally:
            await replica.stop()

    asyncio.run(run())


def ask(query: str = "greyhound", profile: str = "hybrid") -> Question:
    return Question(tenant="default", dialogue_id="d", query=query, profile=profile, now=NOW)


def used(answered: Answered) -> set[str]:
    return {edge.edge_id for hit in answered.retrieval.hits for edge in hit.edges}


def accessed(memory: Memory) -> set[str]:
    rows = memory.store.visible(
        "accesses", dialogue_key=dialogue_key("default", "d"), columns=["edge_id"]
    )
    return set(rows["edge_id"].to_pylist())


def test_a_memory_is_loaded_once_and_then_held(memory: Memory) -> None:
    async def work(replica: Any) -> None:
        first, second = [await replica.retrieve(ask()) for _ in range(2)]
        assert first.retrieval == second.retrieval
        counts = replica._cache.counts
        assert (counts.misses, counts.hits, counts.refreshes) == (1, 1, 0)

    in_replica(memory.store.uri, work)


def test_many_cold_questions_at_once_load_once(memory: Memory) -> None:
    async def work(replica: Any) -> None:
        answers = await asyncio.gather(*(replica.retrieve(ask()) for _ in range(20)))
        assert len({str(answer.retrieval) for answer in answers}) == 1
        assert len(replica._cache) == 1

    in_replica(memory.store.uri, work)


def test_a_commit_by_anyone_is_seen_by_the_next_question(memory: Memory) -> None:
    async def work(replica: Any) -> None:
        await replica.retrieve(ask())
        for number in range(5):
            said = [{"speaker": "Tom", "text": f"I have the theremin number {number}."}]
            memory.add_session("d", said, session_id=f"t{number}", started_at=START)
            answered = await replica.retrieve(ask(f"theremin number {number}"))
            assert answered.retrieval.store_version == memory.store.version
            assert f"number {number}" in answered.retrieval.hits[0].turn.text
        memory.forget("d")
        assert await replica.retrieve(ask()) == NOT_FOUND

    in_replica(memory.store.uri, work)


def test_accesses_are_in_the_store_when_the_replica_has_stopped(memory: Memory) -> None:
    seen: set[str] = set()

    async def work(replica: Any) -> None:
        seen.update(used(await replica.retrieve(ask())))
        assert accessed(memory) == set()

    in_replica(memory.store.uri, work)
    assert seen
    assert accessed(memory) == seen


def test_the_paper_sees_its_own_access_at_the_next_question(memory: Memory) -> None:
    async def work(replica: Any) -> None:
        first = await replica.retrieve(ask(profile="paper"))
        second = await replica.retrieve(ask(profile="paper"))
        recency = [[hit.parts["recency"] for hit in a.retrieval.hits] for a in (first, second)]
        assert max(recency[0]) < 1 == min(recency[1])

    in_replica(memory.store.uri, work)


def test_what_is_forgotten_elsewhere_leaves_the_replica_though_it_was_just_loaded(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marks of a forgetting come before its commit: a question in between loads the memory anew."""

    async def work(replica: Any) -> None:
        answered = await replica.retrieve(ask())
        commit = forgetting.sweep
        monkeypatch.setattr(forgetting, "sweep", lambda *given: Counter())  # not yet
        memory.forget("d")
        await replica._sweep()
        assert (await replica.retrieve(ask())).retrieval == answered.retrieval
        commit(memory.store.layout, [dialogue_key("default", "d")])
        await replica._sweep()
        assert len(replica._cache) == 0
        assert await replica.retrieve(ask()) == NOT_FOUND

    in_replica(memory.store.uri, work)


def test_accesses_of_a_memory_outlive_the_forgetting_of_a_part_of_it(memory: Memory) -> None:
    other = [{"speaker": "Tom", "text": "I have a theremin."}]
    memory.add_session("d", other, session_id="s2", started_at=START)
    seen: set[str] = set()

    async def work(replica: Any) -> None:
        seen.update(used(await replica.retrieve(ask())))
        memory.forget("d", session_id="s2")
        await replica._sweep()

    in_replica(memory.store.uri, work)
    assert accessed(memory) == seen
    assert seen


def test_a_forgetting_elsewhere_leaves_other_memories_warm(memory: Memory) -> None:
    other = [{"speaker": "Tom", "text": "I have a theremin."}]
    memory.add_session("d", other, session_id="s2", started_at=START)
    memory.forget("d", session_id="s2")
    memory.add_session("e", other, session_id="s1", started_at=START)

    async def work(replica: Any) -> None:
        await replica.retrieve(ask())
        memory.forget("e")
        for _ in range(2):
            await replica._sweep()
        assert len(replica._cache) == 1  # though something of it was forgotten once

    in_replica(memory.store.uri, work)


def test_upkeep_outlives_a_bug(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(replica: Any) -> None:
        monkeypatch.setattr(replica, "_sweep", lambda: 1 / 0)
        await replica.retrieve(ask())
        async with asyncio.timeout(10):
            while not accessed(memory):
                await asyncio.sleep(0.02)

    in_replica(memory.store.uri, work, flush_s=0.02)


def test_an_endpoint_that_encodes_is_given_up_within_the_time_of_a_read(tmp_path: Path) -> None:
    config = tmp_path / "models.toml"
    config.write_text(
        '[encoder]\nbackend = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    spec = encoder_spec(ServeSettings(store="s", models=str(config), timeout_s=6.0))
    assert (spec.timeout_s, spec.max_retries) == (3.0, 0)


def test_a_replica_starts_before_there_is_a_store(tmp_path: Path) -> None:
    async def work(replica: Any) -> None:
        assert await replica.ready() == NOT_FOUND
        memory = Memory.open(str(tmp_path / "store"), models=FAKE_MODELS)
        memory.add_session("d", TURNS, session_id="s1", started_at=START)
        assert await replica.ready() is True
        assert (await replica.retrieve(ask())).retrieval.hits

    in_replica(str(tmp_path / "store"), work)


class WriterReplica(Writer):
    """As :class:`Replica`."""

    stop = Writer.__del__

    def __del__(self) -> None:
        return None


def test_a_writer_merges_the_accesses_of_a_service_where_nobody_posts(memory: Memory) -> None:
    settings = ServeSettings(store=memory.store.uri, models="fake", upkeep_s=0.05)
    (edge,) = memory.retrieve("d", "greyhound", k=1).hits[0].edges[:1]
    row = ["default", dialogue_key("default", "d"), edge.edge_id, NOW]
    for _ in range(SMALL_FRAGMENTS):
        write_accesses(memory.store, pa.table([[value] for value in row], schema=ACCESSES))
    layout = memory.store.layout
    assert due(measure(layout, "accesses"))

    async def run() -> None:
        writer: Any = WriterReplica.__new__(WriterReplica)
        await WriterReplica.__init__(writer, settings)
        try:
            async with asyncio.timeout(20):
                while due(measure(layout, "accesses")):
                    await asyncio.sleep(0.05)
        finally:
            await writer.stop()

    asyncio.run(run())
    assert measure(layout, "accesses").fragments == 1


class Words(FakeGenerator):
    """Counts what it is asked."""

    n_asked = 0

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        Words.n_asked += len(requests)
        return super().generate(requests)


def test_what_is_kept_of_extractions_goes_with_a_forgetting_here_or_elsewhere(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "models.toml"
    config.write_text(
        '[extractor]\nbackend = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[scorer]\nbackend = "fake"\n[encoder]\nbackend = "fake"\n'
    )
    monkeypatch.setattr(reuse, "load_generator", lambda spec: Words())
    settings = ServeSettings(store=memory.store.uri, models=str(config))
    said = [Session("x", "s1", START, (Turn(0, "Mira", "My greyhound is called Pixel."),))]

    def elsewhere() -> None:
        memory.add_session("e", [{"speaker": "Tom", "text": "Hello."}], session_id="s1")
        memory.forget("e")

    async def run() -> None:
        writer: Any = WriterReplica.__new__(WriterReplica)
        await WriterReplica.__init__(writer, settings)

        def asks() -> int:
            before = Words.n_asked
            writer._extractor.extract(said)
            return Words.n_asked - before

        try:
            assert (asks(), asks()) == (1, 0)
            await writer.forget(Forget(tenant="default", dialogue_id="d", session_id="s1"))
            assert (asks(), asks()) == (1, 0)
            writer._forgotten_elsewhere()
            assert (asks(), asks()) == (1, 0)
            elsewhere()
            writer._forgotten_elsewhere()
            assert (asks(), asks()) == (1, 0)
            writer._forgotten_elsewhere()
            assert asks() == 0
        finally:
            await writer.stop()

    asyncio.run(run())
