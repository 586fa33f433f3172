"""The routes over HTTP in this process, with fake models and a real store."""

import json
from typing import Any

import httpx
import pytest

from serve.auth import Keys
from serve.schemas import MAX_BODY_BYTES, RetrieveOut
from tests.serve.conftest import SESSION, Client, MakeClient

RETRIEVE = "/v1/dialogues/d/retrieve"


def error_of(response: httpx.Response) -> dict[str, str]:
    error: dict[str, str] = response.json()["error"]
    assert set(error) == {"type", "message", "hint", "request_id"}
    assert error["request_id"] == response.headers["x-request-id"]
    return error


def edge_ids(client: Client, dialogue: str = "d") -> list[str]:
    return [edge["id"] for edge in client("GET", f"/v1/dialogues/{dialogue}/graph").json()["edges"]]


# What it does


def test_a_posted_session_is_visible_to_the_next_request(client: Client) -> None:
    posted = client("POST", "/v1/dialogues/d/sessions", json=SESSION).json()
    assert posted["status"] == "built"
    assert posted["n_turns"] == 4
    hits = client("POST", RETRIEVE, json={"query": "grey greyhound Pixel"}).json()
    assert hits["store_version"] == posted["store_version"]
    assert hits["hits"][0]["turn"]["text"] == SESSION["turns"][0]["text"]  # type: ignore[index]
    assert hits["hits"][0]["turn"]["time"] == "2026-01-05T10:00:00Z"
    assert hits["hits"][0]["parts"]
    assert hits["timings_ms"]["total"] >= 0


@pytest.mark.parametrize("profile", ["hybrid", "paper"])
def test_a_score_is_the_sum_of_parts_times_factors(shared: Client, profile: str) -> None:
    answer = shared("POST", RETRIEVE, json={"query": "grey Pixel", "profile": profile}).json()
    assert answer["hits"]
    for hit in answer["hits"]:
        added = sum(value * answer["factors"][part] for part, value in hit["parts"].items())
        assert added == pytest.approx(hit["score"], abs=1e-4)


@pytest.mark.parametrize("profile", ["hybrid", "paper"])
def test_an_answer_is_written_as_its_schema_writes_it(shared: Client, profile: str) -> None:
    body = shared("POST", RETRIEVE, json={"query": "grey Pixel", "profile": profile}).content
    assert json.loads(RetrieveOut.model_validate_json(body).model_dump_json()) == json.loads(body)


def test_the_same_session_again_changes_nothing(shared: Client) -> None:
    before = shared("GET", "/v1/dialogues/d/export").json()
    again = shared("POST", "/v1/dialogues/d/sessions", json=SESSION).json()
    assert again["status"] == "unchanged"
    assert shared("GET", "/v1/dialogues/d/export").json() == before


def test_a_session_without_a_start_keeps_the_one_it_has(shared: Client) -> None:
    posted = {key: value for key, value in SESSION.items() if key != "started_at"}
    assert shared("POST", "/v1/dialogues/d/sessions", json=posted).json()["status"] == "unchanged"


def test_a_version_check_refreshes_a_cached_graph(filled: Client) -> None:
    ask: dict[str, Any] = {"query": "Which instrument is a theremin?", "k": 1}
    filled("POST", RETRIEVE, json=ask)
    more = {"session_id": "s2", "turns": [{"speaker": "Tom", "text": "I play the theremin."}]}
    filled("POST", "/v1/dialogues/d/sessions", json=more)
    filled("POST", "/v1/dialogues/elsewhere/sessions", json=more)
    hit = filled("POST", RETRIEVE, json=ask).json()["hits"][0]
    assert hit["turn"]["session_id"] == "s2"


