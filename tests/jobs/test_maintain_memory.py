import json
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from glong.errors import ConflictError
from glong.store import Store
from jobs.maintain_memory import main
from tests.glong.store.rows import built_session, new_store, wave

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A relative path to a store with two sessions, one of them replaced."""
    monkeypatch.chdir(tmp_path)
    store = new_store("memory")
    store.append_wave(wave("b1", built_session("d", "s1"), built_session("d", "s2")))
    store.append_wave(wave("b2", built_session("d", "s1", content="c2")))
    return "memory"


def test_status_tells_people_and_programs(
    store_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--store", store_uri]) == 0
    assert "2 sessions built, 0 failed, 1 dialogues" in capsys.readouterr().out
    assert main(["status", "--store", store_uri, "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["waves"], status["garbage_rows"]["edges"]) == (2, 2)
    assert status["meta"]["encoder"] == "fake-4"


def test_verify_ends_with_1_on_violations(
    store_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--store", store_uri]) == 0
    assert capsys.readouterr().out == "no violations\n"
    new_store(store_uri).layout.dataset("edges").delete("relation = 'likes'")
    assert main(["verify", "--store", store_uri, "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["violations"]
    assert (found["table"], found["rule"], found["n"]) == ("edges", "count", 2)
    assert main(["verify", "--store", store_uri]) == 1
    assert "edges: count: 2 sessions whose n_edges" in capsys.readouterr().out


def test_export_writes_the_tables(store_uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--store", store_uri, "--out", "out/dump"]) == 0
    assert capsys.readouterr().out.startswith("out/dump: 4 turns, ")
    assert len(Path("out/dump/edges.jsonl").read_text().splitlines()) == 4


def test_compact_deletes_garbage(store_uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compact", "--store", store_uri, "--grace-hours", "0"]) == 0
    assert capsys.readouterr().out.startswith("7 garbage rows deleted, ")
    assert main(["verify", "--store", store_uri]) == 0


def test_a_missing_store_is_bad_usage_and_stays_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--store", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("error: There is no store at ")
    assert not (tmp_path / "none").exists()


def test_an_output_that_cannot_be_written_is_said_without_a_traceback(
    store_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("")
    assert main(["export", "--store", store_uri, "--out", "file/sub"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["status"],
        ["dance", "--store", "x"],
        ["compact", "--store", "x", "--grace-hours", "-1"],
        ["compact", "--store", "x", "--grace-hours", "soon"],
    ],
)
def test_bad_usage_ends_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2


def test_a_relative_store_in_a_submitted_job_is_refused(
    store_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert main(["status", "--store", store_uri]) == 2
    assert "relative path, in a submitted job" in capsys.readouterr().err


def test_it_runs_as_a_script_without_ray(store_uri: str) -> None:
    script = ROOT / "jobs" / "maintain_memory.py"
    code = f"import runpy, sys; sys.argv = ['x', 'status', '--store', {store_uri!r}]\n"
    code += f"try: runpy.run_path({str(script)!r}, run_name='__main__')\n"
    code += "finally: assert 'ray' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 sessions built" in done.stdout


def test_forget_and_purge_take_it_out(store_uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = ["forget", "--store", store_uri, "--dialogue", "d"]
    assert main([*target, "--session", "s1", "--json"]) == 0
    receipt = json.loads(capsys.readouterr().out)
    assert (receipt["scope"], receipt["rows"]["edges"], receipt["purge_due"]) == (
        "session",
        2,
        True,
    )
    assert main([*target, "--entity", "Rex"]) == 0
    assert capsys.readouterr().out.startswith("forgotten (entity): 1 entities, 1 edges; still on")
    assert main(["purge", "--store", store_uri]) == 0
    assert capsys.readouterr().out.startswith("purged: ")
    assert main(["purge", "--store", store_uri, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["rows"].values()) == {0}
    assert main(["verify", "--store", store_uri]) == 0
    assert main([*target, "--edge", "none"]) == 2
    assert main([*target, "--turn", "1"]) == 2
    assert main(["forget", "--store", store_uri, "--dialogue", "d", "--tenant", "acme"]) == 2


def test_a_command_that_others_stop_ends_with_3(
    store_uri: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: Store, now: datetime) -> None:
        raise ConflictError("Others are writing.")

    monkeypatch.setattr(Store, "purge", refuse)
    assert main(["purge", "--store", store_uri]) == 3
    assert capsys.readouterr().err.startswith("error: Others are writing.\nStopped; what was done")


def test_a_purge_that_is_told_to_end_gives_its_lease_back(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    purge = ["purge", "--store", store_uri]
    with monkeypatch.context() as patch:
        stop = "glong.store.purge.delete_lost_accesses"
        patch.setattr(stop, lambda *args: signal.raise_signal(signal.SIGTERM))
        assert main(purge) == 130
    new_store(store_uri).append_wave(wave("b3", built_session("d", "s3")))
    assert main(purge) == 0


def test_the_summary_is_what_json_prints(
    store_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "--store", store_uri, "--out", "dump", "--summary", "summary.json"]
    assert main([*words, "--json"]) == 0
    assert json.loads(Path("summary.json").read_text()) == json.loads(capsys.readouterr().out)
    assert main(["status", "--store", store_uri, "--summary", "no/s.json"]) == 2


def test_what_export_wrote_is_imported_once_into_a_store_that_is_made(
    store_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["export", "--store", store_uri, "--out", "dump"])
    command = ["import", "--store", "other", "--from", "dump", "--models", "fake"]
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("2 sessions added, ")
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sessions"] == 0
    assert main(["verify", "--store", "other"]) == 0
    assert main(["import", "--store", "other", "--from", "none", "--models", "fake"]) == 2


def test_another_scorer_and_another_encoder(
    store_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in (2, 0):
        assert main(["reweigh", "--store", store_uri, "--models", "fake"]) == 0
        assert capsys.readouterr().out.startswith(f"{n} sessions weighed again")
    for n in (2, 0):
        assert main(["reembed", "--store", store_uri, "--to", "new", "--models", "fake"]) == 0
        assert capsys.readouterr().out.startswith(f"{n} sessions added, ")
    assert main(["verify", "--store", "new"]) == main(["verify", "--store", store_uri]) == 0
