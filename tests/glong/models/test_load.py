import json
import shutil
import sys
from dataclasses import replace

import pytest

from glong.config import FAKE_MODELS, EncoderSpec, ExtractorSpec
from glong.errors import ConfigError
from glong.extraction import LLMExtractor
from glong.models.fake import FakeEncoder, FakeExtractor, FakeGenerator, FakeScorer
from glong.models.load import (
    extractor_fingerprint,
    load_encoder,
    load_extractor,
    load_generator,
    load_models,
    load_scorer,
)
from glong.prompts import EXTRACTION_PROMPT_VERSION

ENDPOINT = ExtractorSpec(backend="openai", model="m", base_url="http://endpoint.test/v1")


def test_the_preset_fake_is_all_fakes():
    models = load_models(FAKE_MODELS)
    assert isinstance(models.extractor, FakeExtractor)
    assert isinstance(models.scorer, FakeScorer)
    assert isinstance(models.encoder, FakeEncoder)
    assert isinstance(load_scorer(FAKE_MODELS.scorer), FakeScorer)
    assert isinstance(load_generator(FAKE_MODELS.extractor), FakeGenerator)
    assert load_encoder(replace(FAKE_MODELS.encoder, dimension=7)).dimension == 7


def test_endpoints_are_not_contacted_when_loaded():
    pytest.importorskip("openai")
    assert isinstance(load_extractor(ENDPOINT), LLMExtractor)
    spec = EncoderSpec(backend="openai", model="e", base_url=ENDPOINT.base_url, dimension=3)
    assert load_encoder(spec).dimension == 3


def test_fingerprints_are_known_before_anything_is_loaded(tiny_qwen3, tiny_adapter):
    local = ExtractorSpec(backend="transformers", model=str(tiny_qwen3))
    for spec in (FAKE_MODELS.extractor, ENDPOINT, local, replace(local, adapter=str(tiny_adapter))):
        assert load_extractor(spec).fingerprint == extractor_fingerprint(spec)


def test_a_back_end_does_not_change_a_fingerprint(tiny_qwen3):
    spec = ExtractorSpec(backend="transformers", model=str(tiny_qwen3))
    assert extractor_fingerprint(spec) == extractor_fingerprint(replace(spec, backend="vllm"))


def test_a_missing_extra_names_its_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r'pip install "glong\[openai\]"'):
        load_generator(ENDPOINT)


def test_an_adapter_is_not_asked_about_other_windows_than_it_learnt(
    tiny_qwen3, tiny_adapter, tmp_path
):
    folder = shutil.copytree(tiny_adapter, tmp_path / "adapter")
    note = {"window_turns": 1, "context_turns": 1, "prompt": EXTRACTION_PROMPT_VERSION}
    (folder / "training.json").write_text(json.dumps(note))
    spec = ExtractorSpec(backend="transformers", model=str(tiny_qwen3), adapter=str(folder))
    with pytest.raises(ConfigError, match=r"window_turns = 1, here it is 8.*models\.toml"):
        load_extractor(spec)
    assert load_extractor(replace(spec, window_turns=1, context_turns=1)).fingerprint
    (folder / "training.json").write_text(json.dumps(note | {"prompt": "extraction-0"}))
    with pytest.raises(ConfigError, match="prompt = 'extraction-0'"):
        load_extractor(replace(spec, window_turns=1, context_turns=1))
