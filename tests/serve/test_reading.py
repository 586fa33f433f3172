import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from glong.config import FAKE_MODELS
from glong.errors import NotFoundError, StoreError
from glong.memory import Memory
from glong.retrieval import query_text
from glong.store import Store
from glong.types import Retrieval
from serve.reading import Held, Reader
from serve.records import Ask, Question

START = datetime(2026, 1, 5, tzinfo=UTC)
NOW = datetime(2026, 3, 1, tzinfo=UTC)
TEXTS = (
    "I bought a grey greyhound called Pixel last week.", "My greyhound is called Pixel.",
    "I had soup today.", "I have a greyhound called Pixel.",
)  # fmt: skip
TURNS = [{"speaker": "Mira", "text": text} for text in TEXTS]


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = Memory.open(str(tmp_path / "store"), models=FAKE_MODELS)
    memory.add_session("d", TURNS, session_id="s1", started_at=START)
    return memory


def ask(memory: Memory, query: str, profile: str, now: datetime = NOW) -> Ask:
    question = Question(tenant="default", dialogue_id="d", query=query, k=2, profile=profile)
    vector = memory.models.encoder.encode([query_text(query)])[0]
    return Ask(question=question, vector=vector, now=now)


def load(memory: Memory, held: Held | None = None) -> Held:
    return Reader(memory.store).load("default", "d", held)


@pytest.mark.parametrize("profile", ["hybrid", "paper"])
def test_an_answer_is_that_of_the_embedded_mode(memory: Memory, profile: str) -> None:
    reader = Reader(memory.store)
    found = reader.answer(load(memory), ask(memory, "greyhound", profile))
    embedded = memory.retrieve("d", "greyhound", k=2, profile=profile, now=NOW, touch=False)
    assert found == embedded


def test_paper_scores_see_an_access_at_once_as_the_embedded_mode_does(memory: Memory) -> None:
    reader, held = Reader(memory.store), load(memory)
    for hours in range(3):
        now = NOW + timedelta(hours=hours)
        asked = ask(memory, "soup", "paper", now)
        found = reader.answer(held, asked)
        assert found.hits
        embedded = memory.retrieve("d", "soup", k=2, profile="paper", now=now)
        assert found == Retrieval(embedded.hits, found.store_version)
        held = reader.touched(held, found, now)
    assert np.nanmax(held.index.graph.accessed_s) == (NOW + timedelta(hours=2)).timestamp()


def test_a_commit_elsewhere_renews_the_stamp_and_keeps_the_graph(memory: Memory) -> None:
    held = load(memory)
    memory.add_session("other", TURNS, session_id="s1", started_at=START)
    renewed = load(memory, held)
    assert renewed.stamp > held.stamp
    assert renewed.index is held.index


@pytest.mark.parametrize("change", ["add", "replace", "forget", "fact", "correct"])
def test_any_change_of_the_memory_loads_it_again(memory: Memory, change: str) -> None:
    held = load(memory)
    edge = held.index.graph.edge_ids[0]
    if change == "add":
        memory.add_session("d", TURNS, session_id="s2", started_at=START)
    elif change == "replace":
        memory.add_session("d", TURNS[:2], session_id="s1", started_at=START)
    elif change == "forget":
        memory.forget("d", edge_id=edge)
    elif change == "fact":
        memory.add_fact("d", "Mira", "has_pet", "a cat")
    else:
        memory.correct("d", edge, object="a whippet")
    assert load(memory, held).index is not held.index


def test_the_stamp_is_that_of_the_latest_commit_of_any_writer(memory: Memory) -> None:
    reader = Reader(memory.store)
    seen = [reader.stamp()]
    for number in range(20):  # faster than clocks of file systems tick
        memory.add_session("d", TURNS[:1], session_id=f"n{number}", started_at=START)
        seen.append(reader.stamp())
        assert seen[-1] == (Store.open(memory.store.uri).version,)
    assert seen == sorted(set(seen))


def test_a_store_that_is_gone_has_no_stamp(memory: Memory, tmp_path: Path) -> None:
    reader = Reader(memory.store)
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(StoreError):
        reader.stamp()


def test_a_held_memory_answers_only_while_it_is_as_new_as_the_store(memory: Memory) -> None:
    reader, held = Reader(memory.store), load(memory)
    asked = ask(memory, "greyhound", "hybrid")
    assert reader.answer_held(None, asked) is None
    found = reader.answer_held(held, asked)
    assert found is not None
    assert found.retrieval == reader.answer(held, asked)
    assert found.factors == reader.factors(held, "hybrid")
    assert set(found.timings_ms) == {"graph", "search"}
    memory.forget("d", session_id="s1")
    assert reader.answer_held(held, asked) is None


def test_a_heavier_memory_weighs_more(memory: Memory) -> None:
    light = load(memory)
    memory.add_session("d", TURNS * 20, session_id="s2", started_at=START)
    heavy = load(memory)
    graph = heavy.index.graph
    assert heavy.nbytes > light.nbytes
    assert heavy.nbytes > graph.nbytes + sum(map(len, graph.turn_texts))


def test_a_memory_that_is_not_there_is_an_error(memory: Memory) -> None:
    reader = Reader(memory.store)
    with pytest.raises(NotFoundError):
        reader.load("default", "nobody", None)
    with pytest.raises(NotFoundError):
        reader.load("other", "d", None)
    held = load(memory)
    memory.forget("d")
    with pytest.raises(NotFoundError):
        reader.load("default", "d", held)
