import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from glong.errors import ConflictError
from glong.store import Store, Target, Wave, export
from glong.store.layout import Layout
from glong.tables import VARYING_COLUMNS
from glong.types import Failure
from tests.glong.store.rows import (
    START,
    broken_line,
    built,
    built_session,
    new_store,
    record_failures,
    wave,
)

MISHAP = Failure("extract", "bad_json", "kein JSON: ä", "\u2028")
SESSIONS = (
    built_session("d", "s1", failures=[MISHAP]),
    built_session("d", "s2", day=1, timed=False),
    built_session("e", "s1", tenant="acme"),
)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def without_varying(path: Path) -> list[str]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines(path)]
    kept = [{k: v for k, v in row.items() if k not in VARYING_COLUMNS} for row in rows]
    return [json.dumps(row, sort_keys=True) for row in kept]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "s")
    store.append_wave(Wave("b1", START, built(*SESSIONS), record_failures(broken_line(1))))
    return store


def test_stores_with_equal_content_export_equal_bytes(store: Store, tmp_path: Path) -> None:
    other = new_store(tmp_path / "other")
    for n, session in enumerate(reversed(SESSIONS)):
        other.append_wave(wave(f"garbage{n}", session | {"content_hash": "old"}))
        other.append_wave(Wave(f"c{n}", START, built(session), record_failures(broken_line(1))))
    assert store.export(tmp_path / "a") == other.export(tmp_path / "b")
    for table in store.layout.tables:
        a, b = (without_varying(tmp_path / name / f"{table}.jsonl") for name in "ab")
        assert a == b
    assert len(lines(tmp_path / "a" / "edges.jsonl")) == 6


def test_exporting_twice_gives_the_same_bytes_whatever_the_chunk(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.export(tmp_path / "a", with_vectors=True)
    monkeypatch.setattr(export, "ROWS_AT_ONCE", 2)
    store.export(tmp_path / "b", with_vectors=True)
    for table in store.layout.tables:
        name = f"{table}.jsonl"
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_rows_are_sorted_keys_too_and_times_are_rfc_3339(store: Store, tmp_path: Path) -> None:
    store.export(tmp_path / "out")
    rows = [json.loads(line) for line in lines(tmp_path / "out" / "edges.jsonl")]
    ids = [row["edge_id"] for row in rows]
    assert ids == sorted(ids)
    assert list(rows[0]) == sorted(rows[0])
    assert "vector" not in rows[0]
    assert {row["created_at"] for row in rows} == {"2026-01-05T10:00:00Z", None}


def test_vectors_come_when_asked_for(store: Store, tmp_path: Path) -> None:
    store.export(tmp_path / "out", with_vectors=True)
    assert len(json.loads(lines(tmp_path / "out" / "turns.jsonl")[0])["vector"]) == 4


def test_one_tenant_gets_only_its_rows(store: Store, tmp_path: Path) -> None:
    rows = store.export(tmp_path / "out", tenant="acme")
    assert (rows["sessions"], rows["edges"], rows["failures"]) == (1, 2, 0)
    assert {json.loads(r)["tenant"] for r in lines(tmp_path / "out" / "edges.jsonl")} == {"acme"}


def test_an_empty_store_exports_empty_files(tmp_path: Path) -> None:
    new_store(tmp_path / "s").export(tmp_path / "out")
    assert (tmp_path / "out" / "edges.jsonl").read_text() == ""
    assert sorted(p.suffix for p in (tmp_path / "out").iterdir()) == [".jsonl"] * 7


def before_opening(patch: pytest.MonkeyPatch, table: str, acts: list[Callable[[], object]]) -> None:
    """Do one thing each time that the table is opened, until nothing is left to do."""
    opened = Layout.dataset

    def dataset(layout: Layout, name: str, version: int | None = None) -> Any:
        if name == table and acts:
            act, *left = acts
            acts[:] = []  # what it opens itself does not count
            act()
            acts[:] = left
        return opened(layout, name, version)

    patch.setattr(Layout, "dataset", dataset)


@pytest.mark.parametrize("table", ["turns", "entities", "edges"])
def test_what_is_forgotten_meanwhile_is_in_no_table(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    before_opening(monkeypatch, table, [lambda: store.forget("default", Target("d", "s1"), START)])
    rows = store.export(tmp_path / "out")
    assert (rows["sessions"], rows["turns"], rows["edges"]) == (2, 4, 4)
    assert rows["forgotten"] == len(lines(tmp_path / "out" / "forgotten.jsonl")) > 0


@pytest.mark.parametrize("table", ["turns", "entities", "edges"])
def test_one_dialogue_is_whole_whatever_is_forgotten_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    before_opening(monkeypatch, table, [lambda: store.forget("default", Target("d", "s1"), START)])
    document = store.export_dialogue("default", "d")
    assert [len(document[name]) for name in ("sessions", "turns", "edges")] == [1, 2, 2]


@pytest.mark.parametrize(
    "read",
    [lambda store, out: store.export(out), lambda store, _: store.export_dialogue("default", "m")],
    ids=["tables", "dialogue"],
)
def test_an_export_that_forgetting_overtakes_every_time_gives_up_and_writes_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[..., object]
) -> None:
    store.append_wave(wave("d", *(built_session("m", f"s{n}") for n in range(12))))
    targets = [Target("m", f"s{n}") for n in range(12)]
    acts = [partial(store.forget, "default", target, START) for target in targets]
    before_opening(monkeypatch, "turns", [*acts])
    with pytest.raises(ConflictError, match="forgotten while"):
        read(store, tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))


def test_waves_that_are_added_meanwhile_do_not_hold_an_export_up(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waves = [wave(f"d{n}", built_session("many", f"s{n}")) for n in range(9)]
    before_opening(monkeypatch, "turns", [partial(store.append_wave, w) for w in waves])
    assert store.export(tmp_path / "out")["sessions"] == 3


def test_what_is_left_of_a_damaged_store_is_exported(store: Store, tmp_path: Path) -> None:
    store.layout.dataset("edges").delete("dialogue_id = 'e'")
    assert store.export(tmp_path / "out")["edges"] == 4
    assert store.export_dialogue("acme", "e")["edges"] == []
