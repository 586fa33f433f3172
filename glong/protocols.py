"""The four seams where a model plugs in: one batched verb each.

Every implementation keeps this contract: a batch goes in, a sequence of the same length comes out
in the same order, and an item's result depends on that item alone, never on its batch mates.
``fingerprint`` names the model with its weights, prompt and settings: equal fingerprints mean equal
results, and it is stored beside what the model made.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from glong.types import Extraction, Generation, GenerationRequest, Session, Vectors

__all__ = ["Encoder", "Extractor", "Generator", "Scorer", "StreamingGenerator"]


@runtime_checkable
class Generator(Protocol):
    """A language model: requests in, generations out."""

    @property
    def fingerprint(self) -> str:
        """Identity of model, weights and settings."""
        ...

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer each request greedily.

        Raises:
            ModelError: the model or endpoint as a whole is unusable; one bad request is a
                ``Generation`` with a ``failure``.
        """
        ...


@runtime_checkable
class StreamingGenerator(Protocol):
    """What a generator may also be able to do: answer one request piece by piece."""

    def stream(self, request: GenerationRequest) -> Iterator[Generation]:
        """The pieces as they are written; the last one, perhaps empty, has the usage.

        Raises:
            ModelError: the model as a whole is unusable; a request that fails alone ends with a
                piece that has a ``failure``.
        """
        ...


@runtime_checkable
class Extractor(Protocol):
    """Turns sessions into triplets."""

    @property
    def fingerprint(self) -> str:
        """Identity of model, prompt version and settings."""
        ...

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        """Extract the facts of each session, each tied to its turn."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Says how much each fact of a session matters."""

    @property
    def fingerprint(self) -> str:
        """Identity of model, weights and settings."""
        ...

    def weigh(self, sessions: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        """Raw scores S of equation (2) for the triplet texts of each session.

        Args:
            sessions: for each session its triplet texts in order; may be empty.

        Returns:
            For each session an array of shape (n_triplets,), every value finite and above 0.
        """
        ...


@runtime_checkable
class Encoder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def fingerprint(self) -> str:
        """Identity of model, weights and settings."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimension), float32, unit length."""
        ...
