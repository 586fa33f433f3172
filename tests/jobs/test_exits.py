"""How jobs end, whatever they do."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from glong.errors import (
    ConfigError,
    ConflictError,
    GlongError,
    NotFoundError,
    SchemaError,
    SourceError,
)
from jobs.exits import USAGE_ERRORS, run_to_end


def end(error: BaseException, **options: Any) -> int:
    def work() -> Mapping[str, Any]:
        raise error

    return run_to_end(work, None, **options)


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (ConfigError("Wrong."), 2, "error: Wrong.\n"),
        (SourceError("No data."), 2, "error: No data.\n"),
        (SchemaError("Other models."), 2, "error: Other models.\n"),
        (ConflictError("Others write."), 3, "error: Others write.\nStopped; the last checkpoint"),
        (NotFoundError("It went."), 3, "error: It went.\nStopped; the last checkpoint"),
        (OSError("Disk full."), 3, "error: Disk full.\nStopped; the last checkpoint"),
        (KeyboardInterrupt(), 130, "Interrupted; the last checkpoint stays. Run the same command"),
    ],
)
def test_the_status_says_what_stopped_the_work(
    error: BaseException, status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(error) == status
    assert capsys.readouterr().err.startswith(says)


def test_a_job_may_count_more_as_bad_usage() -> None:
    usage: tuple[type[GlongError], ...] = (*USAGE_ERRORS, NotFoundError)
    assert end(NotFoundError("No such dialogue."), usage=usage) == 2


@pytest.mark.parametrize(("limit", "status"), [(2, 0), (0, 1)])
def test_what_was_done_is_written_and_held_against_a_limit(
    limit: int, status: int, tmp_path: Path
) -> None:
    path = tmp_path / "summary.json"
    assert run_to_end(lambda: {"n": 1}, path, above_limit=lambda n: n["n"] > limit) == status
    assert json.loads(path.read_text()) == {"n": 1}


def test_a_summary_that_cannot_be_written_is_no_traceback(tmp_path: Path) -> None:
    assert run_to_end(dict, tmp_path / "none" / "summary.json") == 3


def test_sigterm_ends_work_as_ctrl_c_does_and_later_means_what_it_meant() -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert run_to_end(lambda: signal.raise_signal(signal.SIGTERM) or {}, None) == 130
    assert signal.getsignal(signal.SIGTERM) is before
