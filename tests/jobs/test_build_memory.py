"""The build job from options to tables, with fake models.

Most tests run it in this process, on :mod:`tests.jobs.local_ray`; those marked ``slow`` on Ray.
"""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import ray

from glong.build import Fingerprints
from glong.errors import ConfigError, ModelError, StoreError
from glong.models.fake import FakeEncoder, FakeExtractor
from glong.models.load import ModelsIdentity
from glong.sources import Reader, sample_dialogues
from glong.store import Store, StoreMeta, Target
from glong.tables import VARYING_COLUMNS
from glong.types import Extraction, Failure, Session
from jobs import build_memory
from tests.jobs import local_ray
from tests.jobs.conftest import Outcome, RunJob
from tests.jobs.inputs import START, dialogue, session, write

SAMPLES = str(sample_dialogues())
SAMPLE_SESSIONS = [item for item in Reader(SAMPLES) if isinstance(item, Session)]
SUMMARY_KEYS = {
    "sessions_seen", "sessions_forgotten", "sessions_skipped", "sessions_built", "sessions_failed",
    "turns", "triplets", "edges", "entities", "failures", "waves", "wall_s", "stage_s",
    "turns_per_s", "tokens_in", "tokens_out", "gpu_s", "peak_rss_mb", "store_version",
    "fingerprints",
}  # fmt: skip


def exported(tmp_path: Path, store: str = "memory") -> dict[str, list[dict[str, Any]]]:
    """Visible rows of every table, without what differs between runs."""
    out = tmp_path / f"export-{store}"
    opened = Store.open(str(tmp_path / store))
    assert opened.verify() == []
    opened.export(out)
    return {
        path.stem: [
            {k: v for k, v in json.loads(line).items() if k not in VARYING_COLUMNS}
            for line in path.read_text(encoding="utf-8").split("\n")[:-1]
        ]
        for path in sorted(out.iterdir())
    }


def counts(outcome: Outcome, *names: str) -> list[int]:
    return [outcome.summary[f"sessions_{name}"] for name in names]


def names_of(tmp_path: Path, store: str = "memory") -> set[tuple[str, str]]:
    rows = exported(tmp_path, store)["sessions"]
    return {(row["dialogue_id"], row["session_id"]) for row in rows}


# What a run says


def check_first_run(outcome: Outcome, tmp_path: Path) -> None:
    summary, tables = outcome.summary, exported(tmp_path)
    assert outcome.status == 0
    assert summary.keys() >= SUMMARY_KEYS
    assert summary["stage_s"].keys() == {"read", "extract", "weigh", "embed", "write"}
    assert summary["fingerprints"].keys() == {"extractor", "scorer", "encoder"}
    n = len(SAMPLE_SESSIONS)
    assert counts(outcome, "seen", "built", "skipped", "failed", "forgotten") == [n, n, 0, 0, 0]
    assert summary["turns"] == sum(len(s.turns) for s in SAMPLE_SESSIONS)
    for table in ("turns", "edges", "entities"):
        assert summary[table] == len(tables[table]), table
    assert summary["triplets"] == sum(row["n_triplets"] for row in tables["sessions"]) > 0
    assert summary["failures"] == {}
    assert summary["tokens_in"] > 0
    assert summary["gpu_s"] == 0
    assert all(seconds > 0 for seconds in summary["stage_s"].values())
    assert summary["store_version"] == Store.open(str(tmp_path / "memory")).version
    assert f"{n} sessions seen: {n} built, 0 skipped" in outcome.stderr


def test_the_summary_counts_what_is_in_the_tables(run_local: RunJob, tmp_path: Path) -> None:
    check_first_run(run_local(SAMPLES), tmp_path)


def test_a_second_run_skips_everything(run_local: RunJob, tmp_path: Path) -> None:
    first = run_local(SAMPLES)
    before = exported(tmp_path)
    second = run_local(SAMPLES)
    assert counts(second, "seen", "built", "skipped") == [36, 0, 36]
    assert second.summary["waves"] == 0
    assert second.summary["store_version"] == first.summary["store_version"]
    assert exported(tmp_path) == before


