import json
import threading
from dataclasses import replace

import httpx
import numpy as np
import pytest

from glong.config import EncoderSpec, ExtractorSpec
from glong.errors import ConfigError, ModelError
from glong.models.openai import OpenAIEncoder, OpenAIGenerator
from glong.types import GenerationRequest, Message, Usage

openai = pytest.importorskip("openai")

SPEC = ExtractorSpec(backend="openai", model="m", base_url="http://endpoint.test/v1", max_retries=2)
ENCODER = EncoderSpec(
    backend="openai", model="e", base_url=SPEC.base_url, dimension=2, batch_size=2
)
SOON = {"retry-after-ms": "1"}


def client(handler, **settings):
    return openai.OpenAI(
        api_key="k",
        base_url=SPEC.base_url,
        http_client=httpx.Client(transport=httpx.MockTransport(handler)),
        **{"max_retries": SPEC.max_retries, **settings},
    )


def request(text, **settings):
    return GenerationRequest((Message("system", "s"), Message("user", text)), 32, **settings)


def completion(text, finish="stop"):
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": finish,
    }
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
    return httpx.Response(200, json={**body, "choices": [choice], "usage": usage})


def asked(http):
    return json.loads(http.content)["messages"][-1]["content"]


def refusal(status, message="no", code=None, headers=SOON):
    return httpx.Response(
        status, json={"error": {"message": message, "code": code}}, headers=headers
    )


def test_answers_come_in_order_with_usage_and_whether_they_finished():
    generator = OpenAIGenerator(client(lambda http: completion(asked(http), "length")), SPEC)
    answers = generator.generate([request(str(i)) for i in range(20)])
    assert [answer.text for answer in answers] == [str(i) for i in range(20)]
    assert answers[0].usage == Usage(11, 3)
    assert not answers[0].finished
    assert generator.generate([]) == []


def test_the_request_is_greedy_bounded_and_carries_the_schema():
    seen = []
    generator = OpenAIGenerator(
        client(lambda h: seen.append(json.loads(h.content)) or completion("")), SPEC
    )
    generator.generate([request("a", json_schema='{"type": "array"}')])
    assert seen[0]["temperature"] == 0
    assert seen[0]["max_tokens"] == 32
    schema = seen[0]["response_format"]["json_schema"]["schema"]
    assert schema["type"] == "object"
    assert schema["properties"] == {"items": {"type": "array"}}
    assert "chat_template_kwargs" not in seen[0]


def test_qwen3_is_told_not_to_think():
    seen = []
    handler = client(lambda h: seen.append(json.loads(h.content)) or completion(""))
    OpenAIGenerator(handler, replace(SPEC, model="Qwen/Qwen3-8B")).generate([request("a")])
    assert seen[0]["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_retried(status):
    tries = []

    def handler(http):
        tries.append(http)
        return refusal(status) if len(tries) < 3 else completion("at last")

    (answer,) = OpenAIGenerator(client(handler), SPEC).generate([request("a")])
    assert answer.text == "at last"
    assert len(tries) == 3


def test_the_wait_is_the_one_the_endpoint_asks_for(monkeypatch):
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    replies = iter([refusal(429, headers={"retry-after": "7"}), completion("ok")])
    (answer,) = OpenAIGenerator(client(lambda _: next(replies)), SPEC).generate([request("a")])
    assert answer.text == "ok"
    assert waits == [7]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, "rate_limited"), (500, "endpoint_unavailable"), (408, "endpoint_unavailable")],
)
def test_exhausted_retries_are_a_failure_that_may_pass(status, kind):
    tries = []
    handler = client(lambda h: tries.append(h) or refusal(status))
    (answer,) = OpenAIGenerator(handler, SPEC).generate([request("a")])
    assert answer.failure.kind == kind
    assert answer.failure.transient
    assert answer.text == ""
    assert len(tries) == 1 + SPEC.max_retries


@pytest.mark.parametrize(
    ("error", "kind"),
    [(httpx.ConnectError("down"), "endpoint_unavailable"), (httpx.ReadTimeout("slow"), "timeout")],
)
def test_a_dead_connection_is_a_failure_that_may_pass(error, kind):
    def handler(http):
        raise error

    (answer,) = OpenAIGenerator(client(handler, max_retries=0), SPEC).generate([request("a")])
    assert answer.failure.kind == kind
    assert answer.failure.transient


@pytest.mark.parametrize("status", [400, 413, 422])
def test_one_bad_request_is_that_items_failure_alone_and_not_retried(status):
    tries = []

    def handler(http):
        tries.append(asked(http))
        return refusal(status, "too long") if asked(http) == "bad" else completion("fine")

    answers = OpenAIGenerator(client(handler), SPEC).generate([request("good"), request("bad")])
    assert answers[0].text == "fine"
    assert answers[1].failure.kind == "bad_request"
    assert not answers[1].failure.transient
    assert "too long" in answers[1].failure.message
    assert tries.count("bad") == 1


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "api_key_env"), (403, "key"), (404, "base_url")]
)
def test_a_wrong_key_or_model_stops_the_batch(status, hint):
    generator = OpenAIGenerator(client(lambda _: refusal(status)), SPEC)
    with pytest.raises(ModelError, match=hint) as caught:
        generator.generate([request(str(i)) for i in range(5)])
    assert not caught.value.retryable