def test_many_requests_for_one_cold_graph_load_it_once(filled: Client) -> None:
    loads = []
    real = filled.services.reader.load
    filled.services.reader.load = (  # type: ignore[method-assign]
        lambda *given: loads.append(given) or real(*given)  # type: ignore[func-returns-value]
    )
    ask = {"query": "greyhound", "now": "2026-02-01T00:00:00Z"}
    answers = filled.at_once([("POST", RETRIEVE, {"json": ask})] * 20)
    assert {answer.status_code for answer in answers} == {200}
    assert len(loads) == 1
    assert len({json.dumps(answer.json()["hits"]) for answer in answers}) == 1


def test_sessions_posted_at_once_are_all_committed(client: Client) -> None:
    posts = [
        ("POST", f"/v1/dialogues/d{n % 3}/sessions", {"json": {**SESSION, "session_id": f"s{n}"}})
        for n in range(12)
    ]
    answers = client.at_once(posts)
    assert [answer.json()["status"] for answer in answers] == ["built"] * 12
    assert len(client.requests) == 12
    listed = client("GET", "/v1/dialogues").json()["dialogues"]
    assert [(row["dialogue_id"], row["n_sessions"]) for row in listed] == [
        ("d0", 4), ("d1", 4), ("d2", 4),
    ]  # fmt: skip


def test_more_posts_than_may_wait_are_refused_with_a_time_to_come_back(client: Client) -> None:
    posts = [
        ("POST", "/v1/dialogues/d/sessions", {"json": {**SESSION, "session_id": f"s{n}"}})
        for n in range(40)
    ]
    answers = client.at_once(posts)
    refused = [answer for answer in answers if answer.status_code != 200]
    assert 0 < len(refused) < 40
    assert {answer.status_code for answer in refused} == {429}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    n_committed = client("GET", "/v1/dialogues").json()["dialogues"][0]["n_sessions"]
    assert n_committed == 40 - len(refused)


def test_lists_are_paged(client: Client) -> None:
    for n in range(5):
        for session in ("s1", "s2", "s3") if n == 0 else ("s1",):
            body = {**SESSION, "session_id": session}
            client("POST", f"/v1/dialogues/user-{n}/sessions", json=body)
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = client("GET", "/v1/dialogues", params={"limit": 2, "after": after}).json()
        found += [row["dialogue_id"] for row in page["dialogues"]]
        after = page["next"]
    assert found == [f"user-{n}" for n in range(5)]
    page = client("GET", "/v1/dialogues", params={"q": "R-3"}).json()
    assert [row["dialogue_id"] for row in page["dialogues"]] == ["user-3"]
    page = client("GET", "/v1/dialogues/user-0/sessions", params={"limit": 2}).json()
    assert [row["session_id"] for row in page["sessions"]] == ["s1", "s2"]
    rest = client("GET", "/v1/dialogues/user-0/sessions", params={"after": page["next"]}).json()
    assert [row["session_id"] for row in rest["sessions"]] == ["s3"]
    assert rest["next"] is None


def test_a_graph_has_nodes_edges_and_source_turns(shared: Client) -> None:
    graph = shared("GET", "/v1/dialogues/d/graph").json()
    nodes = {node["id"] for node in graph["nodes"]}
    assert graph["edges"]
    for edge in graph["edges"]:
        assert {edge["head"], edge["tail"]} <= nodes
        assert edge["turn"]["index"] == edge["turn_index"]
        assert edge["valid_from"] == "2026-01-05T10:00:00Z"


def test_facts_are_stated_and_corrected_by_hand_and_survive_a_rebuild(filled: Client) -> None:
    fact = {"subject": "Mira", "relation": "has pet", "object": "a greyhound"}
    stated = filled("POST", "/v1/dialogues/d/facts", json=fact).json()
    assert filled("POST", "/v1/dialogues/d/facts", json={**fact, "time": "2026-01-01T00:00:00Z"})
    path = f"/v1/dialogues/d/edges/{stated['edge_id']}"
    corrected = filled("PUT", path, json={"object": "a whippet"}).json()
    longer = {**SESSION, "turns": [*SESSION["turns"], {"speaker": "Tom", "text": "Bye."}]}  # type: ignore[misc]
    filled("POST", "/v1/dialogues/d/sessions", json=longer)
    graph = filled("GET", "/v1/dialogues/d/graph").json()
    edges = {edge["id"]: edge for edge in graph["edges"]}
    assert edges[corrected["edge_id"]]["object"] == "a whippet"
    assert stated["edge_id"] not in edges