def test_waves_do_not_change_the_tables(run_local: RunJob, tmp_path: Path) -> None:
    # The fake stages hand over blocks of 64 sessions, and a wave closes at a block's end.
    many = write(tmp_path / "in.jsonl", [dialogue(f"d{i}", 10) for i in range(20)])
    assert run_local(many, options=("--wave-size", "1"), store="small").summary["waves"] == 4
    assert run_local(many, options=("--wave-size", "128"), store="middle").summary["waves"] == 2
    assert run_local(many, store="large").summary["waves"] == 1
    large = exported(tmp_path, "large")
    assert exported(tmp_path, "small") == exported(tmp_path, "middle") == large


# Which sessions


def test_limit_is_the_first_sessions_over_all_files_those_built_included(
    run_local: RunJob, tmp_path: Path
) -> None:
    b = write(tmp_path / "b.jsonl", [dialogue("b", 3)])
    a = write(tmp_path / "a.jsonl", [dialogue("a", 2)])
    first = run_local(b, a, options=("--limit", "1"))
    assert counts(first, "seen", "built", "skipped") == [1, 1, 0]
    second = run_local(b, a, options=("--limit", "4"))
    assert counts(second, "seen", "built", "skipped") == [4, 3, 1]
    assert names_of(tmp_path) == {("a", "s0"), ("a", "s1"), ("b", "s0"), ("b", "s1")}
    third = run_local(b, a, options=("--limit", "4"))
    assert counts(third, "seen", "built", "skipped") == [4, 0, 4]


