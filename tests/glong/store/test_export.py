import json
from pathlib import Path
from typing import Any

import pytest

from glong.store import Store, Wave, export
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
