"""Blocks of session rows and events, and the stages that pass them on."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

from glong.build import BUILT, FAILED, PENDING, Models, build_rows, prepare
from glong.config import FAKE_MODELS
from glong.models.fake import FakeEncoder, FakeExtractor, FakeScorer
from glong.store import Store, Target
from glong.tables import EXTRACTED, WEIGHED, built_schema
from glong.types import Extraction, Failure, Session, Turn
from jobs import stages
from jobs.stages import (
    EmbedStage,
    ExtractStage,
    WeighStage,
    WriteStage,
    count_rows,
    decode_fragments,
    join_events,
    split_events,
)
from tests.glong.store.rows import META, START, built, built_session, wave

EVENTS = [{"stage": "read", "seconds": 1.5}, {"failure": {"kind": "ü\u2028"}}]
MODELS = Models(FakeExtractor(), FakeScorer(), FakeEncoder(FAKE_MODELS.encoder.dimension))


def sessions(n: int) -> list[Session]:
    turns = (Turn(0, "Mira", "I got a greyhound."), Turn(1, "Tom", "I live in Leipzig."))
    return [Session("d", f"s{i}", START, turns) for i in range(n)]


# Blocks


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("events", [[], EVENTS])
def test_rows_and_events_share_a_block(n: int, events: list[dict[str, Any]]) -> None:
    rows = prepare("t", sessions(n))
    block = join_events(rows, events)
    assert block.num_rows == n + len(events)
    found, told = split_events(block)
    assert found.equals(rows)
    assert told == events


def test_events_between_rows_are_found() -> None:
    first, second = (join_events(prepare("t", sessions(2)), [event]) for event in EVENTS)
    rows, events = split_events(pa.concat_tables([first, second]))
    assert events == EVENTS
    assert rows.column("session_id").to_pylist() == ["s0", "s1"] * 2
    rows, events = split_events(pa.concat_tables([first.slice(2), second]))
    assert events == EVENTS
    assert rows.num_rows == 2


def test_a_cut_through_events_loses_none() -> None:
    block = join_events(prepare("t", sessions(1)), EVENTS)
    parts = [split_events(block.slice(i, 1)) for i in range(block.num_rows)]
    assert [rows.num_rows for rows, _ in parts] == [1, 0, 0]
    assert [event for _, events in parts for event in events] == EVENTS


# Model stages


def test_stages_give_what_build_rows_gives_and_pass_events_on() -> None:
    block = join_events(prepare("t", sessions(3)), EVENTS)
    block = ExtractStage(FAKE_MODELS.extractor)(block)
    block = WeighStage(FAKE_MODELS.scorer, 0.25)(block)
    rows, events = split_events(EmbedStage(FAKE_MODELS.encoder)(block))
    assert rows.cast(built_schema(384)).equals(build_rows("t", sessions(3), MODELS))
    assert events[:2] == EVENTS
    assert [event["stage"] for event in events[2:]] == ["extract", "weigh", "embed"]
    assert [event["gpus"] for event in events[2:]] == [0.0, 0.25, 0.0]
    assert all(event["seconds"] > 0 for event in events[2:])
    assert events[2]["tokens_in"] > 0


def test_a_block_of_events_alone_goes_through_every_stage_and_loads_no_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for part in ("extractor", "scorer", "encoder"):
        monkeypatch.delattr(stages, f"load_{part}")
    block = join_events(prepare("t", []), EVENTS)
    steps = [
        (ExtractStage(FAKE_MODELS.extractor), EXTRACTED),
        (WeighStage(FAKE_MODELS.scorer), WEIGHED),
        (EmbedStage(FAKE_MODELS.encoder), built_schema(384)),
    ]
    for stage, schema in steps:
        block = stage(block)
        rows, events = split_events(block)
        assert (rows.num_rows, rows.schema.names, events) == (0, schema.names, EVENTS)


# Writing


def test_the_writing_stage_leaves_files_that_only_the_driver_makes_visible(tmp_path: Any) -> None:
    store = Store.create_or_open(str(tmp_path / "s"), META)
    rows = built(built_session("d", "s1"), built_session("d", "s2"))
    left, events = split_events(WriteStage(store.uri)(join_events(rows, EVENTS)))
    assert left.num_rows == 0
    assert events[:2] == EVENTS
    assert events[2]["counts"]["sessions"] == {BUILT: 2}
    assert events[3]["stage"] == "write"
    assert store.visible("edges").num_rows == 0
    store.commit_fragments([decode_fragments(events[2]["batch"])], built_failures())
    assert store.visible("edges").num_rows == 4
    assert store.verify() == []


def built_failures() -> pa.Table:
    from tests.glong.store.rows import NO_FAILURES

    return NO_FAILURES


def test_the_writing_stage_passes_on_what_stays_pending_and_counts_it_not(tmp_path: Any) -> None:
    store = Store.create_or_open(str(tmp_path / "s"), META)
    rows = built(built_session("d", "s1", status=PENDING), built_session("d", "s2"))
    left, events = split_events(WriteStage(store.uri)(join_events(rows, EVENTS)))
    assert left.cast(rows.schema).equals(rows.slice(0, 1))
    assert events[2]["counts"]["sessions"] == {BUILT: 1}
    left, events = split_events(WriteStage(store.uri)(join_events(rows.slice(0, 1), EVENTS)))
    assert (left.num_rows, events) == (1, EVENTS)


def test_a_block_without_rows_writes_nothing(tmp_path: Any) -> None:
    store = Store.create_or_open(str(tmp_path / "s"), META)
    block = WriteStage(store.uri)(join_events(built(), EVENTS))
    assert split_events(block)[1] == EVENTS


def test_counts_tell_what_was_forgotten_and_no_failures_of_what_lost_a_part() -> None:
    mishap = Failure("extract", "bad_json", "m")
    whole = built_session("d", "s1", failures=[mishap])
    part = whole | {"n_turns": 1, "n_edges": 0, "n_failures": 0}
    rows = built(whole, built_session("d", "s2", failures=[mishap]), built_session("d", "s3"))
    counts = count_rows(rows, built(part, built_session("d", "s2", failures=[mishap])))
    lost = built_session("d", "s3")
    assert counts["forgotten"] == {
        "sessions": 1, "turns": lost["n_turns"] + 1, "edges": lost["n_edges"] + whole["n_edges"],
    }  # fmt: skip
    assert counts["failures"] == [["extract", "bad_json", 1]]


def test_the_writing_stage_counts_what_it_wrote_whatever_is_forgotten_meanwhile(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.create_or_open(str(tmp_path / "s"), META)
    store.append_wave(wave("b1", built_session("d", "s1")))
    write = Store.write_fragments

    def write_then_forget(store: Store, *args: Any, **options: Any) -> Any:
        batch = write(store, *args, **options)
        store.forget("default", Target("d", "s1"), START)
        return batch

    monkeypatch.setattr(Store, "write_fragments", write_then_forget)
    block = join_events(built(built_session("d", "s1", content="c2")), [])
    _, (event, _) = split_events(WriteStage(store.uri)(block))
    assert event["counts"]["sessions"] == {BUILT: 1}
    assert event["counts"]["forgotten"]["sessions"] == 0


def test_counts_leave_out_rows_of_sessions_that_stay_pending() -> None:
    mishap, gone = (Failure("extract", kind, "m") for kind in ("bad_json", "unavailable"))
    rows = built(
        built_session("d", "s1", failures=[mishap]),
        built_session("d", "s2", facts=(), status=FAILED, failures=[mishap]),
        built_session("d", "s3", status=PENDING, failures=[gone]),
    )
    assert count_rows(rows, rows) == {
        "sessions": {BUILT: 1, FAILED: 1, PENDING: 1},
        "rows": {"turns": 2, "triplets": 2, "edges": 2, "entities": 3},
        "failures": [["extract", "bad_json", 2], ["extract", "unavailable", 1]],
        "forgotten": {"sessions": 0, "turns": 0, "edges": 0},
    }
    empty = count_rows(built(), built())
    assert (empty["sessions"], empty["failures"]) == ({}, [])


# Calls from several threads


class MetExtractor(FakeExtractor):
    """Both calls have to be in it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.meeting = Barrier(2, timeout=5)

    def extract(self, given: Sequence[Session]) -> list[Extraction]:
        self.meeting.wait()
        time.sleep(0.2)
        return super().extract(given)


def test_calls_at_once_load_one_model_and_count_their_seconds_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads: list[MetExtractor] = []

    def load(spec: object) -> MetExtractor:
        loads.append(MetExtractor())
        return loads[-1]

    monkeypatch.setattr(stages, "load_extractor", load)
    stage = ExtractStage(FAKE_MODELS.extractor)
    block = join_events(prepare("t", sessions(2)), [])
    with ThreadPoolExecutor(2) as threads:
        done = [split_events(b) for b in threads.map(stage, [block, block])]
    assert len(loads) == 1
    assert done[0][0].equals(done[1][0])
    costs = [events[0] for _, events in done]
    passed = max(c["ended_at"] for c in costs) - min(c["began_at"] for c in costs)
    assert 0.2 <= sum(c["seconds"] for c in costs) <= passed + 0.05


def test_seconds_between_calls_are_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "load_extractor", lambda spec: FakeExtractor())
    stage = ExtractStage(FAKE_MODELS.extractor)
    block = join_events(prepare("t", sessions(1)), [])
    stage(block)
    time.sleep(0.3)
    assert split_events(stage(block))[1][0]["seconds"] < 0.2
