from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from glong import ids
from glong.errors import StoreError
from glong.store import Store, Target, forgotten
from glong.store import store as store_module
from glong.store.layout import Layout
from glong.store.upkeep import measure
from tests.glong.store.rows import START, built_session, new_store, wave


def test_each_wave_makes_a_version(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    versions = [store.append_wave(wave(f"b{i}", built_session("d", f"s{i}"))) for i in range(2)]
    assert versions == [2, 3]
    assert store.version == 3


def test_an_empty_wave_makes_none(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    assert store.append_wave(wave("b")) == store.version == 1


def test_the_manifest_can_be_read_by_tenant_and_column(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b", built_session("d", "s1"), built_session("d", "s1", tenant="acme")))
    rows = store.manifest("acme", columns=["tenant", "n_edges"])
    assert rows.to_pylist() == [{"tenant": "acme", "n_edges": 2}]


def test_the_manifest_of_some_dialogues_can_be_read(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b", *(built_session(name, "s1") for name in "def")))
    keys = [ids.dialogue_key("default", name) for name in "ex"]
    assert store.manifest(dialogue_keys=keys)["dialogue_id"].to_pylist() == ["e"]
    assert store.manifest("acme", dialogue_keys=keys).num_rows == 0


def test_dialogues_are_listed_with_their_sums(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    sessions = [built_session("e", "s1"), built_session("d", "s1"), built_session("d", "s2", day=2)]
    store.append_wave(wave("b", *sessions))
    rows = store.dialogues("default").to_pylist()
    assert [(r["dialogue_id"], r["n_sessions"], r["n_edges"]) for r in rows] == [
        ("d", 2, 4),
        ("e", 1, 2),
    ]
    assert (rows[0]["last_at"] - rows[0]["first_at"]).days == 2
    assert store.dialogues("nobody").num_rows == 0


def test_sessions_of_a_dialogue_come_in_order(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    sessions = [built_session("d", "b", day=2), built_session("d", "z"), built_session("e", "a")]
    store.append_wave(wave("b", *sessions))
    assert store.sessions_of("default", "d").column("session_id").to_pylist() == ["z", "b"]


def test_what_was_forgotten_is_that_of_the_tenant(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b", built_session("d", "s"), built_session("d", "s", tenant="acme")))
    store.forget("default", Target("d"), START)
    assert store.forgotten("default").touches(ids.dialogue_key("default", "d"))
    assert not store.forgotten("acme")
    assert not store.forgotten().touches(ids.dialogue_key("acme", "d"))


def test_what_is_known_of_it_is_read_again_only_after_something_was_forgotten(
    tmp_path: Path,
) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b", built_session("d", "s"), built_session("e", "s")))
    store.forget("default", Target("d"), START)
    known = store.forgotten("default")
    assert store.forgotten("default", known) is known
    store.forget("default", Target("e"), START)
    assert store.forgotten("default", known).touches(ids.dialogue_key("default", "e"))


def test_a_wave_leaves_out_what_was_forgotten_since_its_writer_looked(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s"), built_session("e", "s")))
    store.forget("default", Target("d"), START)
    known = store.forgotten("default")
    store.forget("default", Target("e"), START)
    store.append_wave(wave("b2", *(built_session(name, "s") for name in "def")), known)
    assert store.dialogues("default")["dialogue_id"].to_pylist() == ["f"]


def test_a_wave_does_not_read_what_its_writer_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s")))
    store.forget("default", Target("d"), START)
    known = store.forgotten("default")
    for module in (store_module, forgotten):
        monkeypatch.delattr(module, "read_forgotten")
    store.append_wave(wave("b2", built_session("d", "s"), built_session("e", "s")), known)
    assert store.dialogues("default")["dialogue_id"].to_pylist() == ["e"]


def test_a_store_that_is_only_asked_stays_quick_to_read(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b", built_session("d", "s")))
    edges = store.read_graph("default", "d").edge_ids
    n_touches = 64
    for n in range(n_touches):  # each by a process of its own
        Store.open(store.uri).touch("default", "d", edges, START + timedelta(seconds=n))
    health = measure(store.layout, "accesses")
    assert health.fragments < n_touches // 2
    assert health.unindexed_fragments <= store_module.TOUCHES_A_ROUTINE
    last = START + timedelta(seconds=n_touches - 1)
    assert store.read_graph("default", "d").accessed_s.tolist() == [last.timestamp()] * len(edges)


def test_upkeep_that_fails_is_no_failure_of_what_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def full(layout: Layout, tables: Sequence[str]) -> tuple[str, ...]:
        asked.append(list(tables))
        raise StoreError("Could not compact table accesses: No space left on device")

    store = new_store(tmp_path / "s")
    store.append_wave(wave("b", built_session("d", "s")))
    edges = store.read_graph("default", "d").edge_ids
    monkeypatch.setattr(store_module, "TOUCHES_A_ROUTINE", 1)
    monkeypatch.setattr(store_module, "run_routine", full)
    store.touch("default", "d", edges, START)
    assert asked == [["accesses"]]
    assert store.visible("accesses").num_rows == len(edges)
    with pytest.raises(StoreError, match="No space"):
        store.routine()
