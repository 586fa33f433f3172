"""Settings: what is refused, and that the message says the value, what is allowed, what to do."""

import dataclasses
import math
from pathlib import Path

import pytest

from glong.config import (
    FAKE_MODELS,
    MODEL_PRESETS,
    PAPER,
    PAPER_MODELS,
    PROFILES,
    SMALL_MODELS,
    EncoderSpec,
    ExtractorSpec,
    ModelsConfig,
    RetrievalConfig,
    ScorerSpec,
    from_mapping,
    load_models_config,
    load_toml,
)
from glong.errors import ConfigError

KINDS = {
    "extractor": (ExtractorSpec, {"backend": "openai", "model": "m"}),
    "scorer": (ScorerSpec, {"backend": "t5", "model": "m"}),
    "encoder": (EncoderSpec, {"backend": "sentence", "model": "m"}),
    "retrieval": (RetrievalConfig, {}),
}
REFUSED = [
    ("extractor", "backend", "bard", "tagger, transformers, vllm, openai, rules, fake"),
    ("extractor", "model", "", "a model's name"),
    ("extractor", "window_turns", 0, "1 or more"),
    ("extractor", "max_triplets_per_turn", 0, "1 or more"),
    ("extractor", "max_tokens", 0, "1 or more"),
    ("extractor", "batch_size", -1, "1 or more"),
    ("extractor", "max_concurrency", 0, "1 or more"),
    ("extractor", "max_model_tokens", 0, "1 or more"),
    ("extractor", "context_turns", -1, "0 or more"),
    ("extractor", "window_chars", 199, "200 or more"),
    ("extractor", "max_retries", -1, "0 or more"),
    ("extractor", "timeout_s", 0.0, "above 0 seconds"),
    ("extractor", "timeout_s", math.nan, "above 0 seconds"),
    ("extractor", "quantization", "int8", "none, nf4"),
    ("scorer", "backend", "bart", "t5, fake"),
    ("scorer", "model", "", "a model's name"),
    ("scorer", "max_source_tokens", 15, "16 or more"),
    ("scorer", "overlap_tokens", 512, "0 to 511 (below max_source_tokens)"),
    ("scorer", "overlap_tokens", -1, "0 to 511 (below max_source_tokens)"),
    ("scorer", "max_summary_tokens", 0, "1 or more"),
    ("scorer", "batch_size", 0, "1 or more"),
    ("encoder", "backend", "word2vec", "sentence, openai, fake"),
    ("encoder", "model", "", "a model's name"),
    ("encoder", "dimension", 0, "1 or more"),
    ("encoder", "batch_size", 0, "1 or more"),
    ("encoder", "stage_batch_size", 0, "1 or more"),
    ("encoder", "max_retries", -1, "0 or more"),
    ("encoder", "timeout_s", -1.0, "above 0 seconds"),
    ("retrieval", "n_anchors", 0, "1 or more"),
    ("retrieval", "n_semantic", 0, "1 or more"),
    ("retrieval", "k", 0, "1 or more"),
    ("retrieval", "hops", 3, "1, 2"),
    ("retrieval", "similarity_share", -0.1, "0 or more"),
    ("retrieval", "weight_share", math.nan, "0 or more"),
    ("retrieval", "recency_share", -1.0, "0 or more"),
    ("retrieval", "decay_per_s", -1e-7, "0 or more"),
]


@pytest.mark.parametrize(("part", "name", "value", "allowed"), REFUSED)
def test_a_value_out_of_range_is_refused_with_what_is_allowed(
    part: str, name: str, value: object, allowed: str
) -> None:
    kind, good = KINDS[part]
    with pytest.raises(ConfigError) as refused:
        kind(**good | {name: value})  # type: ignore[arg-type]
    assert str(refused.value) == f"{part}.{name} is {value!r}; allowed: {allowed}."


@pytest.mark.parametrize("part", KINDS)
def test_every_number_of_a_spec_has_a_bound(part: str) -> None:
    """A new field without a check would pass a nonsense value on to a model."""
    kind, good = KINDS[part]
    for field in dataclasses.fields(kind):
        if field.type in ("int", "float", int, float):
            with pytest.raises(ConfigError):
                kind(**good | {field.name: -1})  # type: ignore[arg-type]


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PAPER.k = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        PROFILES["mine"] = PAPER  # type: ignore[index]


def test_the_preset_paper_has_the_papers_numbers() -> None:
    assert dataclasses.asdict(PAPER) == {
        "n_anchors": 5,
        "hops": 1,
        "n_semantic": 5,
        "k": 3,
        "similarity_share": 0.5,
        "weight_share": 0.3,
        "recency_share": 0.2,
        "decay_per_s": 1e-7,
    }
    assert PAPER_MODELS.encoder.model == "sentence-transformers/all-MiniLM-L6-v2"
    assert PAPER_MODELS.extractor.model == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(("k", "n_semantic"), [(1, 5), (5, 5), (20, 20)])
