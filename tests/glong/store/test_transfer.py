import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glong.errors import ConfigError, SourceError
from glong.models.fake import FakeEncoder, FakeScorer
from glong.store import Store, StoreMeta, Target, Wave
from glong.store.checks import verify
from glong.store.transfer import add_rows, read_export, read_store, reweigh
from glong.tables import VARYING_COLUMNS
from glong.types import Failure
from tests.glong.store.rows import (
    META,
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
    built_session("d", "s2", day=1, timed=False, facts=()),
    built_session("e", "s1", tenant="acme"),
)
ENCODER = FakeEncoder(8)
OTHER = StoreMeta(ENCODER.fingerprint, 8, "p1", "0.1.0")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "s")
    store.append_wave(Wave("b1", START, built(*SESSIONS), record_failures(broken_line(1))))
    store.touch("default", "d", [SESSIONS[0]["edges"][0]["edge_id"]], START)
    return store


def exported(store: Store, out: Path, *without: str) -> dict[str, list[dict[str, Any]]]:
    store.export(out, with_vectors=True)
    return {
        table: [
            {k: v for k, v in json.loads(line).items() if k not in (*VARYING_COLUMNS, *without)}
            for line in (out / f"{table}.jsonl").read_text().split("\n")[:-1]
        ]
        for table in store.layout.tables
    }


def test_an_import_equals_what_was_exported_and_a_second_one_adds_nothing(
    store: Store, tmp_path: Path
) -> None:
    before = exported(store, tmp_path / "a")
    other = new_store(tmp_path / "other")
    assert sum(add_rows(other, read_export(tmp_path / "a", other), START, None)) == 3
    assert exported(other, tmp_path / "b") == before
    versions = {table: other.layout.dataset(table).version for table in other.layout.tables}
    assert sum(add_rows(other, read_export(tmp_path / "a", other), START, None)) == 0
    assert versions == {t: other.layout.dataset(t).version for t in other.layout.tables}
    assert verify(other.layout) == []


def test_an_export_without_vectors_is_embedded(store: Store, tmp_path: Path) -> None:
    store.export(tmp_path / "a")
    other = Store.create_or_open(str(tmp_path / "other"), OTHER)
    with pytest.raises(ConfigError, match="give the models of the store"):
        list(add_rows(other, read_export(tmp_path / "a", other), START, None))
    assert sum(add_rows(other, read_export(tmp_path / "a", other), START, ENCODER)) == 3
    assert verify(other.layout) == []
    rows = other.visible("edges").to_pylist()
    text = "{subject} {relation} {object}".format(**rows[0]).replace("_", " ")
    np.testing.assert_allclose(rows[0]["vector"], ENCODER.encode([text])[0], atol=1e-6)


def test_another_encoder_fills_a_new_store_and_a_second_run_does_nothing(
    store: Store, tmp_path: Path
) -> None:
    store.forget("default", Target("d", edge_id=SESSIONS[0]["edges"][0]["edge_id"]), START)
    other = Store.create_or_open(str(tmp_path / "other"), OTHER)
    assert sum(add_rows(other, read_store(store, 8), START, ENCODER)) == 3
    assert sum(add_rows(other, read_store(store, 8), START, ENCODER)) == 0
    without = ("vector", "encoder")
    assert exported(other, tmp_path / "a", *without) == exported(store, tmp_path / "b", *without)
    assert verify(other.layout) == []
    other.append_wave(Wave("b9", START, _of_other(), record_failures(), replace=True))
    assert other.read_graph("default", "d").n_edges == 1  # forgotten there too


def _of_other() -> Any:
    session = built_session("d", "s1", failures=[MISHAP], dimension=8)
    return built(session | {"encoder": ENCODER.fingerprint}, dimension=8)


def test_what_was_forgotten_here_is_not_imported_and_marks_travel(
    store: Store, tmp_path: Path
) -> None:
    store.export(tmp_path / "old", with_vectors=True)
    store.forget("default", Target("d", "s1"), START)
    assert sum(add_rows(store, read_export(tmp_path / "old", store), START, None)) == 0
    assert store.manifest()["session_id"].to_pylist().count("s1") == 1
    store.export(tmp_path / "new", with_vectors=True)
    keys = tmp_path / "new" / "forgotten_keys.jsonl"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    other = new_store(tmp_path / "other")
    list(add_rows(other, read_export(tmp_path / "new", other), START, None))
    list(add_rows(other, read_export(tmp_path / "old", other), START, None))
    assert sorted(other.manifest()["session_id"].to_pylist()) == ["s1", "s2"]
    assert other.verify() == []


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


def test_another_scorer_weighs_all_sessions_and_a_second_run_none(store: Store) -> None:
    before = store.visible("edges").num_rows
    assert list(reweigh(store, FakeScorer(), START)) == [3]
    assert list(reweigh(store, FakeScorer(), START)) == []
    assert store.verify() == []
    assert store.visible("edges").num_rows == before
    assert store.visible("failures").num_rows == 2
    rows = store.visible("edges", tenant="default").to_pylist()
    texts = ["{subject} {relation} {object}".format(**row).replace("_", " ") for row in rows]
    scores = FakeScorer().weigh([texts])[0]
    np.testing.assert_allclose([row["score"] for row in rows], scores)
    np.testing.assert_allclose([row["weight"] for row in rows], scores / scores.max(), rtol=1e-6)


def test_a_session_without_edges_is_weighed_too_so_that_it_is_not_stale(store: Store) -> None:
    list(reweigh(store, FakeScorer(), START))
    rows = {row["session_id"]: row for row in store.manifest("default").to_pylist()}
    assert rows["s2"]["n_edges"] == 0
    assert rows["s2"]["scorer"] == FakeScorer().fingerprint
    assert rows["s2"]["max_score"] is None


def test_reweighing_goes_on_where_it_was_stopped_and_beside_a_new_build(store: Store) -> None:
    done = reweigh(store, FakeScorer(), START, tenant="acme")
    assert next(done) == 1
    store.append_wave(wave("b2", built_session("d", "s1", content="c2")))
    assert sum(reweigh(store, FakeScorer(), START)) == 2
    assert store.verify() == []
    assert set(store.manifest()["scorer"].to_pylist()) == {FakeScorer().fingerprint}
    assert store.meta == META