@pytest.mark.parametrize("scope", ["dialogue", "session", "turn", "edge", "entity"])
def test_what_is_forgotten_is_gone_with_a_receipt(filled: Client, scope: str) -> None:
    graph = filled("GET", "/v1/dialogues/d/graph").json()
    edge = graph["edges"][0]
    path = {
        "dialogue": "",
        "session": "/sessions/s1",
        "turn": f"/sessions/s1/turns/{edge['turn_index']}",
        "edge": f"/edges/{edge['id']}",
        "entity": f"/entities/{edge['head']}",
    }[scope]
    filled("POST", RETRIEVE, json={"query": "greyhound"})  # so that it is cached
    receipt = filled("DELETE", f"/v1/dialogues/d{path}").json()
    assert (receipt["scope"], receipt["dialogue_id"]) == (scope, "d")
    assert sum(receipt["rows"].values()) > 0
    assert receipt["forgotten_at"].endswith("Z")
    after = filled("GET", "/v1/dialogues/d/graph")
    if scope in ("dialogue", "session"):
        assert after.status_code == 404
        assert filled("POST", RETRIEVE, json={"query": "greyhound"}).status_code == 404
    else:
        assert edge["id"] not in edge_ids(filled)


def test_a_forgotten_turn_stays_away_while_its_session_grows(filled: Client) -> None:
    filled("DELETE", "/v1/dialogues/d/sessions/s1/turns/0")
    longer = {**SESSION, "turns": [*SESSION["turns"], {"speaker": "Tom", "text": "Bye then."}]}  # type: ignore[misc]
    assert filled("POST", "/v1/dialogues/d/sessions", json=longer).json()["status"] == "built"
    turns = filled("GET", "/v1/dialogues/d/export").json()["turns"]
    assert [turn["turn_index"] for turn in turns] == [1, 2, 3, 4]


def test_a_forgotten_session_comes_back_when_its_owner_posts_it_anew(filled: Client) -> None:
    filled("DELETE", "/v1/dialogues/d/sessions/s1")
    assert filled("POST", "/v1/dialogues/d/sessions", json=SESSION).json()["status"] == "built"
    assert len(filled("GET", "/v1/dialogues/d/export").json()["turns"]) == 4


# Bad input


@pytest.mark.parametrize(
    "body",
    [
        {}, {"query": ""}, {"query": 3}, {"query": "x", "k": 0}, {"query": "x", "k": 51},
        {"query": "x", "k": "three"}, {"query": "x", "profile": "best"}, {"query": "x" * 20_001},
        {"query": "x", "now": "2026-01-05T10:00:00"}, {"query": "x", "now": "tomorrow"},
        {"query": "x", "recent": ["y"] * 51}, {"query": "x", "unknown": 1}, [], "x", None,
        {"query": "x", "now": "0001-01-01T00:00:00+14:00"},
        {"query": "x", "recent": [{"speaker": "x"}]}, {"query": "x", "now": 1767607200},
        {"query": "x", "as_of": "1767607200"}, {"query": "x", "now": 7.5},
    ],
)  # fmt: skip
def test_bad_input_is_422_in_our_form(shared: Client, body: Any) -> None:
    response = shared("POST", RETRIEVE, json=body)
    assert response.status_code == 422
    assert error_of(response)["type"] == "invalid_input"


@pytest.mark.parametrize(
    "content", [b"{", b'{"query": "\\ud800"}', b"\xff", b"", b'{"query": NaN}']
)
def test_broken_json_is_422(shared: Client, content: bytes) -> None:
    response = shared(
        "POST", RETRIEVE, content=content, headers={"content-type": "application/json"}
    )
    assert response.status_code == 422
    assert error_of(response)["type"] == "invalid_input"


