"""Calls of the memory tools by the official client, and a story that every server has to tell."""

from typing import Any

from mcp import Client

FIRST = [
    {"speaker": "Mira", "text": "I bought a grey greyhound called Pixel last week."},
    {"speaker": "Tom", "text": "We visited Leipzig and the old station together."},
    {"speaker": "Mira", "text": "My sister plans a trip to Norway in spring."},
]
SECOND = [{"speaker": "Tom", "text": "I play the theremin in a band."}]


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool returns."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    returned: dict[str, Any] = result.structured_content
    return returned


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """What a tool says where it cannot do what is asked."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    said: str = result.content[0].text
    return said


async def add(client: Client, dialogue: str, session: str, turns: list[dict[str, str]]) -> Any:
    """Add a session of a known time."""
    start = "2026-01-05T10:00:00Z"
    return await call(
        client, "add_session", dialogue_id=dialogue, session_id=session, turns=turns,
        started_at=start,
    )  # fmt: skip


async def recall(client: Client, dialogue: str, query: str) -> list[dict[str, Any]]:
    """The memories that a query finds."""
    found = await call(client, "retrieve", dialogue_id=dialogue, query=query)
    memories: list[dict[str, Any]] = found["memories"]
    return memories


async def remember_and_forget(client: Client) -> None:
    """Sessions are added, recalled with their ids, forgotten by them, and then not recalled."""
    assert (await add(client, "mira", "s1", FIRST))["status"] == "built"
    assert await add(client, "mira", "s1", FIRST) == {
        "status": "unchanged", "n_turns": 0, "n_facts": 0,
    }  # fmt: skip
    assert (await add(client, "mira", "s2", SECOND))["n_turns"] == 1
    best = (await recall(client, "mira", "grey greyhound Pixel"))[0]
    assert (best["speaker"], best["said"]) == ("Mira", FIRST[0]["text"])
    assert (best["session_id"], best["turn_index"]) == ("s1", 0)
    assert best["time"] == "2026-01-05T10:00:00Z"
    fact = best["facts"][0]
    gone = await call(client, "forget", dialogue_id="mira", edge_id=fact["edge_id"])
    assert (gone["scope"], gone["rows"]["edges"]) == ("edge", 1)
    turn = await call(client, "forget", dialogue_id="mira", session_id="s1", turn_index=0)
    assert (turn["scope"], turn["rows"]["turns"]) == ("turn", 1)
    assert all(one["said"] != FIRST[0]["text"] for one in await recall(client, "mira", "Pixel"))
    await call(client, "forget", dialogue_id="mira", entity="Tom", turns=True)
    left = await recall(client, "mira", "theremin")
    assert [(one["session_id"], one["turn_index"]) for one in left] == [("s1", 2)]
    assert (await add(client, "mira", "s3", SECOND))["status"] == "built"
    await call(client, "forget", dialogue_id="mira", everything=True)
    said = await refusal(client, "retrieve", dialogue_id="mira", query="theremin")
    assert "session" in said
    assert (await add(client, "mira", "s1", FIRST))["status"] == "built"
    assert len(await recall(client, "mira", "greyhound")) == len(FIRST)
