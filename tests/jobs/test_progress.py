"""Progress on a terminal and elsewhere."""

from types import SimpleNamespace

import pytest

from jobs import progress
from jobs.progress import LINE_EVERY_S, Progress, say


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.s)
    return now


def test_a_log_gets_a_plain_line_now_and_then(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("build") as shown:
        for _ in range(4):
            clock.s += LINE_EVERY_S / 2
            shown.advance(10, "1 waves committed")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "build: 20 sessions, 2.0/s, 1 waves committed",
        "build: 40 sessions, 2.0/s, 1 waves committed",
    ]


def test_a_terminal_gets_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_terminal", lambda: True)
    with Progress("build") as shown:
        shown.advance(7, "2 waves committed")
    text = capsys.readouterr().err
    assert "build: 7 sessions" in text
    assert "2 waves committed" in text


def test_what_is_said_goes_to_people_not_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    say("Hello.")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "Hello.\n")
