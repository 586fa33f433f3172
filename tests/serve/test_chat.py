"""Answers: ``/respond`` and OpenAI's interface, in this process."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from glong.sources.records import MAX_TURN_CHARS
from glong.types import Failure, Generation, GenerationRequest
from serve.records import Answered, Question
from serve.schemas import MAX_QUERY_CHARS
from tests.serve.conftest import Client, MakeClient

PET = {
    "session_id": "s1",
    "started_at": "2026-01-05T10:00:00Z",
    "turns": [{"speaker": "Mira", "text": "Our greyhound Pixel is grey."}],
}


class Failing:
    """A generator that is down, at once or after a word."""

    fingerprint = "failing"

    def __init__(self, *, transient: bool, first: str = "") -> None:
        self.failure = Failure("extract", "timeout", "no", transient=transient)
        self.first = first

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return [Generation("", failure=self.failure) for _ in requests]

    def stream(self, request: GenerationRequest) -> Iterator[Generation]:
        if self.first:
            yield Generation(self.first, finished=False)
        yield Generation("", failure=self.failure)


def events_of(text: str) -> list[tuple[str, Any]]:
    events = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        data = lines["data"]
        events.append((lines.get("event", ""), data if data == "[DONE]" else json.loads(data)))
    return events


def chat(content: str, **metadata: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {"model": "glong", "messages": messages, "metadata": {"dialogue_id": "d"} | metadata}


@pytest.fixture
def told(shared: Client) -> Client:
    """Dialogue ``pet``; nothing here adds to it."""
    shared("POST", "/v1/dialogues/pet/sessions", json=PET)
    return shared


def test_the_prompt_holds_the_memory_and_the_memories_come_with_the_answer(told: Client) -> None:
    body = {"message": "Which greyhound?", "recent": [{"speaker": "Tom", "text": "Well."}]}
    answer = told("POST", "/v1/dialogues/pet/respond", json=body).json()
    block = answer["response"].partition("<<MEMORY>>")[2]  # the fake repeats its prompt
    assert "Pixel" in block
    assert "Tom: Well." in answer["response"]
    assert answer["memories"][0]["turn"]["text"] == PET["turns"][0]["text"]  # type: ignore[index]
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    assert usage["counted_by"] == "model"
    assert answer["finished"]


def test_a_stream_has_the_memories_then_the_pieces_then_the_whole(told: Client) -> None:
    body = {"message": "Which greyhound?", "now": "2026-02-01T00:00:00Z"}
    whole = told("POST", "/v1/dialogues/pet/respond", json=body).json()
    response = told("POST", "/v1/dialogues/pet/respond", json={**body, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = events_of(response.text)
    assert [name for name, _ in events[:1] + events[-1:]] == ["memories", "done"]
    pieces = [data["text"] for name, data in events if name == "delta"]
    assert len(pieces) > 5
    assert "".join(pieces) == whole["response"] == events[-1][1]["response"]
    assert events[0][1] == whole["memories"]
    assert events[-1][1]["usage"] == whole["usage"]


def test_an_answer_is_cut_at_its_limit(told: Client) -> None:
    body = {"message": "Which greyhound?", "max_tokens": 3}
    answer = told("POST", "/v1/dialogues/pet/respond", json=body).json()
    assert len(answer["response"].split()) == 3
    assert not answer["finished"]


def test_an_unknown_dialogue_cannot_respond_but_can_chat(client: Client) -> None:
    assert client("POST", "/v1/dialogues/d/respond", json={"message": "Hi"}).status_code == 404
    answer = client("POST", "/v1/chat/completions", json=chat("Hi"))
    assert answer.status_code == 200
    assert answer.json()["memories"] == []


@pytest.mark.parametrize(("transient", "status"), [(True, 503), (False, 502)])
@pytest.mark.parametrize("stream", [True, False])
def test_a_model_that_is_down_is_an_http_error(
    make_client: MakeClient, transient: bool, status: int, stream: bool
) -> None:
    client = make_client(generator=Failing(transient=transient))
    client("POST", "/v1/dialogues/d/sessions", json=PET)
    for path, body in (
        ("/v1/dialogues/d/respond", {"message": "Hi"}),
        ("/v1/chat/completions", chat("Hi", remember="true")),
    ):
        response = client("POST", path, json={**body, "stream": stream})
        assert response.status_code == status
        assert response.json()["error"]["request_id"]
    assert len(client("GET", "/v1/dialogues/d/sessions").json()["sessions"]) == 1


def test_a_stream_that_breaks_ends_with_the_error(make_client: MakeClient) -> None:
    client = make_client(generator=Failing(transient=True, first="Well "))
    client("POST", "/v1/dialogues/d/sessions", json=PET)
    body = {"message": "Hi", "stream": True}
    events = events_of(client("POST", "/v1/dialogues/d/respond", json=body).text)
    assert [name for name, _ in events] == ["memories", "delta", "error"]
    assert events[-1][1]["error"]["type"] == "model_unavailable"


def test_memories_join_the_messages_of_a_chat(told: Client) -> None:
    body = chat("Which greyhound?", dialogue_id="pet")
    body["messages"].insert(0, {"role": "system", "content": "Be brief."})
    answer = told("POST", "/v1/chat/completions", json=body).json()
    text = answer["choices"][0]["message"]["content"]
    assert "Be brief.\n\n<<MEMORY>>" in text
    assert "Pixel" in text
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert "remembered" not in answer


def test_the_dialogue_may_come_in_a_header(told: Client) -> None:
    body = {"model": "x", "messages": [{"role": "user", "content": "Which greyhound?"}]}
    assert told("POST", "/v1/chat/completions", json=body).status_code == 422
    answer = told("POST", "/v1/chat/completions", json=body, headers={"X-Dialogue-Id": "pet"})
    assert answer.json()["memories"]


def test_an_exchange_is_remembered_if_asked_for_and_grows_its_session(client: Client) -> None:
    one = client("POST", "/v1/chat/completions", json=chat("I play the theremin.", remember="true"))
    session_id = one.json()["remembered"]["session_id"]
    assert one.json()["remembered"]["status"] == "built"
    assert len(session_id) == len("2026-01-05")
    body = chat("And the oboe.", remember="1", speaker="Mira", agent="Ada")
    client("POST", "/v1/chat/completions", json={**body, "stream": True})
    client("POST", "/v1/chat/completions", json=chat("Not this.", remember="false"))
    turns = client("GET", "/v1/dialogues/d/export").json()["turns"]
    said = sorted(
        (turn["turn_index"], turn["speaker"], turn["session_id"] == session_id) for turn in turns
    )
    assert said == [(0, "User", True), (1, "Assistant", True), (2, "Mira", True), (3, "Ada", True)]
    elsewhere = chat("A third.", remember="true", session_id="mine")
    client("POST", "/v1/chat/completions", json=elsewhere)
    listed = client("GET", "/v1/dialogues/d/sessions").json()["sessions"]
    assert sorted(row["session_id"] for row in listed) == sorted([session_id, "mine"])


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []}, {"messages": [{"role": "assistant", "content": "x"}]},
        {"messages": [{"role": "user", "content": "  "}]}, {"n": 2}, {"tools": [{"type": "x"}]},
        {"messages": [{"role": "tool", "content": "x"}]}, {"max_tokens": 0},
        {"response_format": {"type": "json_object"}}, {"response_format": "text"},
        {"response_format": ["x"]}, {"response_format": 1}, {"metadata": {"dialogue_id": ""}},
        {"metadata": {"dialogue_id": "pet", "session_id": "by-hand", "remember": "true"}},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
    ],
)  # fmt: skip
def test_what_would_be_ignored_silently_is_refused(told: Client, change: dict[str, Any]) -> None:
    response = told(
        "POST", "/v1/chat/completions", json={**chat("Hi", dialogue_id="pet"), **change}
    )
    assert response.status_code == 422
    assert response.json()["error"]["type"] == "invalid_input"


def test_parts_of_text_and_sampling_settings_are_taken(told: Client) -> None:
    parts = [{"type": "text", "text": "Which"}, {"type": "text", "text": "greyhound?"}]
    body = {
        **chat("x", dialogue_id="pet"),
        "messages": [{"role": "user", "content": parts}],
        "temperature": 0.7,
    }
    answer = told("POST", "/v1/chat/completions", json=body)
    assert "Pixel" in answer.json()["choices"][0]["message"]["content"]


def test_of_a_long_message_its_end_is_asked_and_of_the_talk_the_last_turns(
    told: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Question] = []
    retrieve = told.services.retrieve

    async def noted(question: Question) -> Answered:
        asked.append(question)
        return await retrieve(question)

    monkeypatch.setattr(told.services, "retrieve", noted)
    body = chat("pasted " * 20_000 + "Which greyhound?", dialogue_id="pet")
    talk = [{"role": "user", "content": f"Turn {n}."} for n in range(9)]
    body["messages"] = [*talk, *body["messages"]]
    answer = told("POST", "/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    (question,) = asked
    assert len(question.query) == MAX_QUERY_CHARS
    assert question.query.endswith("Which greyhound?")
    assert question.recent == ("user: Turn 7.", "user: Turn 8.")


def test_what_is_too_long_for_a_turn_cannot_be_remembered(told: Client) -> None:
    long = "x" * (MAX_TURN_CHARS + 1)
    assert told("POST", "/v1/chat/completions", json=chat(long)).status_code == 200
    refused = told("POST", "/v1/chat/completions", json=chat(long, remember="true"))
    assert refused.status_code == 422
    assert str(MAX_TURN_CHARS) in refused.text
