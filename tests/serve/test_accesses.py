from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from glong.config import FAKE_MODELS
from glong.errors import ConflictError
from glong.ids import dialogue_key
from glong.memory import Memory
from glong.store.lease import alone
from serve.accesses import AccessBuffer, write_accesses

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TURNS = [{"speaker": "Mira", "text": "I bought a grey greyhound called Pixel last week."}] * 6


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = Memory.open(str(tmp_path / "store"), models=FAKE_MODELS)
    for dialogue in ("a", "b"):
        memory.add_session(dialogue, TURNS, session_id="s", started_at=NOW - timedelta(days=9))
    return memory


def test_the_latest_access_of_an_edge_counts() -> None:
    buffer = AccessBuffer()
    buffer.add("t", "d", ["e"], NOW)
    buffer.add("t", "d", ["e", "f"], NOW - timedelta(hours=1))
    assert len(buffer) == 2
    rows = buffer.take()
    assert dict(zip(rows["edge_id"].to_pylist(), rows["accessed_at"].to_pylist(), strict=True)) == {
        "e": NOW, "f": NOW - timedelta(hours=1),
    }  # fmt: skip
    assert len(buffer) == 0
    assert buffer.take().num_rows == 0
    buffer.put_back(rows)
    assert len(buffer) == 2


def test_many_dialogues_are_one_commit_and_count_at_the_next_load(memory: Memory) -> None:
    buffer = AccessBuffer()
    for dialogue in ("a", "b"):
        buffer.add("default", dialogue, memory.graph(dialogue).edge_ids, NOW)
    before = memory.store.layout.dataset("accesses").version
    rows = buffer.take()
    assert write_accesses(memory.store, rows) == rows.num_rows > 0
    assert memory.store.layout.dataset("accesses").version == before + 1
    assert {memory.graph(d).accessed_s.max() for d in ("a", "b")} == {NOW.timestamp()}


def test_accesses_of_what_was_forgotten_are_not_written(memory: Memory) -> None:
    buffer = AccessBuffer()
    for dialogue in ("a", "b"):
        buffer.add("default", dialogue, memory.graph(dialogue).edge_ids, NOW)
    memory.forget("a")
    write_accesses(memory.store, buffer.take())
    keys = set(memory.store.visible("accesses")["dialogue_key"].to_pylist())
    assert keys == {dialogue_key("default", "b")}


def test_while_a_purge_holds_the_store_nothing_is_written_and_nothing_lost(memory: Memory) -> None:
    buffer = AccessBuffer()
    buffer.add("default", "a", memory.graph("a").edge_ids, NOW)
    rows = buffer.take()
    with alone(memory.store.layout), pytest.raises(ConflictError):
        write_accesses(memory.store, rows)
    assert write_accesses(memory.store, rows) == rows.num_rows
