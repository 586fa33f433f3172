"""How the application is made: behind HAProxy there must be keys."""

from pathlib import Path
from typing import Any

import pytest
import ray.serve
from ray.serve import Application

from glong.errors import ConfigError
from serve.__main__ import main
from serve.app import build_app, require_keys_behind_haproxy
from serve.auth import Keys
from serve.settings import settings_from
from tests.serve.conftest import KEYS
from tests.serve.real_service import keys_file

HAPROXY = "RAY_SERVE_ENABLE_HA_PROXY"


def test_behind_haproxy_there_must_be_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environ = {"GLONG_STORE": "m", "GLONG_MODELS": "fake"}
    monkeypatch.setenv(HAPROXY, "1")
    with pytest.raises(ConfigError, match="GLONG_KEYS_FILE is not set: HAProxy hides who asks"):
        build_app(settings_from(environ))
    with pytest.raises(ConfigError):  # in a replica, whose node may differ
        require_keys_behind_haproxy(Keys())
    require_keys_behind_haproxy(KEYS)
    build_app(settings_from({**environ, "GLONG_KEYS_FILE": keys_file(tmp_path)}))


def test_without_haproxy_there_need_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, "0"):
        monkeypatch.delenv(HAPROXY, raising=False)
        if value:
            monkeypatch.setenv(HAPROXY, value)
        require_keys_behind_haproxy(Keys())


def test_python_m_serve_listens_where_it_is_told_and_stops_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Any] = []

    def run(app: Application, name: str) -> None:
        done.append(name)
        raise KeyboardInterrupt

    monkeypatch.setenv("GLONG_STORE", "m")
    monkeypatch.setenv("GLONG_MODELS", "fake")
    monkeypatch.setattr(ray.serve, "start", lambda http_options: done.append(http_options))
    monkeypatch.setattr(ray.serve, "run", run)
    monkeypatch.setattr(ray.serve, "shutdown", lambda: done.append("shut down"))
    assert main(["--host", "10.0.0.7", "--port", "8123"]) == 0
    options, *others = done
    assert (options.host, options.port) == ("10.0.0.7", 8123)
    assert others == ["glong", "shut down"]


def test_what_is_not_allowed_is_said_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GLONG_STORE", raising=False)
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("error: GLONG_STORE is not set; give the folder")
