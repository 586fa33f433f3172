"""How the application is made: who may be let in behind HAProxy, and what `glong serve` starts."""

import os
import sys
from pathlib import Path

import pytest

from glong.cli import main
from glong.errors import ConfigError
from serve.app import build_app, refuse_hidden_peers
from serve.auth import Keys
from serve.settings import settings_from
from tests.serve.conftest import KEYS
from tests.serve.real_service import keys_file

FAST, HAPROXY = "RAY_SERVE_THROUGHPUT_OPTIMIZED", "RAY_SERVE_ENABLE_HA_PROXY"


def test_behind_haproxy_there_must_be_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environ = {"GLONG_STORE": "m", "GLONG_MODELS": "fake"}
    monkeypatch.setenv(HAPROXY, "1")
    with pytest.raises(ConfigError, match="GLONG_KEYS_FILE is not set: HAProxy hides who asks"):
        build_app(settings_from(environ))
    with pytest.raises(ConfigError):  # in a replica, whose node may differ
        refuse_hidden_peers(Keys())
    refuse_hidden_peers(KEYS)
    build_app(settings_from({**environ, "GLONG_KEYS_FILE": keys_file(tmp_path)}))


def test_without_haproxy_there_need_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, "0"):
        monkeypatch.delenv(HAPROXY, raising=False)
        if value:
            monkeypatch.setenv(HAPROXY, value)
        refuse_hidden_peers(Keys())


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Environments of the programs that `glong serve` would have started."""
    found: list[dict[str, str]] = []

    def become(path: str, command: list[str], env: dict[str, str]) -> None:
        assert (path, command[-2:]) == (sys.executable, ["run", "serve.app:app"])
        found.append(env)

    monkeypatch.setattr(os, "execve", become)
    for name in (FAST, HAPROXY, "GLONG_KEYS_FILE"):
        monkeypatch.delenv(name, raising=False)
    return found


def serve_with(*options: str) -> None:
    main(["serve", "--store", "memory", *options])


def test_glong_serve_puts_haproxy_in_front_where_there_are_keys(
    started: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_with()
    serve_with("--keys-file", "keys.toml")
    monkeypatch.setenv("GLONG_KEYS_FILE", "others.toml")
    serve_with()
    monkeypatch.setenv(HAPROXY, "0")
    serve_with()
    assert [env[FAST] for env in started] == ["1"] * 4
    assert [env.get(HAPROXY) for env in started] == [None, "1", "1", "0"]
    keys = [env.get("GLONG_KEYS_FILE") for env in started]
    assert keys == [None, "keys.toml", "others.toml", "others.toml"]
    assert all(env["PATH"] == os.environ["PATH"] for env in started)
