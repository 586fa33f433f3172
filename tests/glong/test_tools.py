"""The tools of a language model over a store, with the official client in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glong.cli.embedded import Embedded
from glong.errors import ModelError
from glong.memory import Memory
from tests.glong import tool_calls
from tests.glong.tool_calls import FIRST, add, call, recall, refusal

mcp = pytest.importorskip("mcp")
Asked = Callable[[Any], Awaitable[Any]]
Ask = Callable[[Asked], Any]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(str(tmp_path / "store"), models="fake") as opened:
        yield opened


@pytest.fixture
def ask(memory: Memory) -> Ask:
    """``ask(what)`` runs ``what(client)``."""
    from glong.tools import tool_server

    async def asked(what: Asked) -> Any:
        async with mcp.Client(tool_server(Embedded(memory))) as client:
            return await what(client)

    return lambda what: asyncio.run(asked(what))


def test_sessions_are_added_recalled_and_forgotten(ask: Ask) -> None:
    ask(tool_calls.remember_and_forget)


def test_the_tools_say_what_they_take_and_what_they_do(ask: Ask) -> None:
    listed = ask(lambda client: client.list_tools())
    tools = {tool.name: tool for tool in listed.tools}
    assert list(tools) == ["add_session", "retrieve", "forget"]
    required = {name: tool.input_schema["required"] for name, tool in tools.items()}
    assert required == {
        "add_session": ["dialogue_id", "session_id", "turns"],
        "retrieve": ["dialogue_id", "query"],
        "forget": ["dialogue_id"],
    }
    for tool in tools.values():
        assert tool.description
        assert tool.output_schema
        for name, value in tool.input_schema["properties"].items():
            assert value.get("description"), f"{tool.name}.{name}"
    assert tools["forget"].annotations.destructive_hint
    assert tools["retrieve"].annotations.read_only_hint


@pytest.mark.parametrize(
    "part",
    [
        {}, {"session_id": "s1", "edge_id": "e"}, {"session_id": "s1", "everything": True},
        {"turn_index": 0}, {"turn_index": 0, "everything": True},
    ],
)  # fmt: skip
def test_what_to_forget_must_be_said_clearly(ask: Ask, part: dict[str, Any]) -> None:
    async def asked(client: Any) -> str:
        await add(client, "d", "s1", FIRST)
        said = await refusal(client, "forget", dialogue_id="d", **part)
        assert await recall(client, "d", "greyhound")
        return said

    assert "everything=true" in ask(asked)


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("retrieve", {"query": "x"}, "Add a session first"),
        ("retrieve", {"query": "x", "k": 21}, "less than or equal to 20"),
        ("retrieve", {"query": ""}, "at least 1 character"),
        ("retrieve", {}, "query"),
        ("forget", {"everything": True}, "check the ids"),
        ("forget", {"session_id": "none"}, "check the ids"),
        ("add_session", {"session_id": "s", "turns": []}, "at least 1 item"),
        ("add_session", {"session_id": "s", "turns": [{"speaker": "A"}]}, "text"),
        ("add_session", {"session_id": "by-hand", "turns": FIRST}, "another id"),
        ("add_session", {"session_id": "s", "turns": FIRST, "started_at": "today"}, "started_at"),
    ],
)  # fmt: skip
def test_an_error_says_what_to_do(
    ask: Ask, tool: str, arguments: dict[str, Any], says: str
) -> None:
    assert says in ask(lambda client: refusal(client, tool, dialogue_id="d", **arguments))


def test_a_model_that_is_down_is_told_and_a_bug_is_not(
    ask: Ask, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_with(error: Exception) -> str:
        def build(*given: object, **options: object) -> None:
            raise error

        monkeypatch.setattr(memory, "build", build)
        said: str = ask(
            lambda client: refusal(
                client, "add_session", dialogue_id="d", session_id="s", turns=FIRST
            )
        )
        return said

    assert "Engine died. Restart it." in fail_with(ModelError("Engine died.", hint="Restart it."))
    assert "greyhound" not in fail_with(RuntimeError("Mira's greyhound"))


def test_calls_at_once_are_answered_as_calls_in_turn(ask: Ask) -> None:
    queries = ["greyhound", "Leipzig", "old station", "Pixel"] * 4

    async def asked(client: Any) -> None:
        await add(client, "d", "s1", FIRST)
        in_turn = [await recall(client, "d", query) for query in queries]
        at_once = await asyncio.gather(*(recall(client, "d", query) for query in queries))
        strip = [[{**one, "score": 0.0} for one in found] for found in in_turn]
        assert [[{**one, "score": 0.0} for one in found] for found in at_once] == strip
        await asyncio.gather(*(add(client, "d", f"s{n}", FIRST) for n in range(2, 6)))
        assert {one["session_id"] for one in await recall(client, "d", "greyhound")} <= {
            f"s{n}" for n in range(1, 6)
        }

    ask(asked)


def test_times_of_turns_are_kept(ask: Ask) -> None:
    turns = [{**FIRST[0], "time": "2025-12-31T23:00:00+01:00"}]

    async def asked(client: Any) -> Any:
        await call(client, "add_session", dialogue_id="d", session_id="s", turns=turns)
        return (await recall(client, "d", "greyhound"))[0]["time"]

    assert ask(asked) == "2025-12-31T22:00:00Z"
