"""Which models build a memory, and how they run; presets are constants.

Knows nothing of the models that it names: :mod:`glong.models.load` turns a spec into an instance.
"""

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glong.config.loading import from_mapping, load_toml, require
from glong.errors import ConfigError

__all__ = [
    "DECODER_MODELS",
    "FAKE_MODELS",
    "MODEL_PRESETS",
    "PAPER_MODELS",
    "SMALL_MODELS",
    "EncoderSpec",
    "ExtractorSpec",
    "ModelsConfig",
    "ResponderSpec",
    "ScorerSpec",
    "load_models_config",
]

EXTRACTOR_BACKENDS = ("tagger", "transformers", "vllm", "openai", "rules", "fake")
WITHOUT_MODEL = ("rules", "fake")
SCORER_BACKENDS = ("t5", "fake")
ENCODER_BACKENDS = ("sentence", "openai", "fake")
RESPONDER_BACKENDS = ("none", "openai", "transformers", "vllm", "fake")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractorSpec:
    """Which model extracts triplets, and how it reads a session.

    Attributes:
        backend: ``tagger`` (MiniLM with heads that point at words; fast on a CPU); a language model
            through ``transformers``, ``vllm`` or ``openai`` (any compatible endpoint); ``rules``
            (patterns, no model), ``fake``.
        model: hub name, folder, ``package:smollm2``, ``package:glong-tagger``, or the endpoint's
            model name.
        adapter: folder or hub name of a LoRA adapter; empty for none.
        base_url: of the endpoint (``openai`` only); empty for the client's default.
        api_key_env: environment variable that holds the endpoint's key; the key itself is never
            stored.
        window_turns: turns that one call covers, so that the prompt is paid once.
        context_turns: preceding turns shown for reference only.
        window_chars: the most characters of turns in one call; a longer turn is split.
        max_triplets_per_turn: bound of the constrained output.
        min_triplets: fewest triplets a call has to name; above 0 only for a model that was not
            trained for the task, which otherwise answers with none.
        max_tokens: the most tokens of one answer.
        batch_size: sessions per call of the stage.
        max_concurrency: requests in flight at the endpoint (``openai`` only).
        timeout_s: of one request at the endpoint (``openai`` only).
        max_retries: of one request at the endpoint, with back-off (``openai`` only).
        max_model_tokens: context length that the engine reserves (``vllm`` only).
        quantization: ``none`` or ``nf4`` (4-bit, needs a GPU and bitsandbytes).
    """

    backend: str
    model: str = ""
    adapter: str = ""
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    window_turns: int = 8
    context_turns: int = 2
    window_chars: int = 4000
    max_triplets_per_turn: int = 4
    min_triplets: int = 0
    max_tokens: int = 1024
    batch_size: int = 16
    max_concurrency: int = 8
    timeout_s: float = 60.0
    max_retries: int = 5
    max_model_tokens: int = 8192
    quantization: str = "none"

    def __post_init__(self) -> None:
        """Check every value."""
        require(
            self.backend in EXTRACTOR_BACKENDS,
            "extractor.backend",
            self.backend,
            ", ".join(EXTRACTOR_BACKENDS),
        )
        require(
            self.backend in WITHOUT_MODEL or bool(self.model),
            "extractor.model",
            self.model,
            "a model's name",
        )
        for name in (
            "window_turns",
            "max_triplets_per_turn",
            "max_tokens",
            "batch_size",
            "max_concurrency",
            "max_model_tokens",
        ):
            require(getattr(self, name) >= 1, f"extractor.{name}", getattr(self, name), "1 or more")
        for name in ("context_turns", "min_triplets"):
            require(getattr(self, name) >= 0, f"extractor.{name}", getattr(self, name), "0 or more")
        require(
            self.window_chars >= 200, "extractor.window_chars", self.window_chars, "200 or more"
        )
        require(self.max_retries >= 0, "extractor.max_retries", self.max_retries, "0 or more")
        require(self.timeout_s > 0, "extractor.timeout_s", self.timeout_s, "above 0 seconds")
        require(
            self.quantization in ("none", "nf4"),
            "extractor.quantization",
            self.quantization,
            "none, nf4",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSpec:
    """Which T5 summariser weighs the triplets of a session, equations (1) to (3).

    Attributes:
        backend: ``t5`` or ``fake``.
        model: hub name or folder of a T5 or FLAN-T5 checkpoint, or ``package:glong-scorer``.
        max_source_tokens: window of triplet text that the encoder reads at once.
        overlap_tokens: shared by two neighbouring windows of a long session.
        max_summary_tokens: M of equation (2) at most; a model whose configuration names fewer
            keeps to its own.
        batch_size: sessions per call of the stage.
    """

    backend: str
    model: str = ""
    max_source_tokens: int = 512
    overlap_tokens: int = 128
    max_summary_tokens: int = 64
    batch_size: int = 32

    def __post_init__(self) -> None:
        """Check every value."""
        require(
            self.backend in SCORER_BACKENDS,
            "scorer.backend",
            self.backend,
            ", ".join(SCORER_BACKENDS),
        )
        require(
            self.backend == "fake" or bool(self.model), "scorer.model", self.model, "a model's name"
        )
        require(
            self.max_source_tokens >= 16,
            "scorer.max_source_tokens",
            self.max_source_tokens,
            "16 or more",
        )
        require(
            0 <= self.overlap_tokens < self.max_source_tokens,
            "scorer.overlap_tokens",
            self.overlap_tokens,
            f"0 to {self.max_source_tokens - 1} (below max_source_tokens)",
        )
        for name in ("max_summary_tokens", "batch_size"):
            require(getattr(self, name) >= 1, f"scorer.{name}", getattr(self, name), "1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSpec:
    """Which sentence encoder makes the vectors.

    Attributes:
        backend: ``sentence`` (sentence-transformers), ``openai`` (any compatible endpoint),
            ``fake``.
        model: hub name, folder, ``package:minilm``, or the endpoint's model name.
        dimension: length of a vector; checked against the model.
        base_url: of the endpoint (``openai`` only).
        api_key_env: environment variable that holds the endpoint's key.
        batch_size: texts per forward pass; stages take sessions by ``stage_batch_size``.
        stage_batch_size: sessions per call of the stage.
        timeout_s: of one request at the endpoint (``openai`` only).
        max_retries: of one request at the endpoint (``openai`` only).
    """

    backend: str
    model: str = ""
    dimension: int = 384
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    batch_size: int = 32
    stage_batch_size: int = 32
    timeout_s: float = 60.0
    max_retries: int = 5

    def __post_init__(self) -> None:
        """Check every value."""
        require(
            self.backend in ENCODER_BACKENDS,
            "encoder.backend",
            self.backend,
            ", ".join(ENCODER_BACKENDS),
        )
        require(
            self.backend == "fake" or bool(self.model),
            "encoder.model",
            self.model,
            "a model's name",
        )
        for name in ("dimension", "batch_size", "stage_batch_size"):
            require(getattr(self, name) >= 1, f"encoder.{name}", getattr(self, name), "1 or more")
        require(self.max_retries >= 0, "encoder.max_retries", self.max_retries, "0 or more")
        require(self.timeout_s > 0, "encoder.timeout_s", self.timeout_s, "above 0 seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponderSpec:
    """Which language model answers with the memories in its prompt; none unless one is set.

    Attributes:
        backend: ``none``, ``openai`` (any compatible endpoint), ``transformers``, ``vllm``,
            ``fake`` (repeats what it was told, for tests).
        model: hub name, folder, ``package:smollm2``, or the endpoint's model name.
        adapter: folder or hub name of a LoRA adapter; empty for none.
        base_url: of the endpoint (``openai`` only); empty for the client's default.
        api_key_env: environment variable that holds the endpoint's key; the key itself is never
            stored or logged.
        max_tokens: the most tokens of one answer.
        max_concurrency: requests in flight at the endpoint (``openai`` only).
        timeout_s: of one request at the endpoint (``openai`` only).
        max_retries: of one request at the endpoint, with back-off (``openai`` only).
        max_model_tokens: context length that the engine reserves (``vllm`` only).
        quantization: ``none`` or ``nf4`` (4-bit, needs a GPU and bitsandbytes).
    """

    backend: str = "none"
    model: str = ""
    adapter: str = ""
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    max_tokens: int = 512
    max_concurrency: int = 16
    timeout_s: float = 60.0
    max_retries: int = 2
    max_model_tokens: int = 8192
    quantization: str = "none"

    def __post_init__(self) -> None:
        """Check every value; what it shares with an extractor is checked there."""
        allowed = ", ".join(RESPONDER_BACKENDS)
        require(self.backend in RESPONDER_BACKENDS, "responder.backend", self.backend, allowed)
        has_model = self.backend in ("none", "fake") or bool(self.model)
        require(has_model, "responder.model", self.model, "a model's name")
        for name in ("max_tokens", "max_concurrency", "max_model_tokens"):
            require(getattr(self, name) >= 1, f"responder.{name}", getattr(self, name), "1 or more")
        require(self.max_retries >= 0, "responder.max_retries", self.max_retries, "0 or more")
        require(self.timeout_s > 0, "responder.timeout_s", self.timeout_s, "above 0 seconds")
        kinds = ("none", "nf4")
        allowed = ", ".join(kinds)
        require(self.quantization in kinds, "responder.quantization", self.quantization, allowed)

    def as_generator(self) -> ExtractorSpec:
        """The same model for a generator's loader, which reads what the two have in common."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return ExtractorSpec(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsConfig:
    """The three models of construction and the one that answers, under one name."""

    name: str
    extractor: ExtractorSpec
    scorer: ScorerSpec
    encoder: EncoderSpec
    responder: ResponderSpec = ResponderSpec()


_MINILM = EncoderSpec(backend="sentence", model="package:minilm")

SMALL_MODELS = ModelsConfig(
    name="small",
    extractor=ExtractorSpec(backend="tagger", model="package:glong-tagger", batch_size=32),
    scorer=ScorerSpec(backend="t5", model="package:glong-scorer"),
    encoder=_MINILM,
)
"""The default without a GPU: every weight comes from a package or from our own files."""

DECODER_MODELS = replace(
    SMALL_MODELS,
    name="small-decoder",
    extractor=ExtractorSpec(
        backend="transformers",
        model="package:smollm2",
        adapter="package:glong-lora",
        window_turns=1,
        context_turns=1,
    ),
)
"""``small`` with a language model, SmolLM2-135M with our adapter: a hundred times slower."""

PAPER_MODELS = ModelsConfig(
    name="paper",
    extractor=ExtractorSpec(
        backend="vllm",
        model="Qwen/Qwen3-8B",
        max_triplets_per_turn=8,
        batch_size=64,
        max_tokens=2048,
    ),
    scorer=ScorerSpec(backend="t5", model="chanifrusydi/t5-dialogue-summarization"),
    encoder=EncoderSpec(backend="sentence", model="sentence-transformers/all-MiniLM-L6-v2"),
)
"""The models of the paper; add ``adapter`` with your LoRA weights."""

FAKE_MODELS = ModelsConfig(
    name="fake",
    extractor=ExtractorSpec(backend="fake", batch_size=64),
    scorer=ScorerSpec(backend="fake", batch_size=64),
    encoder=EncoderSpec(backend="fake", stage_batch_size=64),
    responder=ResponderSpec(backend="fake"),
)
"""Deterministic models without weights, for tests and load measurements."""

MODEL_PRESETS: Mapping[str, ModelsConfig] = types.MappingProxyType(
    {config.name: config for config in (SMALL_MODELS, DECODER_MODELS, PAPER_MODELS, FAKE_MODELS)}
)


def load_models_config(name: str, overrides: Mapping[str, str] | None = None) -> ModelsConfig:
    """A preset by name or a TOML file by path, with single parts overridden.

    Args:
        name: ``small``, ``small-decoder``, ``paper``, ``fake``, or the path of a TOML file with the
            tables ``[extractor]``, ``[scorer]``, ``[encoder]``, ``[responder]``; a table left out
            is taken from ``small``.
        overrides: part -> a preset's name (that part of it) or ``BACKEND[:MODEL]``.

    Raises:
        ConfigError: no such preset, file, backend or key.
    """
    if name in MODEL_PRESETS:
        config = MODEL_PRESETS[name]
    elif name.endswith(".toml"):
        base = {part: dataclasses.asdict(getattr(SMALL_MODELS, part)) for part in _PARTS}
        base["responder"] = dataclasses.asdict(SMALL_MODELS.responder)
        values = load_toml(Path(name))
        config = from_mapping(ModelsConfig, {"name": Path(name).stem, **base, **values}, name)
    else:
        allowed = ", ".join(MODEL_PRESETS)
        raise ConfigError(f"models is {name!r}; allowed: {allowed}, or a path that ends in .toml.")
    for part, value in (overrides or {}).items():
        config = replace(config, **{part: _override(config, part, value)})
    return config


_PARTS: Mapping[str, type[Any]] = types.MappingProxyType(
    {"extractor": ExtractorSpec, "scorer": ScorerSpec, "encoder": EncoderSpec}
)


def _override(config: ModelsConfig, part: str, value: str) -> Any:
    if part not in _PARTS:
        raise ConfigError(f"models part is {part!r}; allowed: {', '.join(_PARTS)}.")
    if value in MODEL_PRESETS:
        return getattr(MODEL_PRESETS[value], part)
    backend, _, model = value.partition(":")
    current = getattr(config, part)
    if not model and backend not in WITHOUT_MODEL:
        model = current.model
    return replace(current, backend=backend, model=model)
