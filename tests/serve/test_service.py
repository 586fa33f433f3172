"""The whole service on a real, local Ray Serve, with fake models, over HTTP.

One application for all tests here; what single routes do is tested without Ray in ``test_api.py``.
"""

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from glong.ids import dialogue_key
from glong.store import Store
from tests.serve import real_service
from tests.serve.conftest import SESSION

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("service") / "store")


@pytest.fixture(scope="module")
def url(serve_cluster: None, store_uri: str) -> Iterator[str]:
    """Where the application answers."""
    keys = real_service.keys_file(Path(store_uri).parent)
    environ = {"GLONG_STORE": store_uri, "GLONG_MODELS": "fake", "GLONG_KEYS_FILE": keys}
    with real_service.running({**environ, "GLONG_FLUSH_S": "5"}) as address:
        yield address


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": "Bearer key-a"}
    with httpx.Client(base_url=url, headers=headers, timeout=120) as client:
        yield client


def post(http: httpx.Client, dialogue: str, **change: Any) -> dict[str, Any]:
    response = http.post(f"/v1/dialogues/{dialogue}/sessions", json={**SESSION, **change})
    assert response.status_code == 200, response.text
    posted: dict[str, Any] = response.json()
    return posted


def ask(http: httpx.Client, dialogue: str, query: str) -> dict[str, Any]:
    body = {"query": query, "now": "2026-02-01T00:00:00Z"}
    response = http.post(f"/v1/dialogues/{dialogue}/retrieve", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.ci
def test_it_is_ready_and_wants_a_key(http: httpx.Client, url: str) -> None:
    assert httpx.get(f"{url}/readyz", timeout=60).json() == {"status": "ready"}
    refused = httpx.get(f"{url}/v1/dialogues", headers={"Authorization": "Bearer no"})
    assert (refused.status_code, refused.json()["error"]["type"]) == (401, "unauthorized")
    assert refused.headers["x-request-id"] == refused.json()["error"]["request_id"]


@pytest.mark.ci
def test_a_session_is_remembered_retrieved_refreshed_and_forgotten(http: httpx.Client) -> None:
    first = post(http, "d")
    assert (first["status"], post(http, "d")["status"]) == ("built", "unchanged")
    assert ask(http, "d", "grey greyhound")["store_version"] == first["store_version"]
    more = [{"speaker": "Tom", "text": "I play the theremin."}]
    second = post(http, "d", session_id="s2", turns=more)
    hits = ask(http, "d", "theremin")
    assert hits["store_version"] == second["store_version"] > first["store_version"]
    assert hits["hits"][0]["turn"]["session_id"] == "s2"
    receipt = http.delete("/v1/dialogues/d/sessions/s2").json()
    assert (receipt["scope"], receipt["rows"]["turns"]) == ("session", 1)
    assert "theremin" not in json.dumps(ask(http, "d", "theremin"))
    assert http.delete("/v1/dialogues/nobody").status_code == 404
    assert http.post("/v1/dialogues/d/retrieve", content=b"{").status_code == 422


@pytest.mark.ci
def test_the_unmodified_openai_client_works_streaming_and_not(url: str) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key="key-a", base_url=f"{url}/v1", timeout=120, max_retries=0)

    def say(text: str, session: str, **more: Any) -> Any:
        metadata = {"dialogue_id": "chat", "remember": "true", "session_id": session}
        messages = [{"role": "user", "content": text}]
        return client.chat.completions.create(
            model="glong", messages=messages, metadata=metadata, **more
        )

    say("My greyhound is called Pixel.", "one")
    say("I had soup today.", "two", max_tokens=3)
    answer = say("What is my greyhound called?", "three")
    block = answer.choices[0].message.content.partition("<<MEMORY>>")[2]
    assert "Pixel" in block
    assert answer.usage.total_tokens > 0
    chunks = list(
        say("And my greyhound?", "three", stream=True, stream_options={"include_usage": True})
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert "Pixel" in text.partition("<<MEMORY>>")[2]
    assert len(chunks) > 10
    assert chunks[-1].usage.total_tokens > 0
    headers = {"Authorization": "Bearer key-a"}
    listed = httpx.get(f"{url}/v1/dialogues/chat/sessions", headers=headers, timeout=60).json()
    counts = {row["session_id"]: row["n_turns"] for row in listed["sessions"]}
    assert counts == {"one": 2, "two": 2, "three": 4}
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="no").chat.completions.create(
            model="glong", messages=[{"role": "user", "content": "x"}]
        )


def test_respond_streams_events(http: httpx.Client) -> None:
    post(http, "respond")
    body = {"message": "greyhound?", "stream": True}
    with http.stream("POST", "/v1/dialogues/respond/respond", json=body) as response:
        lines = [line for line in response.iter_lines() if line.startswith("event: ")]
    assert (lines[0], lines[-1]) == ("event: memories", "event: done")
    assert lines.count("event: delta") > 5


def test_one_cold_graph_asked_for_by_many_is_loaded_once(http: httpx.Client) -> None:
    posted = post(http, "cold")
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: ask(http, "cold", "greyhound"), range(12)))
    assert len({json.dumps(answer["hits"]) for answer in answers}) == 1
    assert all(answer["store_version"] >= posted["store_version"] for answer in answers)


def test_a_tenant_never_sees_another(http: httpx.Client) -> None:
    post(http, "private")
    headers = {"Authorization": "Bearer key-b"}
    for name in ("private", "private' OR '1'='1", "..%2F..%2Fprivate", "private%27--"):
        for path in ("graph", "sessions", "export"):
            found = http.get(f"/v1/dialogues/{name}/{path}", headers=headers)
            assert found.status_code == 404
        assert http.delete(f"/v1/dialogues/{name}", headers=headers).status_code == 404
    assert http.get("/v1/dialogues", headers=headers).json()["dialogues"] == []


def test_accesses_are_written_in_the_background(http: httpx.Client, store_uri: str) -> None:
    post(http, "used")
    hits = ask(http, "used", "greyhound")["hits"]
    used = {edge["id"] for hit in hits for edge in hit["edges"]}
    key = dialogue_key("acme", "used")
    deadline = time.monotonic() + 30
    written: set[str] = set()
    while used and written != used and time.monotonic() < deadline:
        time.sleep(0.2)
        rows = Store.open(store_uri).visible("accesses", dialogue_key=key, columns=["edge_id"])
        written = set(rows["edge_id"].to_pylist())
    assert written == used


def test_metrics_of_all_replicas_are_on_one_page(http: httpx.Client) -> None:
    deadline = time.monotonic() + 60
    wanted = ("glong_requests", "glong_graph_lookups", "glong_sessions_ingested")
    while time.monotonic() < deadline:
        page = http.get("/metrics").text
        if all(name in page for name in wanted):
            break
        time.sleep(1)
    assert all(name in page for name in wanted)
    assert "greyhound" not in page
    assert os.getcwd() not in page


def test_what_was_accessed_and_posted_last_is_not_lost_when_it_stops(
    http: httpx.Client, store_uri: str
) -> None:
    from ray import serve

    post(http, "last")
    hits = ask(http, "last", "greyhound")["hits"]
    serve.delete("glong")
    key = dialogue_key("acme", "last")
    rows = Store.open(store_uri).visible("accesses", dialogue_key=key, columns=["edge_id"])
    used = {edge["id"] for hit in hits for edge in hit["edges"]}
    assert used
    assert set(rows["edge_id"].to_pylist()) == used
