from pathlib import Path

from glong.store.deleting import delete_by, delete_writes, deletions
from tests.glong.store.rows import built_session, new_store, wave


def test_deletions_name_hashes_only_and_split_long_lists() -> None:
    assert list(deletions({("k1", "b"), ("k2", "b"), ("k1", "c")})) == [
        "batch_id = 'b' AND session_key IN ('k1', 'k2')",
        "batch_id = 'c' AND session_key IN ('k1')",
    ]
    assert len(list(deletions({(str(i), "b") for i in range(1001)}))) == 2


def test_only_what_is_named_is_deleted_and_counted(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    one, other = built_session("d", "s1"), built_session("d", "s2")
    store.append_wave(wave("b", one, other))
    edge_ids = [one["edges"][0]["edge_id"], other["edges"][1]["edge_id"]]
    many = [*edge_ids, *map(str, range(2000))]
    assert delete_by(store.layout, "edges", "edge_id", many) == 2
    assert delete_by(store.layout, "edges", "edge_id", []) == 0
    write = (one["session_key"], "b")
    assert delete_writes(store.layout, "turns", {write, (one["session_key"], "another")}) == 2
    assert store.layout.dataset("turns").count_rows() == 2
