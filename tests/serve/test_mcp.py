"""The memory tools over a running service, with the official client."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serve.auth import KeyEntry, Keys, key_hash
from tests.glong import tool_calls
from tests.glong.tool_calls import FIRST, add, call, recall, refusal
from tests.serve.local_services import LocalServices
from tests.serve.viewer_memories import serving

mcp = pytest.importorskip("mcp")
KEYS = Keys((KeyEntry("acme", key_hash("key-a")), KeyEntry("other", key_hash("key-b"))))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    local = LocalServices(str(tmp_path_factory.mktemp("mcp") / "store"))
    with serving(local, KEYS) as address:
        yield address


def ask(url: str, key: str, what: Any) -> Any:
    """Run ``what(client)`` against the service."""
    from glong.tools import tool_server
    from serve.mcp import connected

    async def asked() -> Any:
        async with mcp.Client(tool_server(connected(url, key))) as client:
            return await what(client)

    return asyncio.run(asked())


def test_sessions_are_added_recalled_and_forgotten(url: str) -> None:
    ask(url, "key-a", tool_calls.remember_and_forget)


@pytest.mark.slow
def test_it_runs_as_a_command_with_the_key_from_the_environment(url: str) -> None:
    server = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "serve.mcp", "--url", url, "--key-env", "MY_KEY"],
        env={"MY_KEY": "key-b"},
        cwd=Path(__file__).parents[2],
    )

    async def told() -> None:
        async with mcp.Client(server) as client:
            await tool_calls.remember_and_forget(client)

    asyncio.run(told())


def test_a_tenant_sees_its_own_memories_only(url: str) -> None:
    ask(url, "key-a", lambda client: add(client, "private", "s", FIRST))
    said = ask(
        url, "key-b", lambda client: refusal(client, "retrieve", dialogue_id="private", query="x")
    )
    assert "no such dialogue" in said


def test_a_wrong_key_and_a_wrong_address_say_what_to_do(url: str) -> None:
    def asked(client: Any) -> Any:
        return refusal(client, "retrieve", dialogue_id="d", query="x")

    assert "Authorization: Bearer KEY" in ask(url, "wrong", asked)
    assert "Is it running, and is --url right?" in ask("http://127.0.0.1:1", "", asked)


@pytest.mark.parametrize("part", [{"entity": ".."}, {"session_id": "."}, {"edge_id": "a/../.."}])
def test_an_id_that_would_name_another_path_is_refused(url: str, part: dict[str, str]) -> None:
    async def asked(client: Any) -> str:
        await add(client, "whole", "s", FIRST)
        said = await refusal(client, "forget", dialogue_id="whole", **part)
        assert await recall(client, "whole", "greyhound")
        return said

    assert "cannot stand in a URL" in ask(url, "key-a", asked)


def test_odd_ids_name_memories_of_their_own(url: str) -> None:
    async def asked(client: Any) -> str:
        await add(client, "ä 😀?#%", "s&s", FIRST)
        assert await recall(client, "ä 😀?#%", "greyhound")
        gone = await call(client, "forget", dialogue_id="ä 😀?#%", session_id="s&s")
        scope: str = gone["scope"]
        return scope

    assert ask(url, "key-a", asked) == "session"


def test_what_is_no_url_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    from serve.mcp import main

    assert main(["--url", "localhost:8000"]) == 2
    assert "allowed: http://HOST:PORT" in capsys.readouterr().err
