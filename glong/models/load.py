"""A spec -> the model it names, loaded; and what it is, without loading the large one.

The one place that knows every back end; each is imported only when it is asked for.
"""

from dataclasses import dataclass

from glong.build import Fingerprints, Models
from glong.config import EncoderSpec, ExtractorSpec, ModelsConfig, ScorerSpec
from glong.extraction import LLMExtractor, extraction_fingerprint
from glong.protocols import Encoder, Extractor, Generator, Scorer

__all__ = [
    "ModelsIdentity",
    "identify_models",
    "load_encoder",
    "load_extractor",
    "load_generator",
    "load_models",
    "load_scorer",
]


@dataclass(frozen=True, slots=True)
class ModelsIdentity:
    """What a store has to know of the models before they make anything."""

    fingerprints: Fingerprints
    dimension: int


def load_generator(spec: ExtractorSpec) -> Generator:
    """The language model behind an extractor.

    Raises:
        ConfigError: a missing extra or a setting that the back end cannot take.
        ModelError: the weights or the endpoint cannot be had.
    """
    if spec.backend == "transformers":
        from glong.models.transformers import TransformersGenerator

        return TransformersGenerator.load(spec)
    if spec.backend == "vllm":
        from glong.models.vllm import VLLMGenerator

        return VLLMGenerator.load(spec)
    if spec.backend == "openai":
        from glong.models.openai import OpenAIGenerator

        return OpenAIGenerator.load(spec)
    from glong.models.fake import FakeGenerator

    return FakeGenerator()


def load_extractor(spec: ExtractorSpec) -> Extractor:
    """The extractor; errors as for :func:`load_generator`."""
    if spec.backend == "fake":
        from glong.models.fake import FakeExtractor

        return FakeExtractor()
    return LLMExtractor(load_generator(spec), spec)


def load_scorer(spec: ScorerSpec) -> Scorer:
    """The importance scorer; errors as for :func:`load_generator`."""
    if spec.backend == "fake":
        from glong.models.fake import FakeScorer

        return FakeScorer()
    from glong.models.t5 import T5Scorer

    return T5Scorer.load(spec)


def load_encoder(spec: EncoderSpec) -> Encoder:
    """The sentence encoder; errors as for :func:`load_generator`."""
    if spec.backend == "sentence":
        from glong.models.sentence import SentenceEncoder

        return SentenceEncoder.load(spec)
    if spec.backend == "openai":
        from glong.models.openai import OpenAIEncoder

        return OpenAIEncoder.load(spec)
    from glong.models.fake import FakeEncoder

    return FakeEncoder(spec.dimension)


def load_models(config: ModelsConfig) -> Models:
    """All three, the small ones first, so that a wrong setting shows before the large one loads."""
    encoder, scorer = load_encoder(config.encoder), load_scorer(config.scorer)
    return Models(load_extractor(config.extractor), scorer, encoder)


def identify_models(config: ModelsConfig) -> ModelsIdentity:
    """Fingerprints and dimension; loads the small models, reads only files of the language model.

    Raises:
        ConfigError: a missing extra or package, or a wrong setting.
        ModelError: weights or an endpoint cannot be had.
    """
    encoder, scorer = load_encoder(config.encoder), load_scorer(config.scorer)
    extractor = _extractor_fingerprint(config.extractor)
    fingerprints = Fingerprints(extractor, scorer.fingerprint, encoder.fingerprint)
    return ModelsIdentity(fingerprints, encoder.dimension)


def _extractor_fingerprint(spec: ExtractorSpec) -> str:
    if spec.backend in ("fake", "openai"):
        return load_extractor(spec).fingerprint
    from glong.models.weights import generator_fingerprint

    generator = generator_fingerprint(spec.model, spec.adapter, spec.quantization)
    return extraction_fingerprint(generator, spec)
