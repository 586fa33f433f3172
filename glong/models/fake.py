"""Deterministic models without weights, for every layer's tests and for load measurements.

Each result is a function of its own item, by CRC-32 of the text, so that batches, order and
sharding cannot matter. The extractor and the encoder are fast, since load tests measure what is
around them.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from glong.ids import text_hash
from glong.types import (
    Extraction,
    Failure,
    Generation,
    GenerationRequest,
    Session,
    Triplet,
    Turn,
    Usage,
    Vectors,
)

__all__ = ["FakeEncoder", "FakeExtractor", "FakeGenerator", "FakeResponder", "FakeScorer"]

_RELATIONS = ("likes", "has", "plans", "visited", "works_on", "feels", "bought", "talks_about")
_N_TRIPLETS = (0, 1, 0, 2, 0, 1, 0, 0)
"""By hash of the turn: half a triplet a turn on average, none for most."""
_TURN_LINE = re.compile(r"^(\d+)\. ([^:\n]*): (.*)$", re.MULTILINE)
_WORD = re.compile(r"[a-z0-9']+")
_WITH_SPACE = re.compile(r"\S+\s*")
_DIMENSIONS_PER_WORD = 4
_ENCODED_AT_ONCE = 1024


def _facts(speaker: str, text: str) -> list[tuple[str, str, str]]:
    """The triplets that a fake finds in a turn: the speaker, some relation, words of the text."""
    hashed = crc32(text.encode("utf-8", "surrogatepass"))
    words = text.split()
    facts = []
    for i in range(_N_TRIPLETS[hashed & 7] if words else 0):
        place = (hashed >> 3) + 5 * i
        start = place % len(words)
        thing = " ".join(words[start : start + 3]).strip(".,;:!?\"'")
        if thing:
            facts.append((speaker, _RELATIONS[place & 7], thing))
    return facts


class FakeGenerator:
    """Answers with the facts that it makes of the numbered turns in the last message.

    Args:
        answers: what to answer to these very requests; a ``Generation`` can carry a failure.
    """

    def __init__(self, answers: Mapping[GenerationRequest, str | Generation] | None = None) -> None:
        self._answers = answers or {}

    @property
    def fingerprint(self) -> str:
        """The same for every fake generator."""
        return text_hash("generator", "fake")

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer each request."""
        return [self._generate(request) for request in requests]

    def _generate(self, request: GenerationRequest) -> Generation:
        answer = self._answers.get(request)
        if isinstance(answer, Generation):
            return answer
        text = _made_up(request) if answer is None else answer
        n_in = sum(len(message.content.split()) for message in request.messages)
        return Generation(text, Usage(n_in, len(text.split())))


def _made_up(request: GenerationRequest) -> str:
    last = request.messages[-1].content if request.messages else ""
    items = [
        {"turn": int(number), "subject": subject, "relation": relation, "object": object_}
        for number, speaker, text in _TURN_LINE.findall(last)
        for subject, relation, object_ in _facts(speaker, text)
    ]
    return json.dumps(items, ensure_ascii=False)


class FakeResponder:
    """Repeats all that it was told, so that a test sees what stood in the prompt."""

    @property
    def fingerprint(self) -> str:
        """The same for every fake responder."""
        return text_hash("generator", "fake-responder")

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer each request, cut at its limit of tokens (here words)."""
        return [self._generate(request) for request in requests]

    def stream(self, request: GenerationRequest) -> Iterator[Generation]:
        """The same answer word by word."""
        whole = self._generate(request)
        for word in _WITH_SPACE.findall(whole.text):
            yield Generation(word, finished=False)
        yield Generation("", whole.usage, whole.finished)

    def _generate(self, request: GenerationRequest) -> Generation:
        told = "\n".join(message.content for message in request.messages)
        words = _WITH_SPACE.findall(f"You told me: {told}")
        text = "".join(words[: request.max_tokens])
        usage = Usage(len(told.split()), min(len(words), request.max_tokens))
        return Generation(text, usage, finished=len(words) <= request.max_tokens)


class FakeExtractor:
    """Makes triplets straight from the turns: about half a one a turn, none for most turns.

    Args:
        failures: session id -> the failure that this session ends with instead of triplets.
    """

    def __init__(self, failures: Mapping[str, Failure] | None = None) -> None:
        self._failures = failures or {}

    @property
    def fingerprint(self) -> str:
        """The same for every fake extractor."""
        return text_hash("extractor", "fake")

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        """Extract the facts of each session."""
        return [self._extract(session) for session in sessions]

    def _extract(self, session: Session) -> Extraction:
        if failure := self._failures.get(session.session_id):
            return Extraction(failures=(failure,), n_windows=1)
        found = [triplet for turn in session.turns for triplet in _triplets(turn)]
        n_chars = sum(len(turn.text) for turn in session.turns)
        return Extraction(tuple(found), (), Usage(n_chars // 4, 8 * len(found)), 1)


def _triplets(turn: Turn) -> list[Triplet]:
    return [Triplet(*fact, turn.index) for fact in _facts(turn.speaker, turn.text)]


class FakeScorer:
    """Scores by the hash of a triplet's text, between 0.05 and 1.05."""

    @property
    def fingerprint(self) -> str:
        """The same for every fake scorer."""
        return text_hash("scorer", "fake")

    def weigh(self, sessions: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        """Scores of shape (n_triplets,) for each session."""
        return [np.array([_score(text) for text in texts], dtype=np.float64) for texts in sessions]


def _score(text: str) -> float:
    return 0.05 + crc32(text.encode("utf-8", "surrogatepass")) / 2**32


class FakeEncoder:
    """A hashed bag of words: texts that share words are near each other, others nearly orthogonal.

    Each word adds to a few dimensions chosen by its hash, with signs; short words count less.

    Args:
        dimension: length of a vector.
    """

    def __init__(self, dimension: int = 384) -> None:
        self._dimension = dimension

    @property
    def fingerprint(self) -> str:
        """The same for every fake encoder of this dimension."""
        return text_hash("encoder", "fake", str(self._dimension))

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimension), float32, unit length."""
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for start in range(0, len(texts), _ENCODED_AT_ONCE):
            part = texts[start : start + _ENCODED_AT_ONCE]
            vectors[start : start + len(part)] = self._encode(part)
        return vectors

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float64]:
        places: list[int] = []
        values: list[float] = []
        for row, text in enumerate(texts):
            first = row * self._dimension
            for word in _WORD.findall(text.lower()) or [text]:
                for place, value in _word_parts(word, self._dimension):
                    places.append(first + place)
                    values.append(value)
        shape = (len(texts), self._dimension)
        sums = np.bincount(places, values, minlength=shape[0] * shape[1]).reshape(shape)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        sums[norms[:, 0] == 0, 0] = 1.0  # words that cancel out exactly
        return np.asarray(sums / np.where(norms == 0, 1.0, norms))


@lru_cache(maxsize=200_000)
def _word_parts(word: str, dimension: int) -> tuple[tuple[int, float], ...]:
    """Dimensions and signed values of one word."""
    digest = blake2b(
        word.encode("utf-8", "surrogatepass"), digest_size=4 * _DIMENSIONS_PER_WORD
    ).digest()
    hashes = np.frombuffer(digest, dtype="<u4").tolist()
    weight = min(len(word), 5) / 5
    return tuple(((h >> 1) % dimension, weight if h & 1 else -weight) for h in hashes)
