"""Wrong options end with 2 and say so, before Ray, models or the store are touched."""

import os
from pathlib import Path

import pytest

from glong.config import FAKE_MODELS
from glong.planning import Rebuild
from glong.sources import sample_dialogues
from jobs import build_memory
from jobs.options import check, parser

SAMPLES = str(sample_dialogues())


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In these tests any work is a failure."""

    def work(*args: object) -> None:
        raise AssertionError("work was begun")

    monkeypatch.setattr(build_memory, "run", work)
    monkeypatch.delenv("RAY_JOB_CONFIG_JSON_ENV_VAR", raising=False)
    monkeypatch.chdir(tmp_path)


REFUSED = {
    "limit": (["--limit", "-1"], "--limit is -1; allowed: 0 or more."),
    "wave size": (["--wave-size", "0"], "--wave-size is 0; allowed: 1 or more."),
    "wave seconds": (["--wave-seconds", "0"], "--wave-seconds is 0.0; allowed: 0.001 or more."),
    "rate": (["--max-failure-rate", "1.5"], "--max-failure-rate is 1.5; allowed: 0 to 1."),
    "rate nan": (["--max-failure-rate", "nan"], "--max-failure-rate is nan; allowed: 0 to 1."),
    "wave nan": (["--wave-seconds", "nan"], "--wave-seconds is nan; allowed: 0.001 or more."),
    "tenant": (["--tenant", ""], "--tenant is empty"),
    "actors": (["--extract-actors", "many"], "actors is 'many'; allowed: N or MIN:MAX"),
    "actors range": (["--embed-actors", "3:1"], "allowed: N or MIN:MAX"),
    "preset": (
        ["--models", "huge"],
        "models is 'huge'; allowed: small, small-decoder, paper, fake",
    ),
    "TOML": (["--models", "none.toml"], "none.toml cannot be read: No such file"),
    "backend": (["--extractor", "bard:x"], "extractor.backend is 'bard'; allowed: tagger"),
    "missing": (["--input", "none.jsonl"], "input 'none.jsonl' does not exist; give a file"),
    "suffix": (["--input", "notes.txt"], "input 'notes.txt' has a suffix that is not supported"),
    "empty": (["--input", "empty"], "input 'empty' matches no file to read"),
    "scheme": (["--input", "ftp2://x/y.jsonl"], "allowed: file://, s3://"),
    "folder": (["--summary", "no/s.json"], "--summary is 'no/s.json', in a folder that does not"),
    "no file": (["--summary", "empty"], "--summary is 'empty'; allowed: a file that can be"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_value_is_refused_with_what_is_allowed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir()
    Path("notes.txt").write_text("x")
    options, message = REFUSED[name]
    assert build_memory.main(["--input", SAMPLES, "--store", "memory", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert "Traceback" not in error
    assert not Path("memory").exists()


def test_an_input_without_the_right_to_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("secret.jsonl").write_text("{}")
    monkeypatch.setattr(os, "access", lambda *args: False)  # root may read everything
    assert build_memory.main(["--input", "secret.jsonl", "--store", "memory"]) == 2
    assert "no file that can be read; check it and its rights" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--colour", "red"], "unrecognized arguments: --colour red"),
        (["--format", "xml"], "invalid choice: 'xml'"),
        (["--rebuild", "some"], "invalid choice: 'some'"),
        (["--writer", "me"], "invalid choice: 'me'"),
        (["--limit", "few"], "invalid int value: 'few'"),
    ],
)
def test_an_unknown_option_or_choice_ends_with_2(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        build_memory.main(["--input", SAMPLES, "--store", "memory", *options])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["--input", "--store"])
def test_input_and_store_are_required(missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = {"--input": SAMPLES, "--store": "memory"}
    del argv[missing]
    with pytest.raises(SystemExit):
        build_memory.main([word for pair in argv.items() for word in pair])
    assert f"required: {missing}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--input", "--store"])
def test_a_relative_path_in_a_submitted_job_is_refused(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    argv = {"--input": SAMPLES, "--store": "/shared/memory"} | {option: "here/x.jsonl"}
    assert build_memory.main([word for pair in argv.items() for word in pair]) == 2
    error = capsys.readouterr().err
    assert f"{option} is 'here/x.jsonl', a relative path, in a submitted job" in error
    assert "give an absolute path that is shared, or a URI" in error


def test_absolute_paths_and_uris_are_fine_in_a_submitted_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    job = check(parser().parse_args(["--input", SAMPLES, "--store", "s3://bucket/memory"]))
    assert job.paths == (SAMPLES,)


def test_a_checked_job_has_files_models_and_actors() -> None:
    words = "--store m --models fake --encoder sentence:x --rebuild stale --weigh-actors 2:4"
    job = check(parser().parse_args(["--input", SAMPLES, *words.split()]))
    assert job.models.extractor == FAKE_MODELS.extractor
    assert (job.models.encoder.backend, job.models.encoder.model) == ("sentence", "x")
    assert job.rebuild is Rebuild.STALE
    assert job.actors == {"weigh": (2, 4)}


def test_help_shows_every_option_with_its_default_and_unit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        build_memory.main(["--help"])
    assert stopped.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for action in parser()._actions:
        assert action.option_strings[-1] in shown
        if action.default not in (None, False, "==SUPPRESS=="):
            assert "default: " in str(action.help), action.option_strings
    assert "--wave-seconds S seconds after which" in shown
    assert "exit status: 0 done, 1 finished above the failure limit, 2 bad usage" in shown