def test_limit_looks_at_no_file_beyond_it(run_local: RunJob, tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", [dialogue("a", 2)])
    b = write(tmp_path / "b.jsonl", ["no JSON at all"])
    outcome = run_local(a, b, options=("--limit", "2"))
    assert (outcome.status, outcome.summary["failures"]) == (0, {})


def test_a_changed_session_is_built_again_and_replaces_the_old_one(
    run_local: RunJob, tmp_path: Path
) -> None:
    old, new = dialogue("d", 3), dialogue("d", 3)
    new["sessions"][1]["turns"][0]["text"] = "I have moved to Rotterdam."
    run_local(write(tmp_path / "in.jsonl", [old]))
    outcome = run_local(write(tmp_path / "in.jsonl", [new]))
    assert counts(outcome, "seen", "built", "skipped") == [3, 1, 2]
    run_local(write(tmp_path / "new.jsonl", [new]), store="fresh")
    assert exported(tmp_path) == exported(tmp_path, "fresh")


def test_a_session_that_left_the_input_stays(run_local: RunJob, tmp_path: Path) -> None:
    run_local(write(tmp_path / "in.jsonl", [dialogue("d", 3)]))
    run_local(write(tmp_path / "in.jsonl", [dialogue("d", 1)]))
    assert len(names_of(tmp_path)) == 3


@pytest.mark.parametrize("writer", ["driver", "workers"])
def test_rebuild_all_builds_all_again_to_the_same_tables(
    writer: str, run_local: RunJob, tmp_path: Path
) -> None:
    run_local(SAMPLES)
    before, garbage = exported(tmp_path), Store.open(str(tmp_path / "memory")).status()
    outcome = run_local(SAMPLES, options=("--rebuild", "all", "--writer", writer))
    assert counts(outcome, "built", "skipped") == [36, 0]
    assert exported(tmp_path) == before
    after = Store.open(str(tmp_path / "memory")).status()
    assert after.garbage_rows["turns"] - garbage.garbage_rows["turns"] == len(before["turns"])


def test_what_another_model_made_is_told_and_built_again_only_when_asked(
    run_local: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_local(SAMPLES)
    monkeypatch.setattr(FakeExtractor, "fingerprint", "another")  # as if the prompt had changed
    outcome = run_local(SAMPLES)
    assert counts(outcome, "built", "skipped", "stale") == [0, 36, 36]
    assert "36 skipped sessions are stale" in outcome.stderr
    outcome = run_local(SAMPLES, options=("--rebuild", "stale", "--limit", "10"))
    assert counts(outcome, "built", "skipped", "stale") == [10, 0, 0]
    made_by = [row["extractor"] for row in exported(tmp_path)["sessions"]]
    assert made_by.count("another") == 10


UNREADABLE = "unreadable"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that say "unreadable" fail for good, those that say "down" for a passing cause."""
    works = FakeExtractor.extract

    def extract(self: FakeExtractor, sessions: list[Session]) -> list[Extraction]:
        answers = works(self, sessions)
        for i, one in enumerate(sessions):
            for word, kind in ((UNREADABLE, "unparsable_output"), ("down", "unavailable")):
                if any(word in turn.text for turn in one.turns):
                    lost = Failure("extract", kind, word, turn_index=0, transient=word == "down")
                    answers[i] = Extraction((), (lost,), n_windows=1)
        return answers

    monkeypatch.setattr(FakeExtractor, "extract", extract)


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("writer", ["driver", "workers"])
def test_failed_and_unavailable_sessions_are_told_apart(
    writer: str, run_local: RunJob, tmp_path: Path
) -> None:
    sessions = [session("good", "Hi."), session("bad", UNREADABLE), session("away", "down")]
    path = write(tmp_path / "in.jsonl", [{"dialogue_id": "d", "sessions": sessions}])
    options = ("--writer", writer)
    outcome = run_local(path, options=options)
    assert outcome.status == 1
    assert counts(outcome, "seen", "built", "failed", "pending") == [3, 1, 2, 1]
    assert outcome.summary["failures"] == {"extract": {"unavailable": 1, "unparsable_output": 1}}
    assert outcome.summary["failure_rate"] == pytest.approx(2 / 3)
    assert outcome.summary["turns"] == 2
    assert "1 sessions met a cause that may pass" in outcome.stderr
    assert names_of(tmp_path) == {("d", "good"), ("d", "bad")}
    again = run_local(path, options=options)
    assert counts(again, "built", "skipped", "failed", "pending") == [0, 2, 1, 1]


@pytest.mark.usefixtures("failing")
def test_what_failed_for_good_is_built_again_when_asked(
    run_local: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [session("good", "Hi."), session("bad", UNREADABLE)]
    path = write(tmp_path / "in.jsonl", [{"dialogue_id": "d", "sessions": sessions}])
    run_local(path)
    assert counts(run_local(path), "built", "skipped") == [0, 2]
    monkeypatch.setattr("tests.jobs.test_build_memory.UNREADABLE", "nothing says this")
    repaired = run_local(path, options=("--rebuild", "failed"))
    assert counts(repaired, "built", "skipped", "failed") == [1, 1, 0]
    tables = exported(tmp_path)
    assert {row["status"] for row in tables["sessions"]} == {"built"}
    assert tables["failures"] == []


# What cannot be read


BAD_LINES = [
    dialogue("d", 1),
    "{broken",
    {"dialogue_id": "e", "sessions": [session("s", "Hello.") | {"started_at": "soon"}]},
    {"dialogue_id": "f", "sessions": [{**session("s", "Hello."), "turns": [{"text": "Hi."}]}]},
]


def test_bad_records_are_stored_with_file_line_field_and_reason(
    run_local: RunJob, tmp_path: Path
) -> None:
    path = write(tmp_path / "in.jsonl", BAD_LINES)
    outcome = run_local(path)
    assert outcome.status == 1
    assert counts(outcome, "seen", "built") == [1, 1]
    assert sum(outcome.summary["failures"]["read"].values()) == 4
    stored = {(row["file"], row["line"], row["field"]) for row in exported(tmp_path)["failures"]}
    assert stored == {
        (path, 2, ""),
        (path, 3, "sessions[0].started_at"),
        (path, 4, "sessions[0].turns[0].speaker"),
        (path, 4, "sessions[0].turns"),
    }
    reasons = {row["kind"]: row["message"] for row in exported(tmp_path)["failures"]}
    assert "allowed: RFC 3339" in reasons["bad_time"]
    assert "failures of stage read: " in outcome.stderr


def test_the_exit_status_is_1_only_above_the_limit(run_local: RunJob, tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", [dialogue("d", 9), "{broken"])
    assert run_local(path, options=("--max-failure-rate", "0.1")).status == 0
    assert run_local(path, options=("--max-failure-rate", "0.09")).status == 1


def test_failures_that_come_again_are_stored_once(run_local: RunJob, tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", BAD_LINES)
    run_local(path)
    before = exported(tmp_path)["failures"]
    run_local(path)
    assert exported(tmp_path)["failures"] == before


def test_a_file_of_no_known_format_is_a_failure_and_the_others_are_built(
    run_local: RunJob, tmp_path: Path
) -> None:
    good = write(tmp_path / "a.jsonl", [dialogue("d", 2)])
    odd = write(tmp_path / "b.jsonl", [{"colour": "red"}])
    outcome = run_local(good, odd)
    assert outcome.status == 1
    assert counts(outcome, "seen", "built") == [2, 2]
    assert outcome.summary["failures"] == {"read": {"unknown_format": 1}}
    assert outcome.summary["formats"] == {"native": 1, "unknown": 1}


@pytest.fixture
def two_contents(tmp_path: Path) -> tuple[str, str]:
    """Two files with the sessions s0 and s1 of one dialogue; s1 has another content in each."""
    other = dialogue("d", 2)
    other["sessions"][1]["turns"][0]["text"] = "Something else."
    a = write(tmp_path / "a.jsonl", [dialogue("d", 2)])
    return a, write(tmp_path / "b.jsonl", [other])


def rows_beside_failures(tmp_path: Path, store: str = "memory") -> dict[str, list[dict[str, Any]]]:
    return {t: rows for t, rows in exported(tmp_path, store).items() if t != "failures"}


@pytest.mark.parametrize("writer", ["driver", "workers"])
def test_one_id_in_two_files(
    writer: str, run_local: RunJob, two_contents: tuple[str, str], tmp_path: Path
) -> None:
    outcome = run_local(*two_contents, options=("--writer", writer))
    assert counts(outcome, "seen", "built") == [4, 2]
    assert outcome.summary["reader"]["duplicates"] == 1
    assert outcome.summary["failures"] == {"read": {"conflicting_session": 1}}
    (failure,) = exported(tmp_path)["failures"]
    assert "allowed: one content for an id" in failure["message"]
    run_local(two_contents[0], store="alone")
    assert rows_beside_failures(tmp_path) == rows_beside_failures(tmp_path, "alone")
    assert outcome.summary["turns"] == len(exported(tmp_path)["turns"])


@pytest.mark.parametrize("writer", ["driver", "workers"])
def test_one_id_in_two_files_has_the_same_content_after_every_run(
    writer: str, run_local: RunJob, two_contents: tuple[str, str], tmp_path: Path
) -> None:
    options = ("--writer", writer)
    run_local(*two_contents, options=options)
    before = exported(tmp_path)
    again = run_local(*two_contents, options=options)
    assert again.summary["failures"] == {"read": {"conflicting_session": 1}}
    assert counts(again, "built", "skipped") == [0, 2]
    assert exported(tmp_path) == before


@pytest.mark.parametrize("stopped", [False, True])
def test_which_content_stays_depends_on_the_order_of_the_files_alone(
    stopped: bool,
    run_local: RunJob,
    two_contents: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def last_first(items: list[dict[str, Any]], override_num_blocks: int) -> Any:
        return local_ray.from_items(items[::-1], override_num_blocks)

    a, b = two_contents
    run_local(a, store="alone")
    monkeypatch.setattr(ray.data, "from_items", last_first)
    if stopped:  # what a run leaves that was killed when it had committed the second file
        run_local(b)
    run_local(a, b)
    assert rows_beside_failures(tmp_path) == rows_beside_failures(tmp_path, "alone")


def test_a_session_that_changed_is_replaced_where_another_file_has_other_sessions(
    run_local: RunJob, two_contents: tuple[str, str], tmp_path: Path
) -> None:
    old, new = two_contents
    other = write(tmp_path / "c.jsonl", [dialogue("e", 2)])
    run_local(old, other)
    outcome = run_local(new, other)
    assert counts(outcome, "seen", "built", "skipped") == [4, 1, 3]
    run_local(new, other, store="fresh")
    assert exported(tmp_path) == exported(tmp_path, "fresh")


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("writer", ["driver", "workers"])
def test_other_content_of_a_session_that_stays_pending_is_not_built(
    writer: str, run_local: RunJob, tmp_path: Path
) -> None:
    paths = [
        write(tmp_path / f"{text}.jsonl", [{"dialogue_id": "d", "sessions": [session("s", text)]}])
        for text in ("down", "else")
    ]
    outcome = run_local(*paths, options=("--writer", writer))
    assert counts(outcome, "seen", "built", "pending") == [2, 0, 1]
    assert names_of(tmp_path) == set()


def test_one_id_in_two_files_with_a_limit(run_local: RunJob, tmp_path: Path) -> None:
    other = dialogue("d", 1)
    other["sessions"][0]["turns"][0]["text"] = "Something else."
    paths = [
        write(tmp_path / f"{i}.jsonl", [d])
        for i, d in enumerate([dialogue("d", 1), other, dialogue("d", 1)])
    ]
    outcome = run_local(*paths, options=("--limit", "9"))
    assert counts(outcome, "seen", "built") == [3, 1]
    assert outcome.summary["failures"] == {"read": {"conflicting_session": 1}}


# What was forgotten


@pytest.mark.parametrize("writer", ["driver", "workers"])
def test_what_was_forgotten_is_left_out_until_it_is_restored(
    writer: str, run_local: RunJob, tmp_path: Path
) -> None:
    path = write(tmp_path / "in.jsonl", [dialogue("d", 4), dialogue("e", 2)])
    options = ("--writer", writer)
    run_local(path, options=options)
    whole = exported(tmp_path)
    store = Store.open(str(tmp_path / "memory"))
    edge = next(r for r in whole["edges"] if (r["dialogue_id"], r["session_id"]) == ("d", "s1"))
    sources = {row["turn_id"] for row in whole["edges"]}
    first = next(
        row for row in whole["turns"] if row["session_id"] == "s2" and row["turn_id"] not in sources
    )
    for target in (
        Target("e"),
        Target("d", "s0"),
        Target("d", "s2", first["turn_index"]),
        Target("d", edge_id=edge["edge_id"]),
    ):
        store.forget("default", target, START)
    left = exported(tmp_path)
    again = run_local(path, options=(*options, "--rebuild", "all"))
    assert counts(again, "seen", "built", "forgotten") == [6, 3, 3]
    assert (again.summary["turns_forgotten"], again.summary["edges_forgotten"]) == (1, 1)
    assert again.summary["edges"] == len(left["edges"])
    rebuilt = exported(tmp_path)
    for table, column in (("turns", "turn_id"), ("edges", "edge_id"), ("entities", "entity_id")):
        assert [r[column] for r in rebuilt[table]] == [r[column] for r in left[table]], table
    back = run_local(path, options=(*options, "--restore-forgotten"))
    assert counts(back, "seen", "built", "forgotten") == [6, 6, 0]
    restored = exported(tmp_path)
    assert {t: restored[t] for t in whole if t != "forgotten"} == {
        t: whole[t] for t in whole if t != "forgotten"
    }
    assert run_local(path, options=(*options, "--restore-forgotten")).summary["waves"] == 0


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("writer", ["driver", "workers"])
def test_what_is_restored_is_forgotten_no_more_where_it_stays_pending(
    writer: str, run_local: RunJob, tmp_path: Path
) -> None:
    sessions = [session("good", "Hi."), session("away", "down")]
    path = write(tmp_path / "in.jsonl", [{"dialogue_id": "d", "sessions": sessions}])
    run_local(path)
    Store.open(str(tmp_path / "memory")).forget("default", Target("d"), START)
    run_local(path, options=("--writer", writer, "--restore-forgotten"))
    again = run_local(path)
    assert counts(again, "seen", "skipped", "pending", "forgotten") == [2, 1, 1, 0]


# Tenants, writers, dry runs


def test_tenants_share_ids_and_nothing_else(run_local: RunJob, tmp_path: Path) -> None:
    changed = dialogue("d", 2)
    changed["sessions"][0]["turns"][0]["text"] = "I am someone else."
    one = write(tmp_path / "one.jsonl", [dialogue("d", 2)])
    two = write(tmp_path / "two.jsonl", [changed])
    run_local(one, options=("--tenant", "one"))
    outcome = run_local(two, options=("--tenant", "two"))
    assert counts(outcome, "seen", "built", "skipped") == [2, 2, 0]
    assert counts(run_local(one, options=("--tenant", "one")), "skipped") == [2]
    store = Store.open(str(tmp_path / "memory"))
    texts = {t: store.read_graph(t, "d").turn_texts for t in ("one", "two")}
    assert texts["one"][0] != texts["two"][0] == "I am someone else."
    assert not set(store.read_graph("one", "d").edge_ids) & set(
        store.read_graph("two", "d").edge_ids
    )


def test_workers_write_the_same_tables_as_the_driver(run_local: RunJob, tmp_path: Path) -> None:
    by_driver = run_local(SAMPLES, options=("--writer", "driver"), store="driver")
    by_workers = run_local(
        SAMPLES, options=("--writer", "workers", "--wave-size", "10"), store="workers"
    )
    assert by_workers.status == 0
    assert exported(tmp_path, "workers") == exported(tmp_path, "driver")
    same = ("sessions_built", "turns", "triplets", "edges", "entities", "failures", "tokens_in")
    assert [by_workers.summary[k] for k in same] == [by_driver.summary[k] for k in same]


def test_a_dry_run_plans_and_makes_no_store(run_local: RunJob, tmp_path: Path) -> None:
    outcome = run_local(SAMPLES, options=("--dry-run",))
    assert (outcome.status, outcome.summary["store_version"]) == (0, 0)
    assert counts(outcome, "seen", "planned", "built") == [36, 36, 0]
    assert not (tmp_path / "memory").exists()


def test_a_dry_run_on_a_store_says_what_is_missing_and_writes_nothing(
    run_local: RunJob, tmp_path: Path
) -> None:
    run_local(SAMPLES, options=("--limit", "30"))
    status = Store.open(str(tmp_path / "memory")).status()
    outcome = run_local(SAMPLES, write(tmp_path / "b.jsonl", ["{broken"]), options=("--dry-run",))
    assert counts(outcome, "seen", "planned", "skipped") == [36, 6, 30]
    assert outcome.summary["failures"]["read"]
    assert Store.open(str(tmp_path / "memory")).status() == status


# Models and stores that do not fit


def identity(encoder: str, dimension: int) -> ModelsIdentity:
    return ModelsIdentity(Fingerprints("x", "s", encoder), dimension)


@pytest.mark.parametrize(("encoder", "dimension"), [("other", 384), (None, 8)])
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_store_of_another_encoder_is_refused_before_any_work(
    encoder: str | None,
    dimension: int,
    options: tuple[str, ...],
    run_local: RunJob,
    tmp_path: Path,
) -> None:
    name = encoder or FakeEncoder(384).fingerprint
    Store.create_or_open(str(tmp_path / "memory"), StoreMeta(name, dimension, "p", "0"))
    outcome = run_local(SAMPLES, options=options)
    assert outcome.status == 2
    assert f"was made with encoder {name} ({dimension} dimensions)" in outcome.stderr
    assert "Use a new --store, or the models that made this one." in outcome.stderr
    assert Store.open(str(tmp_path / "memory")).manifest().num_rows == 0


def test_a_missing_extra_names_the_pip_line_and_makes_no_store(
    run_local: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    outcome = run_local(SAMPLES, options=("--encoder", "openai:some-model"))
    assert outcome.status == 2
    assert 'pip install "glong[' in outcome.stderr
    assert not (tmp_path / "memory").exists()


def test_no_cluster_at_ray_address_is_bad_usage(
    run_job: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**options: object) -> None:
        raise ConnectionError("timed out")

    monkeypatch.setattr("ray.init", refuse)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.9:6379")
    outcome = run_job(SAMPLES)
    assert outcome.status == 2
    assert "RAY_ADDRESS is '10.0.0.9:6379', and no cluster answers there" in outcome.stderr
    assert not (tmp_path / "memory").exists()


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (ConfigError("Wrong."), 2, "error: Wrong."),
        (ModelError("Engine died.", hint="Restart it."), 3, "Engine died. Restart it."),
        (StoreError("Disk full."), 3, "Stopped; what was committed stays."),
        (ray.exceptions.OutOfMemoryError("No memory.\nAt all."), 3, "): No memory.\nStopped; what"),
        (KeyboardInterrupt(), 130, "Interrupted; what was committed stays."),
    ],
)
def test_how_a_stopped_run_ends(
    error: BaseException,
    status: int,
    says: str,
    run_local: RunJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*args: object) -> None:
        raise error

    monkeypatch.setattr(build_memory, "_build", stop)
    outcome = run_local(SAMPLES)
    assert (outcome.status, outcome.summary) == (status, {})
    assert says in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_the_job_leaves_the_signals_of_its_process_alone(run_local: RunJob) -> None:
    before = signal.getsignal(signal.SIGTERM)
    run_local(SAMPLES, options=("--limit", "1"))
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigterm_ends_a_run_as_ctrl_c_does(
    run_local: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_memory, "_build", lambda *a: signal.raise_signal(signal.SIGTERM))
    assert run_local(SAMPLES).status == 130


# On Ray


def run_here(*inputs: str, store: Path) -> None:
    """The same job in this process."""
    with pytest.MonkeyPatch.context() as patch:
        local_ray.install(patch)
        words = [word for path in inputs for word in ("--input", path)]
        build_memory.main([*words, "--store", str(store), "--models", "fake"])


@pytest.mark.slow
@pytest.mark.ci
def test_on_ray_a_run_gives_the_tables_that_one_process_gives(
    run_on_ray: RunJob, tmp_path: Path
) -> None:
    bad = write(tmp_path / "bad.jsonl", [dialogue("d", 30), "{broken"])
    again = dialogue("d", 2)
    again["sessions"][1]["turns"][0]["text"] = "Something else."
    paths = (SAMPLES, bad, write(tmp_path / "none.jsonl", []), write(tmp_path / "x.jsonl", [again]))
    outcome = run_on_ray(*paths)
    assert outcome.status == 0
    kinds = ("broken_json", "conflicting_session", "empty_file")
    assert outcome.summary["failures"] == {"read": dict.fromkeys(kinds, 1)}
    assert counts(outcome, "seen", "built", "failed") == [68, 66, 0]
    run_here(*paths, store=tmp_path / "here")
    assert exported(tmp_path) == exported(tmp_path, "here")


@pytest.mark.slow
def test_on_ray_workers_write_what_the_driver_writes_and_a_rerun_goes_on(
    run_on_ray: RunJob, tmp_path: Path
) -> None:
    paths = [write(tmp_path / f"{i}.jsonl", [dialogue(f"d{i}", 20)]) for i in range(4)]
    options = ("--writer", "workers", "--wave-size", "16", "--embed-actors", "2")
    part = run_on_ray(*paths, options=(*options, "--limit", "25"))
    assert counts(part, "seen", "built", "skipped") == [25, 25, 0]
    rest = run_on_ray(*paths, options=options)
    assert counts(rest, "seen", "built", "skipped") == [80, 55, 25]
    run_here(*paths, store=tmp_path / "here")
    assert exported(tmp_path) == exported(tmp_path, "here")


@pytest.mark.slow
def test_on_ray_a_missing_extra_is_found_before_any_work(
    run_on_ray: RunJob, tmp_path: Path
) -> None:
    outcome = run_on_ray(SAMPLES, options=("--encoder", "sentence:no/such/model"))
    assert outcome.status in (2, 3)
    assert outcome.stderr.startswith("error: ")
    assert "Traceback" not in outcome.stderr
    assert not (tmp_path / "memory").exists()


def test_what_a_worker_raised_is_found_in_what_ray_makes_of_it() -> None:
    cause = StoreError("No space left on device")
    error = ray.exceptions.RayTaskError("submit", "Traceback ...", cause).as_instanceof_cause()
    assert isinstance(error, StoreError)
    assert build_memory.ours(error) is cause


def test_a_defect_on_a_worker_is_told_with_its_traceback() -> None:
    error = ray.exceptions.RayTaskError("submit", "Traceback: KeyError: 'x'", KeyError("x"))
    assert "Traceback: KeyError: 'x'" in str(build_memory.ours(error))


@pytest.mark.parametrize(
    "error",
    [
        ray.exceptions.ActorDiedError(),
        ray.exceptions.RayTaskError("f", "Traceback ...", ray.exceptions.ActorDiedError()),
    ],
)
def test_what_happened_to_ray_itself_is_told_in_a_line(error: ray.exceptions.RayError) -> None:
    error.__cause__ = error.__cause__ or RuntimeError()  # Ray Data puts one of its own there
    assert str(build_memory.ours(error)) == (
        "Ray failed (ActorDiedError): The actor died unexpectedly before finishing this task."
    )
