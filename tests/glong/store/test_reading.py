from datetime import timedelta
from pathlib import Path

import pytest

from glong.errors import ConflictError, NotFoundError, StoreError
from glong.ids import dialogue_key
from glong.store import Wave
from glong.store.reading import READ_RETRIES, Scope, read_whole
from glong.store.upkeep import VERSIONS_KEPT, Upkeep, carry_out
from glong.types import Failure
from tests.glong.store.rows import (
    START,
    broken_line,
    built,
    built_session,
    new_store,
    record_failures,
    rewritten,
    wave,
    when_read,
)


def test_filters_quote_their_text() -> None:
    assert Scope("O'Brien").to_sql() == "tenant = 'O''Brien'"
    assert Scope(dialogue_keys=("a", "b")).to_sql() == "dialogue_key IN ('a', 'b')"
    assert Scope().to_sql() is None


def test_rows_are_read_by_tenant_dialogue_and_column(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(
        wave(
            "b1",
            built_session("d", "s1"),
            built_session("e", "s1"),
            built_session("d", "s1", tenant="o'ther"),
        )
    )
    assert store.visible("edges").num_rows == 6
    assert store.visible("edges", tenant="o'ther").num_rows == 2
    key = dialogue_key("default", "d")
    rows = store.visible("turns", dialogue_key=key, columns=["text"])
    assert rows.column_names == ["text"]
    assert rows.column("text").to_pylist() == ["Mira likes corn", "Mira has_pet Rex"]


def test_batches_hold_the_same_rows_as_the_whole(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    for n in range(3):
        store.append_wave(wave(f"b{n}", built_session("d", f"s{n}"), built_session("e", "s0")))
    batches = store.iter_visible("edges", columns=["edge_id"])
    found = [edge for batch in batches for edge in batch.column("edge_id").to_pylist()]
    assert sorted(found) == sorted(store.visible("edges").column("edge_id").to_pylist())
    assert len(found) == 8


def test_an_older_version_shows_what_it_named(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    old = store.append_wave(wave("b1", built_session("d", "s1")))
    new = store.append_wave(
        wave("b2", built_session("d", "s1", content="c2", facts=[("A", "b", "C")]))
    )
    assert store.read_graph("default", "d", old).subjects == ("Mira", "Mira")
    assert store.read_graph("default", "d", new).subjects == ("A",)
    assert store.visible("edges", version=old).num_rows == 2


def test_a_version_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="open table sessions"):
        new_store(tmp_path / "s").manifest(version=77)


def test_failures_are_visible_by_their_session_or_without_one(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    old, new = (Failure("extract", "bad_json", text) for text in ("old", "new"))
    store.append_wave(wave("b1", built_session("d", "s1", failures=[old])))
    sessions = built(built_session("d", "s1", failures=[new], content="c2"))
    store.append_wave(Wave("b2", START, sessions, record_failures(broken_line(1))))
    messages = sorted(store.visible("failures", columns=["message"]).column(0).to_pylist())
    assert messages == ["new", "no speaker"]


def test_a_graph_merges_entities_and_orders_by_time(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    later = built_session("d", "a-later", day=3, facts=[("MIRA", "moved_to", "Oslo")])
    store.append_wave(wave("b1", later))
    store.append_wave(wave("b2", built_session("d", "z-earlier", day=0)))
    graph = store.read_graph("default", "d")
    assert graph.turn_session_ids == ("z-earlier", "z-earlier", "a-later")
    assert graph.relations == ("likes", "has_pet", "moved_to")
    assert graph.turn_indices[graph.edge_turn].tolist() == [0, 1, 0]
    mira = graph.entity_names.index("Mira")
    assert graph.n_entities == 4
    assert graph.entity_aliases[mira] == ("MIRA",)
    assert graph.incident([mira]).tolist() == [0, 1, 2]
    assert graph.created_s[2] - graph.created_s[0] == timedelta(days=3).total_seconds()


def test_sessions_without_times_come_last_in_order_of_their_ids(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    names = ("s2", "s1")
    store.append_wave(wave("b1", *(built_session("d", name, timed=False) for name in names)))
    store.append_wave(wave("b2", built_session("d", "s9")))
    graph = store.read_graph("default", "d")
    assert list(dict.fromkeys(graph.turn_session_ids)) == ["s9", "s1", "s2"]
    assert (graph.created_s != graph.created_s).tolist() == [False] * 2 + [True] * 4


def test_the_latest_access_wins(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s1")))
    edges = store.read_graph("default", "d").edge_ids
    for days in (9, 5):
        store.touch("default", "d", edges[:1], START + timedelta(days=days))
    graph = store.read_graph("default", "d")
    since_s = graph.accessed_s - graph.created_s
    assert since_s.tolist() == [timedelta(days=9).total_seconds(), 0.0]


def test_a_graph_is_whole_whether_indexed_partly_or_not(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    for n in range(3):
        if n == 1:
            for table in store.layout.tables:
                carry_out(store.layout, table, Upkeep.INDEX, older_than=VERSIONS_KEPT)
        store.append_wave(wave(f"b{n}", built_session("d", f"s{n}"), built_session("e", f"s{n}")))
    assert 0 < store.status().index_coverage["edges"] < 1
    assert store.read_graph("default", "d").n_edges == 6


def test_a_dialogue_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s1")))
    for call in (store.read_graph, store.sessions_of):
        with pytest.raises(NotFoundError, match="Tenant 'other' has no dialogue 'd'"):
            call("other", "d")


def test_rows_that_another_deletes_before_they_are_read_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s1")))
    n_reads = []

    def other() -> None:
        n_reads.append(1)
        rewritten(store, f"anew{len(n_reads)}")
        if busy:
            when_read(monkeypatch, "edges", other)

    busy = False
    when_read(monkeypatch, "edges", other)
    assert read_whole(store.layout, "edges", Scope(), ["edge_id"]).num_rows == 2
    busy = True
    when_read(monkeypatch, "edges", other)
    with pytest.raises(ConflictError, match="each time that edges were read"):
        read_whole(store.layout, "edges", Scope(), ["edge_id"])
    assert len(n_reads) == 1 + READ_RETRIES
