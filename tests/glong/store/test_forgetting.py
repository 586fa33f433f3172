import contextlib
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from glong import ids
from glong.errors import ConfigError, NotFoundError
from glong.store import Store, Target, Wave, forgetting, sweeping
from glong.store.reading import read_graph
from glong.tables import VARYING_COLUMNS
from glong.types import Failure, Place
from tests.glong.store.rows import (
    START,
    built,
    built_session,
    new_store,
    record_failures,
    rewritten,
    unit_vector,
    wave,
    when_read,
)

NOW = datetime(2026, 2, 1, tzinfo=UTC)
FACTS = (
    ("Mira", "likes", "corn"),
    ("Mira", "has_pet", "Rex"),
    ("Tom", "feeds", "Rex"),
    ("Tom", "owns", "Rex's bowl"),
)
MISHAP = Failure("extract", "bad_json", "no JSON", "Mira likes corn")
KEY = ids.session_key("default", "d", "s1")
SCOPES: dict[str, dict[str, Any]] = {
    "dialogue": {},
    "session": {"session_id": "s1"},
    "turn": {"session_id": "s1", "turn_index": 3},
    "edge": {"edge_id": ids.edge_id(KEY, 3, ("tom", "owns", "rex's bowl"))},
    "entity": {"entity": "Rex"},
    "person": {"entity": "Rex", "turns": True},
}
LEFT = {"dialogue": None, "session": (4, 4), "turn": (7, 7), "edge": (8, 7), "entity": (8, 4),
        "person": (2, 2)}  # fmt: skip
"""Turns and edges of dialogue d afterwards, of 8 and 8."""


def sessions() -> list[dict[str, Any]]:
    return [
        built_session("d", "s1", facts=FACTS, failures=[MISHAP]),
        built_session("d", "s2", facts=FACTS, day=1),
        built_session("other", "s1", facts=FACTS),
    ]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", *sessions()))
    edges = [row["edge_id"] for session in sessions()[:2] for row in session["edges"]]
    store.touch("default", "d", edges, NOW)
    store.touch("default", "other", [sessions()[2]["edges"][0]["edge_id"]], NOW)
    return store


def size(store: Store, dialogue: str) -> tuple[int, int] | None:
    try:
        graph = store.read_graph("default", dialogue)
    except NotFoundError:
        return None
    return graph.n_turns, graph.n_edges


