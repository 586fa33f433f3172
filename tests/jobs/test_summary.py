"""Counting a run, and telling it."""

import pytest

from glong.build import Fingerprints
from jobs.summary import Tally, describe, summarise

MODELS = Fingerprints("x", "s", "e")
READ = {
    "stage": "read",
    "seconds": 0.5,
    "sessions": {"seen": 10, "pending": 6, "skipped": 3, "stale": 2, "forgotten": 1},
    "reader": {"duplicates": 1},
    "format": "locomo",
    "assumptions": ["times have no zone"],
}
COUNTS = {
    "sessions": {"built": 4, "failed": 1, "pending": 1},
    "rows": {"turns": 20, "triplets": 9, "edges": 8, "entities": 7},
    "failures": [["extract", "bad_json", 3], ["extract", "unavailable", 1]],
    "forgotten": {"sessions": 0, "turns": 0, "edges": 0},
}


@pytest.fixture
def tally() -> Tally:
    counted = Tally()
    for event in (
        READ,
        {"failure": {"stage": "read", "kind": "bad_time"}},
        {"stage": "extract", "seconds": 2.0, "gpus": 0.5, "tokens_in": 100, "tokens_out": 30},
        {"stage": "extract", "seconds": 3.0, "gpus": 0.5, "tokens_in": 10, "tokens_out": 3},
        {"stage": "weigh", "seconds": 1.0, "gpus": 0.0},
    ):
        counted.add(event)
    counted.add_counts(COUNTS)
    counted.waves = 2
    return counted


def test_events_and_counts_become_the_summary(tally: Tally) -> None:
    numbers = summarise(tally, MODELS, 7, 4.0)
    assert numbers.pop("peak_rss_mb") > 10
    assert numbers.pop("failure_rate") == pytest.approx(3 / 11)
    assert numbers == {
        "sessions_seen": 10,
        "sessions_forgotten": 1,
        "turns_forgotten": 0,
        "edges_forgotten": 0,
        "sessions_skipped": 3,
        "sessions_stale": 2,
        "sessions_planned": 6,
        "sessions_built": 4,
        "sessions_failed": 2,
        "sessions_pending": 1,
        "turns": 20,
        "triplets": 9,
        "edges": 8,
        "entities": 7,
        "failures": {"extract": {"bad_json": 3, "unavailable": 1}, "read": {"bad_time": 1}},
        "waves": 2,
        "wall_s": 4.0,
        "stage_s": {"read": 0.5, "extract": 5.0, "weigh": 1.0, "embed": 0.0, "write": 0.0},
        "turns_per_s": 5.0,
        "tokens_in": 110,
        "tokens_out": 33,
        "gpu_s": 2.5,
        "store_version": 7,
        "fingerprints": {"extractor": "x", "scorer": "s", "encoder": "e"},
        "formats": {"locomo": 1},
        "assumptions": ["times have no zone"],
        "reader": {"duplicates": 1},
    }


def test_every_key_is_there_whatever_happened(tally: Tally) -> None:
    empty = summarise(Tally(), MODELS, 0, 1.0)
    assert empty.keys() == summarise(tally, MODELS, 7, 4.0).keys()
    assert empty["failure_rate"] == 0
    assert "0 sessions seen" in describe(empty)


def test_an_assumption_is_told_once(tally: Tally) -> None:
    tally.add(READ)
    numbers = summarise(tally, MODELS, 7, 4.0)
    assert numbers["assumptions"] == ["times have no zone"]
    assert numbers["formats"] == {"locomo": 2}


def test_people_are_told_what_happened_and_what_to_do(tally: Tally) -> None:
    text = describe(summarise(tally, MODELS, 7, 4.0))
    assert "10 sessions seen: 4 built, 3 skipped, 2 failed, 1 forgotten." in text
    assert "20 turns, 9 triplets, 8 edges in 2 waves, 4.0 s (5.0 turns/s)" in text
    assert "2 skipped sessions are stale" in text
    assert "build them again with --rebuild stale" in text
    assert "1 sessions met a cause that may pass; run the job again" in text
    assert "failures of stage extract: 3 bad_json, 1 unavailable (stored" in text


def test_nothing_is_said_of_what_did_not_happen() -> None:
    text = describe(summarise(Tally(), MODELS, 1, 1.0))
    assert not any(word in text for word in ("stale", "may pass", "failures of"))
