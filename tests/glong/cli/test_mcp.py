"""``glong mcp`` as a client starts it: in a process of its own, over its input and output."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from glong.cli import main
from tests.glong import tool_calls

GLONG = str(Path(sys.executable).parent / "glong")


def arguments(folder: Path) -> list[str]:
    return ["mcp", "--store", str(folder / "store"), "--models", "fake"]


@pytest.mark.slow
@pytest.mark.ci
def test_the_official_client_adds_recalls_and_forgets(tmp_path: Path) -> None:
    mcp = pytest.importorskip("mcp")
    server = mcp.StdioServerParameters(command=GLONG, args=arguments(tmp_path))

    async def told() -> None:
        async with mcp.Client(server) as client:
            await tool_calls.remember_and_forget(client)

    asyncio.run(told())


@pytest.mark.slow
def test_standard_output_carries_the_protocol_only(tmp_path: Path) -> None:
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}}
    begin["clientInfo"] = {"name": "test", "version": "1"}
    add = {"dialogue_id": "d", "session_id": "s", "turns": tool_calls.FIRST}
    messages = [
        {"id": 1, "method": "initialize", "params": begin},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "add_session", "arguments": add}},
        {"id": 3, "method": "tools/call", "params": {"name": "dance", "arguments": {}}},
    ]
    process = subprocess.Popen(
        [GLONG, *arguments(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    answers = []
    with process:
        assert process.stdin and process.stdout and process.stderr  # noqa: PT018
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()
            if "id" in message:
                answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        rest, errors = process.stdout.read(), process.stderr.read()
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert answers[1]["result"]["structuredContent"]["status"] == "built"
    assert answers[2].get("error") or answers[2]["result"]["isError"]
    assert rest == ""
    assert process.returncode == 0, errors


def test_without_the_package_it_names_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    for name in ("glong.tools", "glong.cli.embedded"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert main(arguments(tmp_path)) == 2
    assert 'pip install "glong[mcp]"' in capsys.readouterr().err
    assert not (tmp_path / "store").exists()
