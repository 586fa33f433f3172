"""Vectors of the real encoder agree over batch size, order and batch mates."""

import dataclasses

import numpy as np
import pytest

from glong.config import EncoderSpec
from glong.models.sentence import SentenceEncoder

pytest.importorskip("sentence_transformers")

SPEC = EncoderSpec(backend="sentence", model="package:minilm")
WORDS = (
    "Mira",
    "Jon",
    "likes",
    "grilled",
    "peppers",
    "dogs",
    "Oslo",
    "nurse",
    "of",
    "the",
    "never",
)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """96 texts of 0 to 60 words, and two that are longer than a window."""
    rng = np.random.default_rng(5)
    lengths = [*rng.integers(0, 60, size=94), 300, 600]
    return [" ".join(rng.choice(WORDS, size=n)) for n in lengths]


@pytest.fixture(scope="module")
def alone(texts) -> np.ndarray:
    encoder = SentenceEncoder.load(dataclasses.replace(SPEC, batch_size=1))
    return np.concatenate([encoder.encode([text]) for text in texts])


@pytest.mark.parametrize("batch_size", [7, 64])
def test_vectors_agree_over_batch_size_and_order(texts, alone, batch_size):
    encoder = SentenceEncoder.load(dataclasses.replace(SPEC, batch_size=batch_size))
    order = np.random.default_rng(batch_size).permutation(len(texts))
    vectors = encoder.encode([texts[i] for i in order])
    np.testing.assert_allclose(vectors, alone[order], atol=1e-4)


def test_repeated_texts_get_equal_vectors(texts, alone):
    encoder = SentenceEncoder.load(SPEC)
    vectors = encoder.encode(texts[:10] * 3)
    np.testing.assert_array_equal(vectors[:10], vectors[20:])
    np.testing.assert_allclose(vectors[:10], alone[:10], atol=1e-4)
