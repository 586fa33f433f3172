"""Forgetting beside others: whatever comes in between, nothing forgotten stays or comes back."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from glong.errors import ConflictError, NotFoundError
from glong.store import Store, Target, Wave, sweeping, waves
from glong.store.waves import write_wave
from glong.types import Failure
from tests.glong.store.rows import (
    START,
    built,
    built_session,
    new_store,
    record_failures,
    rewritten,
    wave,
    when_read,
)

NOW = datetime(2026, 2, 1, tzinfo=UTC)
FACTS = (("Mira", "likes", "corn"), ("Mira", "has_pet", "Rex"), ("Tom", "feeds", "Rex"))
SESSION = built_session("d", "s1", facts=FACTS)
TURNS = [Target("d", "s1", index) for index in range(3)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b0", SESSION))
    return store


def texts(store: Store) -> list[str]:
    return sorted(store.visible("turns", columns=["text"])["text"].to_pylist())


def before(patch: pytest.MonkeyPatch, name: str, other: Callable[[], object]) -> None:
    """Have something else happen right before the first call of a function of the module."""
    real = getattr(sweeping, name)

    def late(*args: Any, **options: Any) -> Any:
        patch.setattr(sweeping, name, real)
        other()
        return real(*args, **options)

    patch.setattr(sweeping, name, late)


def test_two_that_rewrite_one_session_at_once_leave_neither_part(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read it; the first to name its rows knows only of its own part."""
    merge = sweeping.merge_manifest
    receipts = []

    def first(*args: Any, **options: Any) -> int:
        versions = []

        def second(*later: Any, **later_options: Any) -> int:
            monkeypatch.setattr(sweeping, "merge_manifest", merge)
            versions.append(merge(*args, **options))
            return merge(*later, **later_options)

        monkeypatch.setattr(sweeping, "merge_manifest", second)
        receipts.append(store.forget("default", TURNS[1], NOW))
        return versions[0]

    monkeypatch.setattr(sweeping, "merge_manifest", first)
    receipts.append(store.forget("default", TURNS[0], NOW))
    assert texts(store) == ["Tom feeds Rex"]
    assert [receipt.rows["turns"] for receipt in receipts] == [1, 1]
    assert store.verify() == []


def test_what_another_took_out_is_counted_by_that_one_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts = []
    before(
        monkeypatch,
        "merge_manifest",
        lambda: receipts.append(store.forget("default", TURNS[0], NOW)),
    )
    receipts.append(store.forget("default", TURNS[1], NOW))
    assert texts(store) == ["Tom feeds Rex"]
    assert [receipt.rows.get("turns", 0) for receipt in receipts] == [2, 0]
    assert set(store.status().garbage_rows.values()) == {0}


def test_a_session_that_is_gone_is_not_brought_back_by_one_that_rewrites_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, "merge_manifest", lambda: store.forget("default", Target("d"), NOW))
    store.forget("default", TURNS[0], NOW)
    assert store.manifest().num_rows == 0


def test_a_session_that_is_named_anew_before_it_is_deleted_goes_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew = wave("b1", SESSION | {"content_hash": "c2"})
    before(monkeypatch, "_delete_sessions", lambda: write_wave(store.layout, anew))
    receipt = store.forget("default", Target("d"), NOW)
    assert store.manifest().num_rows == 0
    assert receipt.rows == {"sessions": 1, "turns": 3, "entities": 4, "edges": 3}


