import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.config import ExtractorSpec
from glong.errors import ConfigError, ModelError
from glong.extraction import LLMExtractor
from glong.models.transformers import (
    MAX_BATCH_ROWS,
    MAX_BATCH_TOKENS,
    TransformersGenerator,
    plan_batches,
)
from glong.types import GenerationRequest, Message, Session, Turn

pytest.importorskip("torch")
SCHEMA = json.dumps(
    {"type": "array", "maxItems": 2, "items": {"type": "string", "enum": ["tea", "rain"]}}
)


@pytest.fixture(scope="module")
def spec(tiny_qwen3):
    return ExtractorSpec(backend="transformers", model=str(tiny_qwen3))


@pytest.fixture(scope="module")
def generator(spec):
    return TransformersGenerator.load(spec)


def request(text, max_tokens=12, json_schema=""):
    return GenerationRequest((Message("user", text),), max_tokens, json_schema)


REQUESTS = [request("tea " * n) for n in (1, 30, 7, 2)]


def test_an_answer_does_not_depend_on_its_batch_mates(generator):
    together = generator.generate(REQUESTS)
    assert together == [generator.generate([each])[0] for each in REQUESTS]
    assert together == generator.generate(REQUESTS[::-1])[::-1]
    assert generator.generate([]) == []


def test_answers_are_greedy_although_the_checkpoint_samples(generator):
    import torch

    (answer,) = generator.generate([request("tea", max_tokens=6)])
    tokenizer, model = generator._tokenizer, generator._model
    prompt = "<|im_start|>user\ntea<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
    n_prompt = ids.shape[1]
    for _ in range(6):
        with torch.inference_mode():
            best = model(ids).logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, best], dim=1)
    expected = tokenizer.decode(ids[0, n_prompt:], skip_special_tokens=True).strip()
    assert answer.text == expected
    assert answer.usage.tokens_in == n_prompt


def test_an_answer_at_the_limit_is_not_finished(generator):
    (answer,) = generator.generate([request("tea", max_tokens=3)])
    assert not answer.finished
    assert answer.usage.tokens_out == 3


def test_a_schema_holds_for_its_rows_alone(generator):
    free, bound = request("rain", 40), request("rain", 40, SCHEMA)
    answers = generator.generate([free, bound, free])
    assert answers[0] == answers[2] == generator.generate([free])[0]
    assert answers[1].finished
    assert set(json.loads(answers[1].text)) <= {"tea", "rain"}


def test_a_prompt_without_room_for_its_answer_fails_alone(generator):
    good, bad = generator.generate([REQUESTS[0], request("x" * 3000)])
    assert good.failure is None
    assert bad.failure.kind == "prompt_too_long"
    assert "2048" in bad.failure.message


def test_a_bad_schema_is_an_error_with_a_hint(generator):
    with pytest.raises(ModelError, match="schema"):
        generator.generate([request("tea", json_schema='{"type": "nonsense"}')])


def test_an_adapter_changes_answers_and_fingerprint(generator, spec, tiny_adapter):
    adapted = TransformersGenerator.load(replace(spec, adapter=str(tiny_adapter)))
    assert adapted.generate(REQUESTS) != generator.generate(REQUESTS)
    assert adapted.fingerprint != generator.fingerprint


def test_a_missing_model_says_what_to_check(spec, monkeypatch, tmp_path):
    with pytest.raises(ModelError, match=r"config\.json|cannot be loaded"):
        TransformersGenerator.load(replace(spec, model=str(tmp_path)))
    with pytest.raises(ConfigError, match="package:smollm2"):
        TransformersGenerator.load(replace(spec, model="package:other"))


def test_nf4_needs_a_gpu(spec):
    import torch

    if torch.cuda.is_available():
        pytest.skip("has a GPU")
    with pytest.raises(ConfigError, match="nf4"):
        TransformersGenerator.load(replace(spec, quantization="nf4"))


def test_random_weights_under_the_grammar_give_readable_extractions(generator, spec):
    turns = tuple(Turn(i, "Mira", f"I like tea number {i}.") for i in range(3))
    small = replace(spec, window_turns=2, max_triplets_per_turn=1, max_tokens=700)
    (extraction,) = LLMExtractor(generator, small).extract([Session("d", "s", None, turns)])
    assert extraction.n_windows == 2
    assert extraction.usage.tokens_out > 0
    assert {f.kind for f in extraction.failures} <= {"malformed_triplet"}


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5000), st.sampled_from([64, 1024])), max_size=60))
def test_batches_hold_each_request_once_within_bounds(sizes):
    batches = plan_batches(sizes)
    assert sorted(index for batch in batches for index in batch) == list(range(len(sizes)))
    for batch in batches:
        assert len({sizes[index][1] for index in batch}) == 1
        assert len(batch) <= MAX_BATCH_ROWS
        widest = max(sum(sizes[index]) for index in batch)
        assert len(batch) == 1 or len(batch) * widest <= MAX_BATCH_TOKENS