def content(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Everything visible, but for what differs between runs."""
    return {
        table: sorted(
            (
                {k: v for k, v in row.items() if k not in VARYING_COLUMNS}
                for row in store.visible(table).to_pylist()
            ),
            key=repr,
        )
        for table in store.layout.tables
        if table not in ("forgotten", "accesses")
    }


@pytest.mark.parametrize("scope", SCOPES)
def test_readers_see_no_more_of_it_and_all_of_the_rest(store: Store, scope: str) -> None:
    before = {t: store.visible(t).num_rows for t in store.layout.tables}
    receipt = store.forget("default", Target("d", **SCOPES[scope]), NOW)
    assert size(store, "d") == LEFT[scope]
    assert size(store, "other") == (4, 4)
    assert store.verify() == []
    assert (receipt.scope, receipt.dialogue_id) == (
        "entity" if scope == "person" else scope, "d",
    )  # fmt: skip
    assert (receipt.forgotten_at, receipt.purge_due) == (NOW, True)
    after = {t: store.visible(t).num_rows for t in store.layout.tables}
    assert receipt.rows == {
        t: before[t] - after[t] for t in before if t != "forgotten" and before[t] != after[t]
    }
    assert receipt.versions == {t: store.layout.dataset(t).version for t in receipt.rows}
    assert store.purge_due


@pytest.mark.parametrize("scope", SCOPES)
def test_what_was_forgotten_is_not_written_again_and_what_is_restored_is(
    store: Store, scope: str
) -> None:
    whole = content(store)
    store.forget("default", Target("d", **SCOPES[scope]), NOW)
    left = content(store)
    assert left != whole
    store.append_wave(wave("b2", *sessions(), replace=True))
    assert content(store) == left
    files = store.write_fragments(built(*sessions()), "b3", START)
    store.commit_fragments([files], record_failures(), replace=True)
    assert content(store) == left
    store.append_wave(Wave("b4", START, built(*sessions()), record_failures(), True, restore=True))
    assert content(store) == whole
    store.append_wave(wave("b5", *sessions(), replace=True))
    assert content(store) == whole
    assert store.verify() == []


def test_restored_by_workers_too(store: Store) -> None:
    whole = content(store)
    store.forget("default", Target("d"), NOW)
    files = store.write_fragments(built(*sessions()), "b3", START, restore=True)
    store.commit_fragments([files], record_failures(), replace=True, restore=True)
    assert content(store) == whole


def test_a_wave_is_restored_in_one_write(store: Store) -> None:
    store.forget("default", Target("d"), NOW)
    before = store.layout.dataset("forgotten").version
    store.append_wave(Wave("b4", START, built(*sessions()), record_failures(), restore=True))
    assert store.layout.dataset("forgotten").version == before + 1
    assert size(store, "d") == (8, 8)


def test_a_forget_during_a_restoring_write_is_not_lifted_with_what_was_forgotten_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after the writer has looked at the marks, before it lifts them."""

    def late(*args: Any) -> None:
        monkeypatch.setattr(forgetting, "lift_marks", lift)
        store.forget("default", Target("d", "s2"), NOW)
        lift(*args)

    lift = forgetting.lift_marks
    store.forget("default", Target("d", "s1"), NOW)
    monkeypatch.setattr(forgetting, "lift_marks", late)
    store.append_wave(Wave("b4", START, built(*sessions()), record_failures(), restore=True))
    assert {row["session_id"] for row in store.sessions_of("default", "d").to_pylist()} == {"s1"}
    assert store.verify() == []


@pytest.mark.parametrize("before", [None, "edge"])
@pytest.mark.parametrize("by_workers", [False, True])
def test_only_what_a_restoring_job_knew_at_its_start_is_lifted(
    store: Store, by_workers: bool, before: str | None
) -> None:
    """Its models run for hours; what is forgotten meanwhile has a receipt that it is gone."""
    if before:
        store.forget("default", Target("d", **SCOPES[before]), NOW)
    at_start = store.forgotten("default")
    store.forget("default", Target("d", "s2"), NOW)
    if by_workers:
        files = store.write_fragments(built(*sessions()), "b4", START, restore=True)
        store.commit_fragments(
            [files], record_failures(), replace=True, restore=True, forgotten=at_start
        )
    else:
        given = Wave("b4", START, built(*sessions()), record_failures(), True, restore=True)
        store.append_wave(given, at_start)
    assert size(store, "d") == (4, 4)
    assert store.verify() == []


@pytest.mark.parametrize("scope", ["dialogue", "turn"])
def test_a_forget_during_a_write_wins(
    store: Store, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after the writer has looked at the marks, before its sessions are named."""
    from glong.store import waves

    def late(layout: Any, rows: Any, **options: Any) -> int:
        monkeypatch.setattr(waves, "merge_manifest", merge)
        store.forget("default", Target("d", **SCOPES[scope]), NOW)
        return merge(layout, rows, **options)

    merge = waves.merge_manifest
    monkeypatch.setattr(waves, "merge_manifest", late)
    store.append_wave(wave("b2", *sessions(), replace=True))
    assert size(store, "d") == LEFT[scope]
    assert store.verify() == []


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("scope", ["session", "edge"])
@pytest.mark.parametrize("step", ["sweep", "append_rows", "delete_writes", "delete_lost_accesses"])
def test_a_forget_that_is_killed_is_mended_by_a_purge(
    store: Store, scope: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*args: Any, **options: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(forgetting if step == "sweep" else sweeping, step, killed)
        store.forget("default", Target("d", **SCOPES[scope]), NOW)
    store.purge(NOW)
    assert size(store, "d") == LEFT[scope]
    assert store.verify() == []
    assert set(store.status().garbage_rows.values()) == {0}


def test_marks_that_no_sweep_has_followed_are_a_violation(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(forgetting, "sweep", lambda *args: Counter())
        store.forget("default", Target("d", edge_id=SCOPES["edge"]["edge_id"]), NOW)
    (found,) = store.verify()
    assert (found.table, found.rule, found.n) == ("edges", "forgotten", 1)


@pytest.mark.parametrize(
    "target",
    [
        {"dialogue_id": "none"},
        {"dialogue_id": "d", "session_id": "none"},
        {"dialogue_id": "d", "session_id": "s1", "turn_index": 4},
        {"dialogue_id": "d", "edge_id": "none"},
        {"dialogue_id": "d", "edge_id": "x' OR '1' = '1"},
        {"dialogue_id": "d", "entity": "nobody"},
        {"dialogue_id": "d", "entity": "nobody", "turns": True},
        {"dialogue_id": "d", "entity": "!"},
    ],
)
def test_what_is_not_there_is_not_found(store: Store, target: dict[str, Any]) -> None:
    with pytest.raises(NotFoundError, match="check the ids"):
        store.forget("default", Target(**target), NOW)
    assert not store.forgotten()
    assert size(store, "d") == (8, 8)


@pytest.mark.parametrize("scope", SCOPES)
def test_another_tenant_finds_nothing(store: Store, scope: str) -> None:
    with pytest.raises(NotFoundError):
        store.forget("acme", Target("d", **SCOPES[scope]), NOW)
    assert size(store, "d") == (8, 8)


@pytest.mark.parametrize(
    "target",
    [
        {"session_id": "s1", "edge_id": "e"},
        {"turn_index": 1},
        {"turn_index": 1, "entity": "Rex"},
        {"turns": True},
    ],
)
def test_what_is_not_one_thing_is_refused(target: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Target("d", **target)


def test_an_entity_is_found_by_its_id_and_by_an_alias(store: Store) -> None:
    by_id = ids.entity_id(ids.dialogue_key("default", "d"), "rex")
    store.forget("default", Target("d", entity=by_id), NOW)
    assert "Rex" not in store.read_graph("default", "d").entity_names
    store.forget("default", Target("d", entity="MIRA"), NOW)
    assert "Mira" not in store.read_graph("default", "d").entity_names


@pytest.mark.parametrize(
    ("table", "target"),
    [
        ("turns", SCOPES["turn"]),
        ("edges", SCOPES["edge"]),
        ("entities", {"entity": "REX"}),
        ("turns", {"entity": "bowl", "turns": True}),
    ],
)
def test_it_is_found_while_another_rewrites_the_only_session_that_has_it(
    tmp_path: Path, table: str, target: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", sessions()[0]))
    when_read(monkeypatch, table, lambda: rewritten(store))
    assert store.forget("default", Target("d", **target), NOW).rows
    assert store.verify() == []


def test_a_whole_thing_can_be_forgotten_twice(store: Store) -> None:
    store.forget("default", Target("d"), NOW)
    again = store.forget("default", Target("d"), NOW + timedelta(days=1))
    assert again.rows == {}


def test_access_times_of_forgotten_edges_go_and_do_not_come_back(store: Store) -> None:
    edge = SCOPES["edge"]["edge_id"]
    receipt = store.forget("default", Target("d", edge_id=edge), NOW)
    assert receipt.rows["accesses"] == 1
    store.touch("default", "d", [edge, sessions()[0]["edges"][0]["edge_id"]], NOW)
    used = store.visible("accesses")["edge_id"].to_pylist()
    assert edge not in used
    assert len(used) == 9


def test_failures_that_repeat_what_was_forgotten_go_and_stay_away(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    passing = Failure("extract", "unavailable", "down", "Mira likes corn", transient=True)
    pending = built_session("d", "s2", status="pending", failures=[passing])
    broken = [
        Failure("read", "bad_time", "no time", '{"dialogue_id": "d"}', Place("a", 1)),
        Failure("read", "bad_time", "no time", '{"dialogue_id": "e"}', Place("a", 2)),
    ]
    records = record_failures(*broken)
    store.append_wave(Wave("b", START, built(built_session("d", "s1"), pending), records))
    receipt = store.forget("default", Target("d"), NOW)
    assert receipt.rows["failures"] == 2
    store.append_wave(Wave("c", START, built(pending), records))
    assert store.visible("failures")["raw"].to_pylist() == ['{"dialogue_id": "e"}']


def test_the_content_hash_is_that_of_the_session_as_a_later_build_sees_it(tmp_path: Path) -> None:
    from glong.types import Session, Turn

    store = new_store(tmp_path / "s")
    for n, own_times in enumerate((True, False)):
        times = [START + timedelta(minutes=i) if own_times else None for i in range(2)]
        turns = [Turn(i, "Mira", f"text {i}", time) for i, time in enumerate(times)]
        session = built_session("d", f"s{n}", facts=FACTS[:2])
        whole = Session("d", f"s{n}", START, tuple(turns))
        session["content_hash"] = ids.content_hash(whole)
        for row, turn in zip(session["turns"], turns, strict=True):
            row |= {"text": turn.text, "time": turn.time or START, "vector": unit_vector("x")}
        store.append_wave(wave(f"b{n}", session))
        store.forget("default", Target("d", f"s{n}", 0), NOW)
        left = store.forgotten().strip("default", whole)
        assert left is not None
        assert len(left.turns) == 1
        rows = store.manifest().to_pylist()
        (stored,) = [row["content_hash"] for row in rows if row["session_id"] == f"s{n}"]
        assert stored == ids.content_hash(left)


def test_a_reader_never_sees_half_of_a_forget(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glong.store import reading

    def late(layout: Any, table: str, *args: Any) -> Any:
        if table == "entities":
            monkeypatch.setattr(reading, "read_visible", read)
            store.forget("default", Target("d", session_id="s1", turn_index=0), NOW)
        return read(layout, table, *args)

    read = reading.read_visible
    monkeypatch.setattr(reading, "read_visible", late)
    graph = read_graph(store.layout, "default", "d")
    assert (graph.n_turns, graph.n_edges) == (7, 7)