@pytest.mark.parametrize(
    "change",
    [
        {"session_id": ""}, {"session_id": "a\nb"}, {"session_id": "x" * 257}, {"turns": []},
        {"turns": [{"speaker": "", "text": "x"}]}, {"turns": [{"speaker": "a"}]},
        {"turns": [{"speaker": "a", "text": "x" * 100_001}]}, {"started_at": "2026-01-05"},
        {"session_id": "by-hand"}, {"started_at": 7.5}, {"started_at": "7.5e3"},
    ],
)  # fmt: skip
def test_a_bad_session_is_422_and_nothing_is_stored(shared: Client, change: dict[str, Any]) -> None:
    response = shared("POST", "/v1/dialogues/bad/sessions", json={**SESSION, **change})
    assert response.status_code == 422
    error_of(response)
    assert shared("GET", "/v1/dialogues/bad/sessions").status_code == 404


def test_a_body_above_the_limit_is_413(shared: Client) -> None:
    response = shared("POST", RETRIEVE, content=b" " * (MAX_BODY_BYTES + 1))
    assert response.status_code == 413
    assert error_of(response)["type"] == "too_large"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/dialogues/nobody/graph", 404), ("GET", "/v1/dialogues/nobody/export", 404),
        ("GET", "/v1/dialogues/nobody/sessions", 404), ("DELETE", "/v1/dialogues/nobody", 404),
        ("DELETE", "/v1/dialogues/d/edges/none", 404), ("GET", "/v1/nothing", 404),
        ("DELETE", "/v1/dialogues/d/entities/none", 404), ("GET", RETRIEVE, 405),
        ("DELETE", "/v1/dialogues/d/sessions/s1/turns/99", 404),
        ("DELETE", "/v1/dialogues/d/sessions/s1/turns/-1", 422),
        ("GET", "/v1/dialogues?limit=0", 422), ("GET", "/v1/dialogues/d/sessions?after=zz", 404),
    ],
)  # fmt: skip
def test_what_is_not_there_is_404(shared: Client, method: str, path: str, status: int) -> None:
    response = shared(method, path)
    assert response.status_code == status
    error_of(response)


# Who may ask


def test_only_health_readiness_and_the_viewers_files_need_no_key(shared: Client) -> None:
    assert shared("GET", "/healthz", key="").status_code == 200
    assert shared("GET", "/readyz", key="").status_code == 200
    for path in ("/metrics", "/openapi.json", "/docs", "/v1/dialogues", "/viewer/x", "/nothing"):
        response = shared("GET", path, key="wrong")
        assert response.status_code == 401, path
        assert error_of(response)["type"] == "unauthorized"
        assert response.headers["www-authenticate"].startswith("Bearer")


def test_without_keys_only_this_machine_is_answered(make_client: MakeClient) -> None:
    assert make_client(keys=Keys())("GET", "/v1/dialogues").status_code == 200
    elsewhere = make_client(keys=Keys(), peer="10.0.0.7")
    assert elsewhere("GET", "/v1/dialogues").status_code == 403
    assert elsewhere("GET", "/healthz").status_code == 200


IDS = (
    "d", "d' OR '1'='1", "d%27%20OR%201=1--", "..%2F..%2Fetc", "%2e%2e", "acme/d", "*", "%25",
    "d\\", "d%00", "d; DROP TABLE sessions", "tenant = 'acme'", "ä😀",
)  # fmt: skip


@pytest.mark.parametrize("name", IDS)
def test_another_tenants_memory_is_like_none(shared: Client, name: str) -> None:
    for method, path in (
        ("POST", "retrieve"), ("GET", "graph"), ("GET", "sessions"), ("GET", "export"),
        ("DELETE", ""), ("DELETE", "sessions/s1"), ("DELETE", f"edges/{edge_ids(shared)[0]}"),
        ("POST", "respond"),
    ):  # fmt: skip
        body = {"query": "x"} if path == "retrieve" else {"message": "x"}
        asked = {"json": body} if method == "POST" else {}
        url = f"/v1/dialogues/{name}/{path}".rstrip("/")
        response = shared(method, url, key="key-b", **asked)
        assert response.status_code in (404, 405, 422), (method, url)
        assert "acme" not in response.text
    assert shared("GET", "/v1/dialogues", key="key-b").json()["dialogues"] == []
    assert shared("GET", "/v1/dialogues", key="key-b", params={"q": name}).status_code == 200
    assert len(edge_ids(shared)) > 0


