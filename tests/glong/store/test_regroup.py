from pathlib import Path

from glong.store.regroup import read_built
from glong.types import Failure
from tests.glong.store.rows import built, built_session, new_store, wave


def test_stored_sessions_come_back_as_they_were_built(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    mishap = Failure("extract", "bad_json", "no JSON", "x")
    sessions = [
        built_session("d", "s2", failures=[mishap]),
        built_session("e", "s1", facts=()),
        built_session("d", "s1", day=1),
    ]
    store.append_wave(wave("b0", sessions[0] | {"content_hash": "old"}))
    store.append_wave(wave("b1", *sessions))
    manifest = store.manifest()
    expected = {row["session_key"]: row for row in built(*sessions).to_pylist()}
    found = read_built(store.layout, manifest).to_pylist()
    assert [row["session_key"] for row in found] == manifest["session_key"].to_pylist()
    for row in found:
        assert row == expected[row["session_key"]]


def test_without_vectors_null_ones_of_another_dimension_stand_in_their_place(
    tmp_path: Path,
) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s1")))
    (row,) = read_built(store.layout, store.manifest(), without_vectors=7).to_pylist()
    assert row["edges"][0]["vector"] is None
    assert row["edges"][0]["subject"] == "Mira"
