from pathlib import Path

from glong import ids
from glong.store import Target
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
