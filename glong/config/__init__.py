"""Frozen settings with units in their names, checked when made; presets are constants.

Unknown keys, wrong types and values out of range are :class:`~glong.errors.ConfigError`, before
any work.
"""

from glong.config.loading import from_mapping, load_toml
from glong.config.models import (
    DECODER_MODELS,
    FAKE_MODELS,
    MODEL_PRESETS,
    PAPER_MODELS,
    SMALL_MODELS,
    EncoderSpec,
    ExtractorSpec,
    ModelsConfig,
    ResponderSpec,
    ScorerSpec,
    load_models_config,
)
from glong.config.retrieval import HYBRID, PAPER, PROFILES, HybridConfig, RetrievalConfig

__all__ = [
    "DECODER_MODELS",
    "FAKE_MODELS",
    "HYBRID",
    "MODEL_PRESETS",
    "PAPER",
    "PAPER_MODELS",
    "PROFILES",
    "SMALL_MODELS",
    "EncoderSpec",
    "ExtractorSpec",
    "HybridConfig",
    "ModelsConfig",
    "ResponderSpec",
    "RetrievalConfig",
    "ScorerSpec",
    "from_mapping",
    "load_models_config",
    "load_toml",
]
