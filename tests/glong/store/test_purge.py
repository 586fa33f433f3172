"""After a purge nothing is left on the disk; the search first proves that it would find it."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from lance.file import LanceFileReader

from glong import ids
from glong.store import Store, Target, Wave, purge, upkeep
from glong.store.origins import read_export
from glong.store.transfer import add_rows
from glong.types import Failure, Place
from tests.glong.store.rows import (
    START,
    built,
    built_session,
    new_store,
    record_failures,
    wave,
)

NOW = datetime(2026, 2, 1, tzinfo=UTC)
DIALOGUE = ids.dialogue_key("default", "Xdialogue")
KEY = ids.session_key("default", "Xdialogue", "Xsession")
FACTS = (
    ("Zed", "likes", "corn"),
    ("Xena", "likes", "Xcorn"),
    ("Zed", "knows", "Xena"),
    ("Xena", "likes", "Xcorn"),
)
EDGE = ids.edge_id(KEY, 1, ("xena", "likes", "xcorn"))
SCOPES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    # what to forget -> what may not be found afterwards
    "dialogue": ({}, ("Xdialogue", "Xsession", "Xena", "Xcorn", "XENA", DIALOGUE, KEY, EDGE)),
    "session": ({"session_id": "Xsession"}, ("Xsession", "Xena", "Xcorn", KEY, EDGE)),
    "turn": ({"session_id": "Xsession", "turn_index": 1}, ("Xcorn", "XCORN", EDGE)),
    "edge": ({"edge_id": EDGE}, (EDGE,)),
    "person": ({"entity": "Xena", "turns": True}, ("Xena", "Xcorn", "XENA", EDGE)),
}


def made(path: Path) -> Store:
    """The session has been built twice and was used; other sessions share files with it or not."""
    store = new_store(path)
    session = built_session("Xdialogue", "Xsession", facts=FACTS, failures=[MISHAP])
    others = [built_session("Xdialogue", "s2", facts=[("Zed", "likes", "corn")])]
    others += [built_session("e", f"s{i}", facts=[("Tom", "likes", "figs")]) for i in range(3)]
    store.append_wave(wave("b1", session | {"content_hash": "old"}, *others))
    for table in store.layout.tables:
        upkeep.carry_out(store.layout, table, upkeep.Upkeep.INDEX, older_than=timedelta(0))
    broken = Failure("read", "bad_time", "no", '{"dialogue_id": "Xdialogue"} Xena', Place("a", 1))
    alone = Wave("b2", START, built(session), record_failures(broken))
    store.append_wave(alone)  # a session alone in its fragment
    for table in store.layout.tables:
        upkeep.carry_out(store.layout, table, upkeep.Upkeep.INDEX, older_than=timedelta(0))
    store.touch("default", "Xdialogue", [row["edge_id"] for row in session["edges"]], NOW)
    store.write_fragments(built(session), "b3", START)  # of a job that died before its commit
    return store


MISHAP = Failure("extract", "bad_json", "no JSON", "Xena likes Xcorn")


def texts(uri: str) -> Iterator[tuple[str, str]]:
    """(file or version, all of it as text): bytes, files decoded, every version read."""
    for path in sorted(Path(uri).rglob("*")):
        if path.is_dir():
            continue
        yield str(path), repr(path.read_bytes())
        if path.suffix in (".lance", ".idx"):
            with contextlib.suppress(OSError, ValueError):
                rows = LanceFileReader(str(path)).read_all().to_table()
                yield f"{path} decoded", repr(rows.to_pylist())
    for table in sorted(Path(uri).glob("*.lance")):
        for version in lance.dataset(str(table)).versions():
            number = version["version"]
            with contextlib.suppress(OSError, ValueError):
                rows = lance.dataset(str(table), version=number).to_table().to_pylist()
                yield f"{table} version {number}", repr(rows)


def places(uri: str, marker: str) -> list[str]:
    return [place for place, text in texts(uri) if marker in text]


def kinds(found: list[str]) -> set[str]:
    """Which kinds of places a marker was found in."""
    names = ("data/", "_indices/", "_transactions/", " version ", " decoded")
    return {name for name in names for place in found if name in place}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return made(tmp_path_factory.mktemp("purge") / "s")


def test_the_search_finds_what_is_there(original: Store) -> None:
    for marker in SCOPES["dialogue"][1]:
        assert places(original.uri, marker), marker
    assert {"data/", " decoded", " version "} <= kinds(places(original.uri, "Xcorn"))
    assert "_indices/" in kinds(places(original.uri, DIALOGUE))


@pytest.mark.parametrize("scope", SCOPES)
def test_nothing_is_left_on_the_disk(tmp_path: Path, scope: str) -> None:
    store = made(tmp_path / "s")
    target, markers = SCOPES[scope]
    store.forget("default", Target("Xdialogue", **target), NOW)
    found = {marker: places(store.uri, marker) for marker in markers}
    assert all(" version " in kinds(found[m]) for m in markers if found[m])
    assert found[markers[0]]  # old versions, files and index pages still hold it
    if scope in ("dialogue", "session"):
        assert "_transactions/" in kinds(places(store.uri, KEY))  # predicates name hashes only
    for place in (p for m in markers if m[0] == "X" for p in found[m]):
        assert "_transactions/" not in place
    store.purge(NOW)
    for marker in markers:
        assert places(store.uri, marker) == [], marker
    assert store.verify() == []
    assert store.read_graph("default", "e").n_edges == 3
    if scope not in ("dialogue",):
        assert store.read_graph("default", "Xdialogue").n_edges >= 1
    status = store.status()
    assert set(status.garbage_rows.values()) == {0}
    assert all(n == 1 for t, n in status.versions.items() if t != "forgotten")
    assert not store.purge_due


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["sweep", "_delete_garbage", "delete_lost_accesses", "_reindex"])
@pytest.mark.parametrize("before", [True, False])
def test_a_purge_that_is_killed_ends_the_same_when_it_is_run_again(
    tmp_path: Path, step: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = made(tmp_path / "s")
    store.forget("default", Target("Xdialogue"), NOW)
    real = getattr(purge, step)

    def killed(*args: Any) -> Any:
        if not before:
            real(*args)
        raise Killed

    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(purge, step, killed)
        store.purge(NOW)
    assert store.purge_due
    assert store.read_graph("default", "e").n_edges == 3
    store.purge(NOW)
    assert [places(store.uri, marker) for marker in ("Xena", DIALOGUE)] == [[], []]
    assert store.verify() == []


def test_a_purge_of_a_store_without_rows_or_a_second_one_changes_nothing(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    assert not store.purge_due
    assert set(store.purge(NOW).rows.values()) == {0}
    store.append_wave(wave("b", built_session("d", "s")))
    assert set(store.purge(NOW).rows.values()) == {0}
    done = store.purge(NOW)
    assert done.bytes_after is not None
    assert done.bytes_before == pytest.approx(done.bytes_after, abs=4000)
    assert store.read_graph("default", "d").n_edges == 2


def test_a_purge_is_due_after_an_import_of_marks_that_are_older_than_the_last_one(
    tmp_path: Path,
) -> None:
    store, other = made(tmp_path / "s"), made(tmp_path / "other")
    store.forget("default", Target("e"), NOW)
    store.purge(NOW)
    other.forget("default", Target("Xdialogue"), NOW - timedelta(days=9))
    other.export(tmp_path / "out", with_vectors=True)
    assert not store.purge_due
    list(add_rows(store, read_export(tmp_path / "out", store), NOW, None))
    assert places(store.uri, "Xena")
    assert store.purge_due
    store.purge(NOW)
    assert not places(store.uri, "Xena")
    assert not store.purge_due


def test_text_indexes_are_made_anew_and_others_refused(tmp_path: Path) -> None:
    store = made(tmp_path / "s")
    store.layout.dataset("turns").create_scalar_index("text", "INVERTED")
    store.forget("default", Target("Xdialogue"), NOW)
    store.purge(NOW)
    assert places(store.uri, "xcorn") == []
    turns = store.layout.dataset("turns")
    assert turns.to_table(full_text_query="figs").num_rows == 3
