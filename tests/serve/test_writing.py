import asyncio
import gc
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from glong.build import Models
from glong.config import FAKE_MODELS
from glong.memory import Memory, store_meta
from glong.models.fake import FakeExtractor
from glong.models.load import load_models
from glong.store import Store
from glong.store.lease import alone
from glong.types import Failure, Session, Turn
from serve import writing
from serve.errors import Problem
from serve.records import Ingested, Posted
from serve.reuse import PrefixExtractor
from serve.writing import LiveWriter, commit, next_wave

START = datetime(2026, 1, 5, 10, tzinfo=UTC)
TEXTS = (
    "I bought a grey greyhound called Pixel last week.", "We visited Leipzig together.",
    "My sister plans a trip to Norway in spring.", "I like grilled aubergine with garlic.",
    "She sold her old car.", "The balcony is full of courgettes.",
)  # fmt: skip


def turns(n: int) -> tuple[Turn, ...]:
    return tuple(Turn(i, ("Mira", "Tom")[i % 2], text) for i, text in enumerate(TEXTS[:n]))


def posted(session: str = "s1", n: int = 4, **change: Any) -> Posted:
    values: dict[str, Any] = {"tenant": "acme", "dialogue_id": "d", "started_at": START}
    return Posted(**{**values, "session_id": session, "turns": turns(n), **change})


@pytest.fixture(scope="module")
def models() -> Models:
    return load_models(FAKE_MODELS)


@pytest.fixture
def store(tmp_path: Path, models: Models) -> Store:
    return Store.create_or_open(str(tmp_path / "store"), store_meta(models))


def statuses(results: list[Ingested | Problem]) -> list[str]:
    return [r.type if isinstance(r, Problem) else r.status for r in results]


def rows_of(store: Store, tenant: str = "acme") -> dict[str, Any]:
    document = store.export_dialogue(tenant, "d")
    for row in document["sessions"]:
        row.pop("built_at", None)
        row.pop("batch_id", None)
    return document


def test_posts_of_several_tenants_are_one_wave_each(store: Store, models: Models) -> None:
    posts = [posted("s1"), posted("s2"), posted("s1", tenant="other"), posted(dialogue_id="e")]
    results = commit(store, models, posts)
    assert statuses(results) == ["built"] * 4
    assert all(isinstance(r, Ingested) and r.counts["n_turns"] == 4 for r in results)
    assert store.status().waves == 2
    assert statuses(commit(store, models, posts)) == ["unchanged"] * 4


def test_a_growing_session_equals_a_batch_build_of_its_end(
    tmp_path: Path, store: Store, models: Models
) -> None:
    reused = Models(PrefixExtractor(models.extractor), models.scorer, models.encoder)
    for n in range(1, len(TEXTS) + 1):
        assert statuses(commit(store, reused, [posted(n=n)])) == ["built"]
    whole = Store.create_or_open(str(tmp_path / "whole"), store_meta(models))
    Memory(whole, "acme", models).build([Session("d", "s1", START, turns(len(TEXTS)))])
    assert rows_of(store) == rows_of(whole)


def test_turns_are_appended_to_those_that_are_stored(store: Store, models: Models) -> None:
    later = Turn(0, "Tom", "One more thing.", datetime(2026, 1, 6, tzinfo=UTC))
    for _ in range(2):
        commit(store, models, [posted(turns=(later,), append=True, started_at=None)])
    document = store.export_dialogue("acme", "d")
    assert sorted(turn["turn_index"] for turn in document["turns"]) == [0, 1]


def test_what_may_pass_is_pending_and_stores_nothing(store: Store, models: Models) -> None:
    commit(store, models, [posted(n=2)])
    failure = Failure("extract", "timeout", "too slow", transient=True)
    down = Models(FakeExtractor({"s1": failure}), models.scorer, models.encoder)
    assert statuses(commit(store, down, [posted(n=3)])) == ["pending"]
    assert len(store.export_dialogue("acme", "d")["turns"]) == 2


