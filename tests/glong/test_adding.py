"""What adding sessions reads of a store, with fake models."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from glong import adding
from glong.memory import Memory
from glong.store import forgotten
from glong.store import store as store_module
from glong.types import Failure, Place, Session, Turn

START = datetime(2026, 1, 5, 10, tzinfo=UTC)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(str(tmp_path / "store"), models="fake") as opened:
        yield opened


def session(dialogue_id: str, session_id: str = "s1", text: str = "Hello.") -> Session:
    return Session(dialogue_id, session_id, START, (Turn(0, "Mira", text),))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each read of the manifest gave."""
    found: list[int] = []
    read_manifest = store_module.read_manifest

    def counted(*args: Any, **kwargs: Any) -> pa.Table:
        rows = read_manifest(*args, **kwargs)
        found.append(rows.num_rows)
        return rows

    monkeypatch.setattr(store_module, "read_manifest", counted)
    return found


def test_a_session_is_added_without_reading_of_other_dialogues(
    memory: Memory, read: list[int]
) -> None:
    memory.build([session(f"d{n}") for n in range(5)])
    read.clear()
    turns = [{"speaker": "Mira", "text": "Hello."}]
    assert memory.add_session("d3", turns, session_id="s1").n_skipped == 1
    assert memory.add_session("d3", turns, session_id="s2").n_built == 1
    assert memory.add_session("new", turns, session_id="s1").n_built == 1
    assert sum(read) == 1 + 1 + 1 + 1  # of d3, its start and what is known, twice


def test_of_sessions_of_many_dialogues_it_is_known_too_what_is_there(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [session(f"d{n}") for n in range(3)]
    memory.build(sessions)
    monkeypatch.setattr(adding, "DIALOGUES_LOOKED_UP", 2)
    assert memory.build(sessions).n_skipped == 3
    assert memory.build(sessions[:2]).n_skipped == 2
    assert memory.build(iter(sessions)).n_skipped == 3


def test_failures_alone_and_nothing_can_be_added(memory: Memory) -> None:
    broken = Failure("read", "broken_json", "m", "{", Place("in.jsonl", 1, ""))
    assert memory.build([broken]).n_failures == 1
    assert memory.build([]).n_failures == 0


def test_what_was_forgotten_is_read_once_while_nothing_is_forgotten(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str | None] = []
    read_forgotten = store_module.read_forgotten

    def counted(layout: Any, tenant: str | None = None) -> Any:
        reads.append(tenant)
        return read_forgotten(layout, tenant)

    memory.build([session("d")])
    memory.forget("d")
    for module in (store_module, forgotten):
        monkeypatch.setattr(module, "read_forgotten", counted)
    added = memory.build([session("d"), session("e"), session("f")], wave_size=1)
    assert (added.n_built, added.n_forgotten) == (2, 1)
    assert reads == ["default"]


def test_what_is_forgotten_between_two_waves_is_left_out_and_counted(memory: Memory) -> None:
    memory.build([session("e", "old")])

    def sessions() -> Iterator[Session]:
        yield session("d")
        yield session("e")
        memory.forget("e")

    added = memory.build(sessions(), wave_size=1)
    assert added.n_built == 2
    memory.build([session("e", "old")])
    assert memory.store.dialogues("default")["dialogue_id"].to_pylist() == ["d"]


def test_a_restoring_call_lifts_nothing_that_is_forgotten_while_its_models_run(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(adding, "_wave", real)
        memory.forget("e")
        return real(*args, **options)

    real = adding._wave
    memory.build([session("d"), session("e")])
    memory.forget("d")
    monkeypatch.setattr(adding, "_wave", late)
    added = memory.build([session("d"), session("e", "s2")], restore_forgotten=True)
    assert (added.n_built, added.n_forgotten) == (1, 1)
    assert memory.store.dialogues("default")["dialogue_id"].to_pylist() == ["d"]


def test_two_tenants_that_read_one_broken_file_have_a_failure_each(memory: Memory) -> None:
    broken = Failure("read", "broken_json", "m", '{"dialogue_id": "d"', Place("in.jsonl", 3, ""))
    other = Memory(memory.store, "other", memory.models)
    for one in (memory, other, memory):
        one.build([broken, session("d")])
    tenants = memory.store.visible("failures")["tenant"].to_pylist()
    assert sorted(tenants) == ["default", "other"]


def test_what_one_tenant_forgets_of_a_broken_file_the_other_keeps(memory: Memory) -> None:
    broken = Failure("read", "broken_json", "m", '{"dialogue_id": "d"', Place("in.jsonl", 3, ""))
    memory.build([broken, session("d")])
    memory.forget("d")
    other = Memory(memory.store, "other", memory.models)
    for one in (memory, other):
        one.build([broken])
    assert memory.store.visible("failures")["tenant"].to_pylist() == ["other"]
