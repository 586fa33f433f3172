"""Specs -> instances: the one place that knows which class stands behind which back end.

Nothing is loaded before it is asked for, so a configuration names only what is installed.
"""

import json
from dataclasses import dataclass

from glong.build import Fingerprints, Models
from glong.config import EncoderSpec, ExtractorSpec, ModelsConfig, ResponderSpec, ScorerSpec
from glong.errors import ConfigError
from glong.extraction import LLMExtractor, extraction_fingerprint
from glong.models.fake import (
    FakeEncoder,
    FakeExtractor,
    FakeGenerator,
    FakeResponder,
    FakeScorer,
)
from glong.prompts import EXTRACTION_PROMPT_VERSION
from glong.protocols import Encoder, Extractor, Generator, Scorer
from glong.rules import RuleExtractor

__all__ = [
    "ModelsIdentity",
    "extractor_fingerprint",
    "identify_models",
    "load_encoder",
    "load_extractor",
    "load_generator",
    "load_models",
    "load_responder",
    "load_scorer",
]


def load_models(config: ModelsConfig) -> Models:
    """All three models of construction.

    Raises:
        ConfigError: a package or a key is missing.
        ModelError: weights are missing or an engine does not start.
    """
    return Models(
        load_extractor(config.extractor), load_scorer(config.scorer), load_encoder(config.encoder)
    )


@dataclass(frozen=True, slots=True)
class ModelsIdentity:
    """What a job and its store have to know of the models before these make anything."""

    fingerprints: Fingerprints
    dimension: int


def identify_models(config: ModelsConfig) -> ModelsIdentity:
    """Fingerprints and dimension; loads the small models, of a language model reads only files.

    Raises:
        ConfigError: a package or a key is missing.
        ModelError: weights are missing, or an endpoint does not answer.
    """
    encoder, scorer = load_encoder(config.encoder), load_scorer(config.scorer)
    extractor = extractor_fingerprint(config.extractor)
    fingerprints = Fingerprints(extractor, scorer.fingerprint, encoder.fingerprint)
    return ModelsIdentity(fingerprints, encoder.dimension)


def load_generator(spec: ExtractorSpec) -> Generator:
    """The language model alone; errors as for :func:`load_models`."""
    match spec.backend:
        case "fake":
            return FakeGenerator()
        case "openai":
            from glong.models.openai import OpenAIGenerator

            return OpenAIGenerator.load(spec)
        case "vllm":
            from glong.models.vllm import VLLMGenerator

            return VLLMGenerator.load(spec)
        case "transformers":
            from glong.models.transformers import TransformersGenerator

            return TransformersGenerator.load(spec)
    raise _unknown("extractor", spec.backend)


def load_responder(spec: ResponderSpec) -> Generator:
    """The language model that answers; errors as for :func:`load_models`.

    Raises:
        ConfigError: none is configured.
    """
    if spec.backend == "none":
        raise ConfigError(
            "No responder is configured; add a table [responder] with backend and model to the"
            " TOML file of --models (or GLONG_MODELS)."
        )
    return FakeResponder() if spec.backend == "fake" else load_generator(spec.as_generator())


def load_extractor(spec: ExtractorSpec) -> Extractor:
    """The extractor; errors as for :func:`load_models`."""
    match spec.backend:
        case "fake":
            return FakeExtractor()
        case "rules":
            return RuleExtractor()
        case "tagger":
            from glong.models.tagger import TaggerExtractor

            return TaggerExtractor.load(spec)
    _check_windows(spec)
    return LLMExtractor(load_generator(spec), spec)


def _check_windows(spec: ExtractorSpec) -> None:
    """An adapter of ours reads windows as it learnt them: its folder says how.

    Raises:
        ConfigError: the spec asks for others.
    """
    from glong.models.weights import model_folder

    if not spec.adapter or spec.backend not in ("transformers", "vllm"):
        return
    note = model_folder(spec.adapter) / "training.json"
    if not note.is_file():
        return
    learnt = json.loads(note.read_text(encoding="utf-8"))
    for name, ours in (
        ("window_turns", spec.window_turns),
        ("context_turns", spec.context_turns),
        ("prompt", EXTRACTION_PROMPT_VERSION),
    ):
        if learnt.get(name, ours) != ours:
            raise ConfigError(
                f"extractor.adapter {spec.adapter!r} learnt with {name} = {learnt[name]!r}, here it"
                f" is {ours!r}; allowed: the same. The models.toml of its training has it."
            )


def extractor_fingerprint(spec: ExtractorSpec) -> str:
    """The fingerprint that :func:`load_extractor` would have, without loading weights.

    Raises:
        ConfigError: a package is missing.
        ModelError: a hub model is not cached here and the hub does not answer.
    """
    match spec.backend:
        case "fake" | "rules":
            return load_extractor(spec).fingerprint
        case "tagger":
            from glong.models.tagger import tagger_fingerprint

            return tagger_fingerprint(spec)
        case "openai":
            from glong.models.openai import endpoint_fingerprint

            generator = endpoint_fingerprint("generator", spec.model)
        case _:
            from glong.models.weights import generator_fingerprint

            _check_windows(spec)
            generator = generator_fingerprint(spec.model, spec.adapter, spec.quantization)
    return extraction_fingerprint(generator, spec)


def load_scorer(spec: ScorerSpec) -> Scorer:
    """The scorer; errors as for :func:`load_models`."""
    match spec.backend:
        case "fake":
            return FakeScorer()
        case "t5":
            from glong.models.t5 import T5Scorer

            return T5Scorer.load(spec)
    raise _unknown("scorer", spec.backend)


def load_encoder(spec: EncoderSpec) -> Encoder:
    """The encoder; errors as for :func:`load_models`."""
    match spec.backend:
        case "fake":
            return FakeEncoder(spec.dimension)
        case "openai":
            from glong.models.openai import OpenAIEncoder

            return OpenAIEncoder.load(spec)
        case "sentence":
            from glong.models.sentence import SentenceEncoder

            return SentenceEncoder.load(spec)
    raise _unknown("encoder", spec.backend)


def _unknown(part: str, backend: str) -> ConfigError:
    return ConfigError(f"{part}.backend is {backend!r}; allowed: see glong.config.")
