from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.config import SMALL_MODELS, ExtractorSpec, ModelsConfig
from glong.extraction import LLMExtractor
from glong.models.fake import FakeExtractor, FakeGenerator
from glong.models.load import load_extractor
from glong.types import (
    Extraction,
    Failure,
    Generation,
    GenerationRequest,
    Message,
    Session,
    Turn,
)
from serve.reuse import PrefixExtractor, ReusingGenerator, reusing_extractor

SPEC = ExtractorSpec(backend="openai", model="m", window_turns=3, context_turns=1)


def session(texts: Sequence[str], name: str = "s") -> Session:
    turns = tuple(Turn(i, ("Mira", "Tom")[i % 2], text) for i, text in enumerate(texts))
    return Session("d", name, None, turns)


class Counting:
    """Passes on and remembers what it was asked."""

    def __init__(self, failing: frozenset[str] = frozenset()) -> None:
        self.inner = FakeGenerator()
        self.fingerprint = self.inner.fingerprint
        self.asked: list[GenerationRequest] = []
        self.failing = failing

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        self.asked += requests
        failed = Generation("", failure=Failure("extract", "timeout", "x", transient=True))
        return [
            failed if request.messages[0].content in self.failing else answer
            for request, answer in zip(requests, self.inner.generate(requests), strict=True)
        ]


class Reads:
    """A fake extractor that notes the turns it was given."""

    def __init__(self) -> None:
        self.inner = FakeExtractor()
        self.fingerprint = self.inner.fingerprint
        self.read: list[int] = []

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        self.read.append(sum(len(one.turns) for one in sessions))
        return self.inner.extract(sessions)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["I like tea .", "We went home .", "ok", ""]), max_size=14))
def test_windows_that_did_not_change_are_not_asked_again(texts: list[str]) -> None:
    counting = Counting()
    reusing = LLMExtractor(ReusingGenerator(counting), SPEC)
    plain = LLMExtractor(FakeGenerator(), SPEC)
    assert reusing.fingerprint == plain.fingerprint
    for n in range(1, len(texts) + 1):
        grown = session(texts[:n])
        assert reusing.extract([grown]) == plain.extract([grown])
    assert len(counting.asked) == len(set(counting.asked))


def test_a_failed_answer_is_asked_again_and_the_cache_is_bounded() -> None:
    counting = Counting(frozenset({"bad"}))
    reusing = ReusingGenerator(counting, max_answers=2)
    good, bad, other = (
        GenerationRequest((Message("user", text),), 5) for text in ("good", "bad", "other")
    )
    for _ in range(2):
        answers = reusing.generate([good, bad, good])
        assert answers[0] == answers[2] != answers[1]
    assert counting.asked == [good, bad, bad]
    reusing.generate([other, GenerationRequest((Message("user", "third"),), 5)])
    reusing.generate([good])
    assert counting.asked.count(good) == 2
    reusing.clear()
    reusing.generate([good])
    assert counting.asked.count(good) == 3


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text("abc .", max_size=8), min_size=1, max_size=10))
def test_only_what_was_added_to_a_session_is_read(texts: list[str]) -> None:
    reads = Reads()
    extractor = PrefixExtractor(reads)
    for n in range(1, len(texts) + 1):
        (found,) = extractor.extract([session(texts[:n])])
        (whole,) = FakeExtractor().extract([session(texts[:n])])
        assert found.triplets == whole.triplets
    assert all(n <= 2 for n in reads.read)


def test_another_beginning_is_read_anew_and_clear_forgets() -> None:
    reads = Reads()
    extractor = PrefixExtractor(reads, max_sessions=10)
    extractor.extract([session(["a", "b", "c"])])
    extractor.extract([session(["x", "b", "c"])])
    extractor.clear()
    extractor.extract([session(["a", "b", "c", "d"])])
    assert reads.read == [3, 3, 4]


@pytest.mark.slow
def test_the_taggers_result_for_a_turn_needs_only_the_turn_before() -> None:
    texts = [
        "I just adopted a greyhound called Pixel.", "Oh nice! How old is he?", "Three.",
        "I work as a nurse in Bergen. My sister lives in Oslo with her two kids.", "And you?",
        "I play the cello, and I do not like tea.", "Yes, me too.", "My car is a red Volvo.",
    ]  # fmt: skip
    plain = load_extractor(SMALL_MODELS.extractor)
    reusing = reusing_extractor(replace(SMALL_MODELS, name="x"))
    assert isinstance(reusing, PrefixExtractor)
    for n in range(1, len(texts) + 1):
        assert reusing.extract([session(texts[:n])])[0].triplets == (
            plain.extract([session(texts[:n])])[0].triplets
        )


def test_extractors_without_a_model_are_not_wrapped() -> None:
    rules = ExtractorSpec(backend="rules")
    config: ModelsConfig = replace(SMALL_MODELS, extractor=rules)
    assert not isinstance(reusing_extractor(config), PrefixExtractor)
