import json
from dataclasses import replace

import pytest

from glong.config import DECODER_MODELS, ExtractorSpec
from glong.errors import ConfigError, ModelError
from glong.extraction import chat, plan_windows
from glong.models.vllm import VLLMGenerator, engine_settings
from glong.parsing import parse_answer
from glong.types import GenerationRequest, Message, Session, Turn

SPEC = ExtractorSpec(backend="vllm", model="package:smollm2", max_model_tokens=2048)
QUESTIONS = [
    "Name three colours.",
    "Say hello to Mira, who has a greyhound.",
    "What is bread made of?",
]
REQUESTS = [GenerationRequest((Message("user", text),), 24) for text in QUESTIONS]


def test_on_a_gpu_the_engine_keeps_its_own_type_and_compiles():
    settings = engine_settings(SPEC, "", on_gpu=True)
    assert "dtype" not in settings
    assert "enforce_eager" not in settings
    assert settings["enable_prefix_caching"]
    assert settings["max_model_len"] == 2048
    assert settings["structured_outputs_config"]["disable_any_whitespace"]
    assert "enable_lora" not in settings


def test_on_a_cpu_it_is_float32_and_eager():
    settings = engine_settings(SPEC, "", on_gpu=False)
    assert settings["dtype"] == "float32"
    assert settings["enforce_eager"]


@pytest.mark.parametrize(("rank", "allowed"), [(4, 8), (32, 32), (48, 64)])
def test_the_adapters_rank_is_rounded_up(tmp_path, rank, allowed):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": rank}))
    assert engine_settings(SPEC, str(tmp_path), on_gpu=True)["max_lora_rank"] == allowed


@pytest.mark.parametrize("content", [None, "{}", '{"r": 4096}', "no json"])
def test_an_adapter_without_a_usable_rank_is_an_error(tmp_path, content):
    if content is not None:
        (tmp_path / "adapter_config.json").write_text(content)
    with pytest.raises(ModelError, match=r"adapter_config\.json"):
        engine_settings(SPEC, str(tmp_path), on_gpu=True)


def test_a_missing_vllm_names_its_pip_line(monkeypatch):
    import sys

    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ConfigError, match=r'pip install "glong\[vllm\]"'):
        VLLMGenerator.load(SPEC)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    """A LoRA adapter with random weights that changes what SmolLM2 says."""
    pytest.importorskip("vllm")
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from glong.models.smollm2 import smollm2_folder

    torch.manual_seed(0)
    settings = LoraConfig(
        r=8,
        lora_alpha=8,
        target_modules="all-linear",
        init_lora_weights=False,
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(smollm2_folder()), settings)
    folder = tmp_path_factory.mktemp("adapter")
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def adapted(adapter):
    return VLLMGenerator.load(replace(SPEC, adapter=adapter))


@pytest.fixture(scope="module")
def plain(adapted):
    """The same engine without the adapter: starting a second one would take long."""
    return VLLMGenerator(adapted._engine, adapted._tokenizer, "plain", "", SPEC.max_model_tokens)


def by_transformers(spec, requests):
    from glong.models.transformers import TransformersGenerator

    return TransformersGenerator.load(replace(spec, backend="transformers")).generate(requests)


@pytest.mark.slow
@pytest.mark.ci
def test_it_answers_as_transformers_do(plain):
    assert plain.generate(REQUESTS) == by_transformers(SPEC, REQUESTS)
    assert plain.generate([]) == []


@pytest.mark.slow
@pytest.mark.ci
def test_with_an_adapter_it_answers_as_transformers_with_peft_do(plain, adapted, adapter):
    answers = adapted.generate(REQUESTS)
    assert answers == by_transformers(replace(SPEC, adapter=adapter), REQUESTS)
    assert answers != plain.generate(REQUESTS)


@pytest.mark.slow
@pytest.mark.ci
def test_the_schema_holds_and_the_answer_ends(plain):
    turns = tuple(Turn(i, "Mira", f"I bought {i} books about gardens.") for i in range(4))
    spec = replace(DECODER_MODELS.extractor, window_turns=2)
    windows = plan_windows(Session("d", "s", None, turns), spec)
    requests = [chat(window, spec) for window in windows]
    answers = plain.generate(requests)
    for window, answer in zip(windows, answers, strict=True):
        assert answer.finished
        assert isinstance(json.loads(answer.text), list)
        assert {f.kind for f in parse_answer(answer.text, window.turns)[1]} <= {"copied_example"}
    assert answers == by_transformers(SPEC, requests)


@pytest.mark.slow
@pytest.mark.ci
def test_a_prompt_without_room_for_its_answer_fails_alone(plain):
    long = GenerationRequest((Message("user", "tea " * 4000),), 8)
    good, bad = plain.generate([REQUESTS[0], long])
    assert good.failure is None
    assert bad.failure.kind == "prompt_too_long"