@pytest.mark.parametrize("name", ["d' OR '1'='1", "a b", "ä😀", "x" * 256, "..", "a%b", "it's"])
def test_odd_ids_name_memories_of_their_own(shared: Client, name: str) -> None:
    from urllib.parse import quote

    path = f"/v1/dialogues/{quote(name, safe='')}"
    path = path.replace("/..", "/%2E%2E")
    session = {**SESSION, "session_id": name}
    posted = shared("POST", f"{path}/sessions", json=session)
    if posted.status_code == 404:  # the client itself resolves dots
        assert name == ".."
        return
    assert posted.json()["dialogue_id"] == name
    assert len(shared("GET", f"{path}/sessions").json()["sessions"]) == 1
    assert shared("DELETE", f"{path}/sessions/{quote(name, safe='')}").status_code == 200
    assert len(edge_ids(shared)) > 0


def test_a_tenant_writes_into_its_own_memory_only(filled: Client) -> None:
    before = filled("GET", "/v1/dialogues/d/export").json()
    other = {**SESSION, "turns": [{"speaker": "Eve", "text": "Other words."}]}
    assert filled("POST", "/v1/dialogues/d/sessions", json=other, key="key-b").status_code == 200
    assert filled("GET", "/v1/dialogues/d/export").json() == before


# The service itself


def test_a_part_that_is_not_there_makes_it_not_ready(client: Client) -> None:
    client.services.down = ["writer"]
    response = client("GET", "/readyz")
    assert response.status_code == 503
    assert "writer" in error_of(response)["message"]


def test_a_clients_request_id_comes_back_unless_it_is_odd(shared: Client) -> None:
    given = shared("GET", "/healthz", headers={"X-Request-Id": "abc-1.2"})
    assert given.headers["x-request-id"] == "abc-1.2"
    odd = shared("GET", "/healthz", headers={"X-Request-Id": "a b"})
    assert odd.headers["x-request-id"] != "a b"


def test_a_bug_is_a_500_without_its_words(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*given: object) -> None:
        raise RuntimeError("Mira's greyhound")

    monkeypatch.setattr(client.services, "dialogues", broken)
    response = client("GET", "/v1/dialogues")
    assert response.status_code == 500
    assert error_of(response)["type"] == "internal"
    assert "greyhound" not in response.text + caplog.text


def test_logs_name_routes_and_no_ids_or_words(
    shared: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="glong.serve"):
        shared("POST", "/v1/dialogues/secret-id/retrieve", json={"query": "secret-words"})
        shared("POST", RETRIEVE, json={"query": "secret-words"})
    lines = [vars(record).get("fields", {}) for record in caplog.records]
    assert {line["route"] for line in lines} == {"/v1/dialogues/{dialogue_id}/retrieve"}
    assert "secret" not in str(lines)
    assert {line["status"] for line in lines} == {200, 404}


def test_the_openapi_document_has_examples_and_the_form_of_errors(shared: Client) -> None:
    document = shared("GET", "/openapi.json").json()
    paths = document["paths"]
    assert "/v1/dialogues/{dialogue_id}/retrieve" in paths
    for name in ("SessionIn", "RetrieveIn", "RespondIn", "FactIn", "Correction", "ChatIn"):
        assert document["components"]["schemas"][name]["examples"], name
    for path, methods in paths.items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                assert operation["responses"]["422"]["content"]["application/json"]["schema"][
                    "$ref"
                ].endswith("ErrorOut"), (path, method)
