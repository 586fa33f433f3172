"""Deterministic models without weights: for tests of every layer and for load measurements.

Every result is a function of the item's own text through a hash, so it is equal to the bit for any
batch, order and machine. They say nothing of quality.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b, shake_128
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from glong.types import (
    Extraction,
    Generation,
    GenerationRequest,
    Session,
    Triplet,
    Turn,
    Usage,
    Vectors,
)

__all__ = ["FakeEncoder", "FakeExtractor", "FakeGenerator", "FakeScorer"]

_RELATIONS = ("likes", "has", "works_as", "lives_in", "met", "wants", "does_not_like", "visited")
_WORD = re.compile(r"\w+")
_CHUNK = 1024
_MAX_WORDS = 64
"""Words of a text that the fakes look at, so that a long text costs no more than a short one."""


def _number(*parts: str) -> int:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def _words(text: str) -> list[str]:
    return [match.group() for match in islice(_WORD.finditer(text), _MAX_WORDS)]


class FakeExtractor:
    """Half of the turns state nothing, the others one or two facts about their speaker."""

    fingerprint = "fake-extractor-1"

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        """Facts from the hash of each turn."""
        return [self._session(session) for session in sessions]

    def _session(self, session: Session) -> Extraction:
        triplets = tuple(t for turn in session.turns for t in _facts(turn))
        n_words = sum(turn.text.count(" ") + 1 for turn in session.turns)
        return Extraction(triplets, (), Usage(n_words, 8 * len(triplets)), 1)


def _facts(turn: Turn) -> list[Triplet]:
    number = _number(turn.speaker, turn.text)
    words = sorted(set(_words(turn.text)), key=lambda word: (-len(word), word))
    words = words or [f"thing {number % 1000}"]
    return [
        Triplet("I", _RELATIONS[(number >> 8 + i) % 8], words[i % len(words)], turn.index)
        for i in range(max(0, number % 4 - 1))
    ]


class FakeScorer:
    """Scores between 1 and 11 from the hash of each triplet's text."""

    fingerprint = "fake-scorer-1"

    def weigh(self, sessions: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        """One score a triplet, shape (n_triplets,)."""
        return [
            np.array([1 + _number(text) % 1000 / 100 for text in texts], dtype=np.float64)
            for texts in sessions
        ]


class FakeEncoder:
    """A hashed bag of words: texts that share words are near each other.

    A word's vector is a row of signs from its hash; a text's is the sum of its words', at unit
    length. Sums of signs are exact in float32, so batches cannot change a bit.
    """

    def __init__(self, dimension: int = 384) -> None:
        self.dimension = dimension
        self.fingerprint = f"fake-encoder-1-{dimension}"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimension)."""
        chunks = [self._chunk(texts[i : i + _CHUNK]) for i in range(0, len(texts), _CHUNK)]
        return np.concatenate([np.zeros((0, self.dimension), np.float32), *chunks])

    def _chunk(self, texts: Sequence[str]) -> Vectors:
        words = [_words(text.casefold()) or [text] for text in texts]
        known = {word: i for i, word in enumerate(dict.fromkeys(w for line in words for w in line))}
        signs = np.stack([self._signs(word) for word in known])
        starts = np.cumsum([0, *map(len, words)])[:-1]
        rows = signs[[known[word] for line in words for word in line]]
        sums = np.add.reduceat(rows, starts, axis=0)
        # Words may cancel each other; the first word then speaks for the text.
        sums[~sums.any(axis=1)] = signs[[known[line[0]] for line in words]][~sums.any(axis=1)]
        unit: Vectors = sums / np.sqrt((sums * sums).sum(axis=1, keepdims=True))
        return unit

    def _signs(self, word: str) -> NDArray[np.float32]:
        data = shake_128(word.encode("utf-8", "surrogatepass")).digest(-(-self.dimension // 8))
        bits = np.unpackbits(np.frombuffer(data, np.uint8))[: self.dimension]
        return bits.astype(np.float32) * 2 - 1


class FakeGenerator:
    """Answers by exact request, else with a hash: a mock for everything that asks a language model."""

    def __init__(self, answers: Mapping[GenerationRequest, str] | None = None) -> None:
        self.answers = dict(answers or {})
        self.fingerprint = "fake-generator-1"
        self.requests: list[GenerationRequest] = []

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """The answer given for each request, or "[]" followed by nothing where none was given."""
        self.requests += requests
        answers = [self.answers.get(request, "[]") for request in requests]
        sizes = [sum(len(m.content.split()) for m in request.messages) for request in requests]
        return [
            Generation(text, Usage(n_in, len(text.split())))
            for text, n_in in zip(answers, sizes, strict=True)
        ]
