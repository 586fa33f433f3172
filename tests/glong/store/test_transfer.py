import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glong.errors import ConfigError, ConflictError
from glong.models.fake import FakeEncoder, FakeScorer
from glong.store import Store, StoreMeta, Target, Wave, origins, transfer
from glong.store.checks import verify
from glong.store.layout import Layout
from glong.store.lease import alone
from glong.store.origins import read_export, read_store
from glong.store.transfer import add_rows, reweigh
from glong.tables import VARYING_COLUMNS
from glong.types import Failure, Place
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


def test_a_wrong_encoder_is_refused_before_anything_is_written(
    store: Store, tmp_path: Path
) -> None:
    store.forget("default", Target("d", "s1"), START)
    other = Store.create_or_open(str(tmp_path / "other"), OTHER)
    with pytest.raises(ConfigError, match="give the models of the store"):
        list(add_rows(other, read_store(store, 8), START, FakeEncoder(4)))
    assert {other.layout.dataset(table).version for table in other.layout.tables} == {1}


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


@pytest.mark.parametrize("target", [Target("d", "s1"), Target("d"), Target("d", entity="Rex")])
def test_what_the_source_forgets_later_leaves_the_other_store_at_the_next_run(
    store: Store, tmp_path: Path, target: Target
) -> None:
    other = Store.create_or_open(str(tmp_path / "other"), OTHER)
    assert sum(add_rows(other, read_store(store, 8), START, ENCODER)) == 3
    store.forget("default", target, START)
    assert sum(add_rows(other, read_store(store, 8), START, ENCODER)) == 0
    without = ("vector", "encoder")
    assert exported(other, tmp_path / "a", *without) == exported(store, tmp_path / "b", *without)
    assert verify(other.layout) == []


def test_a_mark_that_is_imported_counts_for_what_is_there_and_for_failures_of_records(
    tmp_path: Path,
) -> None:
    stores = [new_store(tmp_path / name) for name in ("a", "b")]
    broken = Failure("read", "bad_time", "no", '{"dialogue_id": "d"}', Place("in.jsonl", 7))
    for store in stores:
        store.append_wave(Wave("b1", START, built(*SESSIONS), record_failures(broken)))
    stores[0].forget("default", Target("d"), START)
    stores[0].export(tmp_path / "out", with_vectors=True)
    list(add_rows(stores[1], read_export(tmp_path / "out", stores[1]), START, None))
    assert exported(stores[1], tmp_path / "x") == exported(stores[0], tmp_path / "y")
    assert stores[1].visible("failures").num_rows == 0


@pytest.fixture
def one_a_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "WAVE_SESSIONS", 1)


@pytest.mark.usefixtures("one_a_wave")
@pytest.mark.parametrize("n_waves", [0, 1, 2])
def test_what_the_source_forgets_meanwhile_arrives_neither_in_part_nor_without_its_mark(
    store: Store, tmp_path: Path, n_waves: int
) -> None:
    other = Store.create_or_open(str(tmp_path / "other"), OTHER)
    waves = add_rows(other, read_store(store, 8), START, ENCODER)
    assert sum(next(waves) for _ in range(n_waves)) >= n_waves
    store.forget("default", Target("d", "s1"), START)
    store.forget("acme", Target("e", edge_id=SESSIONS[2]["edges"][0]["edge_id"]), START)
    list(waves)
    assert verify(other.layout) == []
    assert other.visible("forgotten").num_rows == store.visible("forgotten").num_rows
    without = ("vector", "encoder")
    assert exported(other, tmp_path / "a", *without) == exported(store, tmp_path / "b", *without)


def test_a_session_with_other_edges_is_replaced_once_though_its_content_is_equal(
    store: Store, tmp_path: Path
) -> None:
    store.export(tmp_path / "out", with_vectors=True)
    other = new_store(tmp_path / "other")
    more = (("Mira", "likes", "corn"), ("Mira", "has_pet", "Rex"), ("Mira", "likes", "figs"))
    other.append_wave(wave("b1", built_session("d", "s1", facts=more)))
    assert sum(add_rows(other, read_export(tmp_path / "out", other), START, None)) == 3
    assert other.read_graph("default", "d").n_edges == 2
    assert sum(add_rows(other, read_export(tmp_path / "out", other), START, None)) == 0


@pytest.mark.usefixtures("one_a_wave")
def test_a_session_that_is_built_again_meanwhile_is_not_replaced(
    store: Store, tmp_path: Path
) -> None:
    store.export(tmp_path / "out", with_vectors=True)
    other = new_store(tmp_path / "other")
    waves = add_rows(other, read_export(tmp_path / "out", other), START, None)
    next(waves)
    for dialogue, tenant in (("d", "default"), ("e", "acme")):
        newer = built_session(dialogue, "s1", tenant=tenant, content="newer")
        other.append_wave(wave(f"new-{dialogue}", newer))
    list(waves)
    contents = {row["session_id"]: row["content_hash"] for row in other.manifest().to_pylist()}
    assert contents == {"s1": "newer", "s2": "c1"}
    assert verify(other.layout) == []


def test_no_purge_begins_while_keys_marks_and_accesses_are_written(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_purge(name: str) -> None:
        write = getattr(transfer, name)

        def written(layout: Layout, what: Any) -> Any:
            with pytest.raises(ConflictError, match="Others are writing"), alone(layout, wait_s=0):
                pass
            done.extend(what if name == "append_rows" else [name])
            return write(layout, what)

        monkeypatch.setattr(transfer, name, written)

    done: list[str] = []
    store.forget("default", Target("d", "s2"), START)
    store.export(tmp_path / "out", with_vectors=True)
    other = new_store(tmp_path / "other")
    without_purge("add_secrets")
    without_purge("append_rows")
    list(add_rows(other, read_export(tmp_path / "out", other), START, None))
    assert list(dict.fromkeys(done)) == ["add_secrets", "forgotten", "accesses"]
    assert verify(other.layout) == []


@pytest.mark.usefixtures("one_a_wave")
def test_the_manifest_is_read_as_often_for_many_waves_and_upkeep_follows_each(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(name: str) -> None:
        method = getattr(Store, name)

        def call(self: Store, *args: Any, **options: Any) -> Any:
            calls.append(name)
            return method(self, *args, **options)

        monkeypatch.setattr(Store, name, call)

    store.export(tmp_path / "out", with_vectors=True)
    calls: list[str] = []
    counted("manifest")
    counted("routine")
    counts = []
    for n, parts in enumerate((slice(0, 0), slice(0, 3))):
        other = new_store(tmp_path / f"other{n}")
        tables = read_export(tmp_path / "out", other)
        tables = replace(tables, parts=list(tables.parts)[parts])
        calls.clear()
        list(add_rows(other, tables, START, None))
        counts.append((calls.count("manifest"), calls.count("routine")))
    assert counts[0][0] == counts[1][0]
    assert [n for _, n in counts] == [0, 3]
    calls.clear()
    assert len(list(reweigh(store, FakeScorer(), START))) == calls.count("routine") == 2


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
