"""Reading tasks: what they hand over, how far they read, and what stands in several files."""

import json
from typing import Any

import pyarrow as pa
import pytest

from glong import ids
from glong.build import Fingerprints
from glong.planning import KNOWN_COLUMNS, Rebuild
from glong.store import Forgotten
from glong.store.forgotten import Kind, Mark
from glong.tables import MANIFEST, SESSION
from jobs import reading
from jobs.reading import ReadPlan, list_contents, read_files, repeated
from jobs.stages import split_events
from tests.glong.store.rows import forgotten
from tests.jobs.inputs import dialogue, session, write


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr("ray.get", lambda value: value)
    return {
        "tenant": "t",
        "format_name": "auto",
        "rebuild": Rebuild.NONE,
        "limit": 0,
        "fingerprints": Fingerprints("x", "s", "e"),
        "manifest": MANIFEST.empty_table().select(list(KNOWN_COLUMNS)),
        "forgotten": Forgotten(),
    }


def task(*paths: str, file: int = 0) -> pa.Table:
    return pa.table({"file": [file], "paths": [json.dumps(paths)]})


def read(paths: list[str], plan: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """Session ids and events of one reading task."""
    blocks = list(read_files(task(*paths), ReadPlan(**plan)))
    assert all(block.schema.names == [*SESSION.names, "event"] for block in blocks)
    parts = [split_events(block) for block in blocks]
    found = [i for rows, _ in parts for i in rows.column("session_id").to_pylist()]
    return found, [event for _, events in parts for event in events]


def test_a_reading_task_gives_sessions_failures_and_an_event_a_file(
    tmp_path: Any, plan: dict[str, Any]
) -> None:
    a = write(tmp_path / "a.jsonl", [dialogue("d", 2), "{broken"])
    b = write(tmp_path / "b.jsonl", [dialogue("e", 1)])
    found, events = read([a, b], plan)
    assert found == ["s0", "s1", "s0"]
    failure, first, second = events
    assert (failure["failure"]["kind"], failure["failure"]["line"]) == ("broken_json", 2)
    assert (first["file"], first["format"], first["sessions"]) == (
        a,
        "native",
        {"seen": 2, "pending": 2},
    )
    assert (second["file"], second["sessions"]) == (b, {"seen": 1, "pending": 1})
    assert first["reader"]["failures"] == 1
    _, (of_another, *_) = read([a, b], plan | {"tenant": "u"})
    assert of_another["failure"]["failure_id"] != failure["failure"]["failure_id"]


def test_a_reading_task_hands_over_a_few_sessions_at_a_time(
    tmp_path: Any, plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "READ_BATCH", 2)
    path = write(tmp_path / "a.jsonl", [dialogue("d", 5)])
    blocks = list(read_files(task(path), ReadPlan(**plan)))
    assert [block.num_rows for block in blocks] == [2, 2, 1, 1]


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (3, 3), (4, 4), (9, 5)])
def test_the_limit_counts_over_the_files_of_a_task(
    limit: int, expected: int, tmp_path: Any, plan: dict[str, Any]
) -> None:
    paths = [write(tmp_path / f"{i}.jsonl", [dialogue(f"d{i}", n)]) for i, n in ((0, 3), (1, 2))]
    found, _ = read(paths, plan | {"limit": limit})
    assert len(found) == expected


def test_what_is_known_or_forgotten_counts_towards_the_limit(
    tmp_path: Any, plan: dict[str, Any]
) -> None:
    path = write(tmp_path / "a.jsonl", [dialogue("d", 4)])
    mark = Mark(Kind.SESSION, (ids.session_key("t", "d", "s1"),))
    marks = forgotten(ids.dialogue_key("t", "d"), mark)
    found, events = read([path], plan | {"limit": 3, "forgotten": marks})
    assert found == ["s0", "s2"]
    assert events[-1]["sessions"] == {"seen": 3, "pending": 2, "forgotten": 1}


def test_one_id_in_two_files_of_a_task_is_settled_there(
    tmp_path: Any, plan: dict[str, Any]
) -> None:
    texts = ("Hello.", "Hello.", "Bye.")
    paths = [
        write(tmp_path / f"{i}.jsonl", [{"dialogue_id": "d", "sessions": [session("s", text)]}])
        for i, text in enumerate(texts)
    ]
    found, events = read(paths, plan)
    assert found == ["s"]
    kinds = [event["failure"]["kind"] for event in events if "failure" in event]
    assert kinds == ["conflicting_session"]
    assert events[-1]["sessions"] == {"seen": 1, "conflicts": 1}


# One id in several files


def contents_of(*paths: str) -> pa.Table:
    """What stands in several of the files, listed from the last to the first."""
    lists = [list_contents(task(path, file=i), "t", "auto") for i, path in enumerate(paths)]
    return repeated(pa.concat_tables(lists[::-1]))


def test_a_session_in_several_files_is_found_with_the_first_of_its_contents(tmp_path: Any) -> None:
    a = write(tmp_path / "a.jsonl", [dialogue("e", 2), "{broken"])
    b = write(tmp_path / "b.jsonl", [dialogue("d", 2)])
    c = write(tmp_path / "c.jsonl", [dialogue("d", 1), dialogue("e", 1)])
    first = list_contents(task(b, file=1), "t", "auto").to_pylist()
    found = contents_of(a, b, c).to_pylist()
    assert found[1] == first[0]
    assert [(row["file"], row["session_key"]) for row in found] == [
        (0, ids.session_key("t", "e", "s0")),
        (1, ids.session_key("t", "d", "s0")),
    ]


def test_files_that_share_no_session_repeat_nothing(tmp_path: Any) -> None:
    paths = [write(tmp_path / f"{i}.jsonl", [dialogue(f"d{i}", 2)]) for i in range(2)]
    assert contents_of(*paths).num_rows == 0
    assert contents_of(write(tmp_path / "none.jsonl", [])).num_rows == 0


def test_of_one_id_in_two_files_the_second_file_hands_nothing_over(
    tmp_path: Any, plan: dict[str, Any]
) -> None:
    texts = ("Hello.", "Bye.", "Hello.")
    paths = [
        write(
            tmp_path / f"{i}.jsonl",
            [{"dialogue_id": "d", "sessions": [session("s", text), session(f"own{i}", text)]}],
        )
        for i, text in enumerate(texts)
    ]
    repeats = contents_of(*paths)
    known = plan | {"repeats": repeats}
    first, second, third = (
        [split_events(b) for b in read_files(task(path, file=i), ReadPlan(**known))]
        for i, path in enumerate(paths)
    )
    assert first[0][0].column("session_id").to_pylist() == ["s", "own0"]
    assert second[0][0].column("session_id").to_pylist() == ["own1"]
    assert second[0][1][0]["failure"]["kind"] == "conflicting_session"
    assert third[-1][1][0]["sessions"] == {"seen": 2, "pending": 1, "duplicates": 1}
    assert third[-1][1][0]["reader"]["duplicates"] == 1
