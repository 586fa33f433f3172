from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from glong.errors import ConflictError, SourceError
from glong.store import Store, Target, regroup
from glong.store.forgetting import forget
from glong.store.origins import read_export, read_store
from tests.glong.store.rows import START, built_session, new_store, wave

SESSIONS = (
    built_session("d", "s1"),
    built_session("d", "s2", day=1, timed=False, facts=()),
    built_session("e", "s1", tenant="acme"),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", *SESSIONS))
    return store


def test_a_session_that_lost_rows_while_it_was_read_is_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget_first(layout: Any, table: str, *args: Any) -> Any:
        if table == "edges" and (target := todo.pop() if todo else None):
            forget(layout, "default", target, START)
        return read(layout, table, *args)

    todo = [Target("d", edge_id=SESSIONS[0]["edges"][0]["edge_id"])]
    read = regroup.read_visible
    monkeypatch.setattr(regroup, "read_visible", forget_first)
    tables = read_store(store, 8)
    rows = pa.concat_tables(tables.parts).to_pylist()
    assert [len(row["edges"]) for row in rows] == [row["n_edges"] for row in rows]
    assert sorted(row["n_edges"] for row in rows) == [0, 1, 2]


def test_rows_that_are_missing_for_good_are_named(store: Store) -> None:
    store.layout.dataset("edges").delete("dialogue_id = 'd'")
    with pytest.raises(ConflictError, match=r"'s1' of dialogue 'd'.*`verify`"):
        list(read_store(store, 8).parts)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "edges.jsonl, line 1"),
        ("{}\n", "columns are"),
        ("[]\n", "line 1"),
        (None, "cannot be read"),
    ],
)
def test_a_broken_export_is_named(
    store: Store, tmp_path: Path, text: str | None, says: str
) -> None:
    store.export(tmp_path / "a")
    path = tmp_path / "a" / "edges.jsonl"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(SourceError, match=says):
        read_export(tmp_path / "a", store)