@pytest.mark.parametrize("tables", [("turns",), ("turns", "entities", "edges")])
def test_a_session_whose_rows_another_deleted_before_they_were_read_is_looked_at_again(
    store: Store, tables: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def other() -> None:
        anew = built_session("d", "s1", facts=FACTS[1:], content="c2")
        write_wave(store.layout, wave("b1", anew))
        for table in tables:
            store.layout.dataset(table).delete("batch_id = 'b0'")

    before(monkeypatch, "read_built", other)
    store.forget("default", TURNS[1], NOW)
    assert texts(store) == ["Tom feeds Rex"]
    assert store.verify() == []


def test_a_session_that_is_given_again_after_the_marks_were_read_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew = Wave("b1", START, built(SESSION), record_failures(), replace=True, restore=True)
    before(monkeypatch, "read_manifest", lambda: store.append_wave(anew))
    store.forget("default", TURNS[0], NOW)
    assert len(texts(store)) == 3
    assert store.verify() == []


def test_others_that_write_all_the_time_are_a_conflict(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []

    def busy(*args: Any) -> None:
        written.append(f"c{len(written)}")
        write_wave(store.layout, wave(written[-1], SESSION | {"content_hash": written[-1]}))

    monkeypatch.setattr(sweeping, "PASSES", 3)
    monkeypatch.setattr(sweeping, "_delete_sessions", busy)
    with pytest.raises(ConflictError, match="forget it again"):
        store.forget("default", Target("d"), NOW)
    assert len(written) == 3


class Killed(BaseException):
    """The process ends here."""


def grown(store: Store) -> None:
    """A session that grew: what went wrong with its first write is still on the disk."""
    secret = Failure("extract", "bad_json", "no JSON", "Mira says: I have a secret")
    store.append_wave(wave("b1", built_session("e", "s", failures=[secret])))
    store.append_wave(wave("b2", built_session("e", "s", facts=FACTS[:1], content="c2")))
    assert store.visible("failures").num_rows == 0


def test_failures_of_older_writes_of_a_session_that_is_gone_do_not_reappear(store: Store) -> None:
    grown(store)
    store.forget("default", Target("e", "s", 0), NOW)
    assert store.visible("failures").num_rows == 0
    store.purge(NOW)
    assert store.layout.dataset("failures").count_rows() == 0


@pytest.mark.parametrize("step", ["_delete_sessions", "read_named", "_sweep_failures"])
def test_nor_do_they_after_a_kill_and_a_purge(
    store: Store, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*args: Any) -> Any:
        raise Killed

    grown(store)
    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(sweeping, step, killed)
        store.forget("default", Target("e", "s", 0), NOW)
    store.purge(NOW)
    assert store.visible("failures").num_rows == 0
    with pytest.raises(NotFoundError):
        store.read_graph("default", "e")


def waiting() -> dict[str, Any]:
    """A session that was never committed: only what went wrong with it is stored."""
    told = [("down", "Ann feeds Rex."), ("down", "Ann has Rexona."), ("no answer to 'Rex'", "")]
    failures = [Failure("extract", "unavailable", *each, transient=True) for each in told]
    return built_session("d", "s2", status="pending", failures=failures)


def test_failures_of_a_session_that_waits_go_with_a_name_that_they_tell(store: Store) -> None:
    store.append_wave(wave("b1", waiting()))
    receipt = store.forget("default", Target("d", entity="Rex", turns=True), NOW)
    assert receipt.rows["failures"] == 2
    assert store.visible("failures")["raw"].to_pylist() == ["Ann has Rexona."]


def test_nor_do_they_come_back_from_an_older_export(store: Store) -> None:
    store.append_wave(wave("b1", waiting()))
    older = store.visible("failures")
    store.forget("default", Target("d", entity="Rex", turns=True), NOW)
    store.append_wave(Wave("b2", START, built(), older))
    assert store.visible("failures").num_rows == 1


BEN = Target("d", entity="Ben", turns=True)
COPIED = Failure("extract", "copied_example", "no fact of this session", "Ben | has_pet | Rex")
KEPT = Failure("extract", "copied_example", "no fact of this session", "Ann | has_pet | Rex")


def of_untuned_model() -> dict[str, Any]:
    """A session whose failures name someone of whom its turns say nothing."""
    return built_session("d", "s2", failures=[COPIED, KEPT])


def test_failures_of_a_session_that_stays_go_with_a_name_and_stay_away(store: Store) -> None:
    store.append_wave(wave("b1", of_untuned_model(), built_session("d", "s3", facts=[BEN_LIKES])))
    receipt = store.forget("default", BEN, NOW)
    assert receipt.rows["failures"] == 1
    for _ in range(2):
        assert store.visible("failures")["raw"].to_pylist() == [KEPT.raw]
        assert store.verify() == []
        store.append_wave(wave("b2", of_untuned_model(), replace=True))


BEN_LIKES = ("Ben", "likes", "tea")


def test_so_do_those_of_a_session_that_a_writer_is_about_to_name(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*args: Any, **options: Any) -> int:
        monkeypatch.setattr(waves, "merge_manifest", merge)
        store.forget("default", BEN, NOW)
        return merge(*args, **options)

    merge = waves.merge_manifest
    store.append_wave(wave("b1", built_session("d", "s3", facts=[BEN_LIKES])))
    monkeypatch.setattr(waves, "merge_manifest", late)
    store.append_wave(wave("b2", of_untuned_model()))
    assert COPIED.raw not in store.visible("failures")["raw"].to_pylist()
    assert store.verify() == []


def test_accesses_stay_where_another_rewrites_their_session_while_edges_are_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.touch("default", "d", [edge["edge_id"] for edge in SESSION["edges"]], NOW)
    when_read(monkeypatch, "edges", lambda: rewritten(store), columns=["edge_id"])
    store.forget("default", TURNS[0], NOW)
    used = store.visible("accesses")["edge_id"].to_pylist()
    assert sorted(used) == sorted(edge["edge_id"] for edge in SESSION["edges"][1:])