def test_an_exhausted_quota_stops_the_batch():
    generator = OpenAIGenerator(client(lambda _: refusal(429, code="insufficient_quota")), SPEC)
    with pytest.raises(ModelError) as caught:
        generator.generate([request("a")])
    assert not caught.value.retryable


def test_an_answer_without_text_is_a_failure():
    (answer,) = OpenAIGenerator(client(lambda _: completion(None)), SPEC).generate([request("a")])
    assert answer.failure.kind == "no_answer"
    page = httpx.Response(200, json={"hello": "I am no model"})
    (answer,) = OpenAIGenerator(client(lambda _: page), SPEC).generate([request("a")])
    assert answer.failure.kind == "bad_reply"


def test_no_more_requests_are_in_flight_than_allowed():
    lock, flying, most = threading.Lock(), 0, 0
    both = threading.Barrier(2, timeout=10)

    def handler(http):
        nonlocal flying, most
        with lock:
            flying += 1
            most = max(most, flying)
        both.wait()
        with lock:
            flying -= 1
        return completion("x")

    OpenAIGenerator(client(handler), replace(SPEC, max_concurrency=2)).generate([request("a")] * 8)
    assert most == 2


def test_the_fingerprint_is_the_models_and_not_the_endpoints():
    one = OpenAIGenerator(None, SPEC).fingerprint
    assert one == OpenAIGenerator(None, replace(SPEC, base_url="http://other/v1")).fingerprint
    assert one != OpenAIGenerator(None, replace(SPEC, model="n")).fingerprint


def test_a_key_is_needed_where_no_own_endpoint_is_named(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        OpenAIGenerator.load(replace(SPEC, base_url=""))
    assert OpenAIGenerator.load(SPEC)
    assert OpenAIEncoder.load(ENCODER)


def embeddings(http):
    texts = json.loads(http.content)["input"]
    rows = [
        {"object": "embedding", "index": i, "embedding": [3.0, len(t)]} for i, t in enumerate(texts)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return httpx.Response(
        200, json={"object": "list", "data": rows[::-1], "model": "e", "usage": usage}
    )


def test_vectors_come_in_order_at_unit_length_over_several_requests():
    encoder = OpenAIEncoder(client(embeddings), ENCODER)
    vectors = encoder.encode(["aaaa", "", "bbb"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[0], [0.6, 0.8])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    assert encoder.encode([]).shape == (0, 2)


def test_vectors_of_another_length_are_an_error_that_says_what_to_set():
    encoder = OpenAIEncoder(client(embeddings), replace(ENCODER, dimension=3))
    with pytest.raises(ModelError, match=r"encoder\.dimension"):
        encoder.encode(["a"])


@pytest.mark.parametrize(("status", "retryable"), [(401, False), (400, False), (503, True)])
def test_an_encoder_that_is_refused_raises(status, retryable):
    encoder = OpenAIEncoder(client(lambda _: refusal(status)), ENCODER)
    with pytest.raises(ModelError) as caught:
        encoder.encode(["a"])
    assert caught.value.retryable is retryable


def streamed(*pieces, usage=True, finish="stop"):
    body = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    deltas = [{"content": piece} for piece in pieces]
    chunks = [
        {**body, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    chunks.append({**body, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        counts = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
        chunks.append({**body, "choices": [], "usage": counts})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    headers = {"content-type": "text/event-stream"}
    return httpx.Response(200, text="".join([*lines, "data: [DONE]\n\n"]), headers=headers)


@pytest.mark.parametrize(("finish", "finished"), [("stop", True), ("length", False)])
def test_a_stream_gives_pieces_then_the_usage(finish, finished):
    seen = []
    generator = OpenAIGenerator(
        client(lambda h: seen.append(json.loads(h.content)) or streamed("a ", "b", finish=finish)),
        SPEC,
    )
    *pieces, last = generator.stream(request("x"))
    assert [piece.text for piece in pieces] == ["a ", "b"]
    assert (last.text, last.usage, last.finished) == ("", Usage(11, 3), finished)
    assert seen[0]["stream"]
    assert seen[0]["temperature"] == 0


def test_an_endpoint_that_streams_without_usage_has_none():
    *_, last = OpenAIGenerator(client(lambda h: streamed("a", usage=False)), SPEC).stream(
        request("x")
    )
    assert last.usage == Usage()


def test_a_stream_that_is_refused_is_a_failure_and_a_wrong_key_an_error():
    busy = OpenAIGenerator(client(lambda h: refusal(429), max_retries=0), SPEC)
    (piece,) = busy.stream(request("x"))
    assert piece.failure.transient
    wrong = OpenAIGenerator(client(lambda h: refusal(401)), SPEC)
    with pytest.raises(ModelError, match="api_key_env"):
        list(wrong.stream(request("x")))