def test_at_another_k_the_coarse_step_keeps_at_least_as_many(k: int, n_semantic: int) -> None:
    config = PAPER.at_k(k)
    assert (config.k, config.n_semantic) == (k, n_semantic)
    assert dataclasses.replace(config, k=3, n_semantic=5) == PAPER


# Mappings and TOML


def models_toml(path: Path, text: str) -> str:
    file = path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_toml_file_sets_some_parts_and_the_preset_small_the_others(tmp_path: Path) -> None:
    name = models_toml(
        tmp_path,
        '[extractor]\nbackend = "openai"\nmodel = "m"\nbase_url = "http://localhost:8000/v1"\n'
        "timeout_s = 5\n",
    )
    config = load_models_config(name)
    assert config.name == "mine"
    assert config.extractor == ExtractorSpec(
        backend="openai", model="m", base_url="http://localhost:8000/v1", timeout_s=5.0
    )
    assert (config.scorer, config.encoder) == (SMALL_MODELS.scorer, SMALL_MODELS.encoder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[extractr]\n", "unknown key 'extractr'; allowed: encoder, extractor, name, responder"),
        ('[scorer]\nbackend = "t5"\nmodle = "x"\n', "[scorer]: unknown key 'modle'; allowed: "),
        ('[scorer]\nmodel = "x"\n', "[scorer]: 'backend' is missing; add it."),
        ('scorer = "t5"\n', "scorer is 't5'; allowed: a table of settings."),
        ('[scorer]\nbackend = 5\nmodel = "x"\n', "backend is 5; allowed: a value of type str."),
        (
            '[scorer]\nbackend = "t5"\nmodel = "x"\nbatch_size = 8.5\n',
            "batch_size is 8.5; allowed: a value of type int.",
        ),
        (
            '[scorer]\nbackend = "t5"\nmodel = "x"\nbatch_size = true\n',
            "batch_size is True; allowed: a value of type int.",
        ),
        (
            '[encoder]\nbackend = "fake"\ntimeout_s = true\n',
            "timeout_s is True; allowed: a value of type float.",
        ),
        (
            '[scorer]\nbackend = "t5"\nmodel = "x"\nbatch_size = 0\n',
            "scorer.batch_size is 0; allowed: 1 or more.",
        ),
        ("[scorer\n", "is not TOML: "),
    ],
)
def test_a_toml_file_is_read_strictly(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_models_config(models_toml(tmp_path, text))
    assert message in str(refused.value)


def test_a_toml_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file"):
        load_toml(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(ConfigError, match=r"latin\.toml is not TOML"):
        load_toml(tmp_path / "latin.toml")


def test_a_mapping_gives_nested_settings() -> None:
    parts = {
        part: dataclasses.asdict(getattr(FAKE_MODELS, part))
        for part in ("extractor", "scorer", "encoder", "responder")
    }
    assert from_mapping(ModelsConfig, {"name": "fake", **parts}, "x") == FAKE_MODELS


# Names and overrides


def test_presets_are_found_by_name() -> None:
    for name, config in MODEL_PRESETS.items():
        assert load_models_config(name) is config
        assert config.name == name


@pytest.mark.parametrize("name", ["huge", "", "small.yaml", "SMALL"])
def test_another_name_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_models_config(name)
    assert str(refused.value) == (
        f"models is {name!r}; allowed: small, small-decoder, paper, fake, or a path that ends in"
        " .toml."
    )


def test_single_parts_can_be_overridden() -> None:
    config = load_models_config(
        "small", {"extractor": "vllm:org/model:v2", "scorer": "fake", "encoder": "paper"}
    )
    assert (config.extractor.backend, config.extractor.model) == ("vllm", "org/model:v2")
    assert config.extractor.max_triplets_per_turn == SMALL_MODELS.extractor.max_triplets_per_turn
    assert config.scorer == FAKE_MODELS.scorer
    assert config.encoder == PAPER_MODELS.encoder


def test_a_back_end_alone_keeps_the_model() -> None:
    config = load_models_config("paper", {"extractor": "openai"})
    assert (config.extractor.backend, config.extractor.model) == ("openai", "Qwen/Qwen3-8B")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"extractor": "bard"}, "extractor.backend is 'bard'; allowed: "),
        ({"extractor": ""}, "extractor.backend is ''; allowed: "),
        ({"extractor": "vllm"}, "extractor.model is ''; allowed: a model's name."),
        ({"reranker": "fake"}, "models part is 'reranker'; allowed: extractor, scorer, encoder."),
    ],
)
def test_a_wrong_override_is_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_models_config("fake", overrides)
    assert message in str(refused.value)