def test_no_session_stands_twice_in_a_wave_and_the_order_stays() -> None:
    posts = [posted("a", 1), posted("b"), posted("a", 2), posted("a", 3), posted("c")]
    waiting: Any = [(post, None) for post in posts]
    wave, rest = next_wave(waiting, 10)
    assert [(p.session_id, len(p.turns)) for p, _ in wave] == [("a", 1), ("b", 4), ("c", 4)]
    wave, rest = next_wave(rest, 10)
    assert [len(p.turns) for p, _ in wave] == [2]
    assert next_wave(rest, 0) == ([], rest)


def writer(store: Store, models: Models, **change: Any) -> LiveWriter:
    values: dict[str, Any] = {"window_s": 0.01, "wave_sessions": 8, "max_waiting": 100}
    return LiveWriter(store, models, **{**values, **change})


def test_posts_within_the_window_are_merged(store: Store, models: Models) -> None:
    async def run() -> list[Ingested | Problem]:
        live = writer(store, models)
        return await asyncio.gather(*(live.post(posted(f"s{n}")) for n in range(8)))

    assert statuses(asyncio.run(run())) == ["built"] * 8
    assert store.status().waves == 1


def test_what_was_taken_is_committed_though_nobody_waits(store: Store, models: Models) -> None:
    async def run() -> None:
        live = writer(store, models)
        task = asyncio.create_task(live.post(posted()))
        await asyncio.sleep(0)
        task.cancel()
        await live.drain()

    asyncio.run(run())
    assert store.manifest("acme").num_rows == 1


def test_what_is_asked_first_happens_first(store: Store, models: Models) -> None:
    """A post that still waits for company is not overtaken by a forgetting, nor by a later post."""

    async def run() -> list[Any]:
        live = writer(store, models, window_s=0.05)
        memory = Memory(store, "acme", models)
        return await asyncio.gather(
            live.post(posted()),
            live.alone(memory.forget, "d"),
            live.post(posted("s2")),
            live.alone(lambda: sorted(store.manifest("acme")["session_id"].to_pylist())),
        )

    first, receipt, second, left = asyncio.run(run())
    assert statuses([first, second]) == ["built", "built"]
    assert receipt.rows["sessions"] == 1
    assert left == ["s2"]


def test_other_work_that_fails_fails_for_who_asked(store: Store, models: Models) -> None:
    async def run() -> list[Any]:
        live = writer(store, models)
        asked = (live.alone(lambda: 1 / 0), live.post(posted()))
        return list(await asyncio.gather(*asked, return_exceptions=True))

    error, built = asyncio.run(run())
    assert isinstance(error, ZeroDivisionError)
    assert statuses([built]) == ["built"]


def test_what_fails_where_nobody_waits_any_more_is_not_logged(store: Store, models: Models) -> None:
    logged: list[Any] = []

    def fails() -> None:
        raise ValueError("Mira")

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, what: logged.append(what))
        live = writer(store, models)
        task = asyncio.create_task(live.alone(fails))
        await asyncio.sleep(0)
        task.cancel()
        await live.drain()
        gc.collect()

    asyncio.run(run())
    assert logged == []


def test_a_bug_in_a_wave_is_told_to_who_waits_and_the_next_wave_goes_on(
    store: Store, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> list[str]:
        live = writer(store, models)
        monkeypatch.setattr(writing, "commit", lambda *given: 1 / 0)
        first = await live.post(posted())
        monkeypatch.undo()
        return statuses([first, await live.post(posted())])

    assert asyncio.run(run()) == ["internal", "built"]


def test_the_writer_waits_while_a_purge_holds_the_store(store: Store, models: Models) -> None:
    held, done = threading.Event(), threading.Event()

    def purge() -> None:
        with alone(store.layout):
            held.set()
            time.sleep(0.3)
            done.set()

    thread = threading.Thread(target=purge)
    thread.start()
    assert held.wait(10)
    assert statuses(commit(store, models, [posted()])) == ["built"]
    assert done.is_set()
    thread.join()
