import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.models.fake import FakeEncoder, FakeExtractor, FakeGenerator, FakeScorer
from glong.protocols import Encoder, Extractor, Generator, Scorer
from glong.types import Failure, Generation, GenerationRequest, Message, Session, Turn

WORDS = ["tea", "bread", "river", "garden", "violin", "winter", "lamp", "letter", "bike", "port"]


def talk(i, n_turns=20):
    turns = tuple(
        Turn(j, ("Mira", "Jonas")[j % 2], f"I like {WORDS[(i + j) % 10]} and {WORDS[j % 7]} {i}.")
        for j in range(n_turns)
    )
    return Session(f"d{i % 5}", f"s{i}", None, turns)


def request(text):
    return GenerationRequest((Message("system", "x"), Message("user", text)), 64)


def test_the_fakes_fit_their_protocols():
    assert isinstance(FakeGenerator(), Generator)
    assert isinstance(FakeExtractor(), Extractor)
    assert isinstance(FakeScorer(), Scorer)
    assert isinstance(FakeEncoder(), Encoder)


def test_the_generator_makes_triplets_of_the_numbered_turns():
    lines = "\n".join(f"{i + 1}. Mira: I like {word} and more" for i, word in enumerate(WORDS))
    (answer,) = FakeGenerator().generate([request(lines)])
    items = json.loads(answer.text)
    assert 2 <= len(items) <= 15
    for item in items:
        assert item["subject"] == "Mira"
        assert item["object"] in lines.splitlines()[item["turn"] - 1]
    assert answer.usage.tokens_in > 40


def test_the_generator_answers_as_told():
    failure = Generation("", failure=Failure("extract", "timeout", "too slow"))
    generator = FakeGenerator({request("a"): "b", request("c"): failure})
    assert generator.generate([request("c"), request("a")])[0] == failure
    assert generator.generate([request("a")])[0].text == "b"


def test_half_of_the_turns_have_facts_and_some_have_two():
    turns = [turn for i in range(50) for turn in talk(i).turns]
    sessions = [Session("d", str(i), None, (turn,)) for i, turn in enumerate(turns)]
    counts = [len(extraction.triplets) for extraction in FakeExtractor().extract(sessions)]
    assert set(counts) == {0, 1, 2}
    assert 0.35 < sum(counts) / len(counts) < 0.65


def test_extraction_does_not_depend_on_the_batch():
    talks = [talk(i) for i in range(30)]
    extractor = FakeExtractor()
    together = extractor.extract(talks)
    assert together == [extractor.extract([each])[0] for each in talks]
    assert together == extractor.extract(talks[::-1])[::-1]


def test_a_session_can_be_told_to_fail():
    failure = Failure("extract", "timeout", "too slow", transient=True)
    broken, whole = FakeExtractor({"s1": failure}).extract([talk(1), talk(2)])
    assert broken.failures == (failure,)
    assert broken.triplets == ()
    assert whole.triplets


def test_scores_are_positive_and_depend_on_the_text_alone():
    first, second, empty = FakeScorer().weigh([["a b c", "d e f"], ["d e f"], []])
    assert first[1] == second[0]
    assert first.min() > 0
    assert first.dtype == np.float64
    assert empty.shape == (0,)


@settings(deadline=None)
@given(st.lists(st.text(), max_size=8), st.sampled_from([1, 3, 384]))
def test_vectors_have_unit_length_and_do_not_depend_on_the_batch(texts, dimension):
    encoder = FakeEncoder(dimension)
    vectors = encoder.encode(texts)
    assert vectors.shape == (len(texts), dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    for text, vector in zip(texts, vectors, strict=True):
        assert (encoder.encode([text])[0] == vector).all()


def test_texts_that_share_words_are_near():
    query, near, far = FakeEncoder().encode(
        ["what bread does Jonas bake", "Jonas bakes sourdough bread", "a violin in winter"]
    )
    assert query @ near > 0.3
    assert abs(query @ far) < 0.2


def test_fingerprints_tell_dimensions_apart():
    assert FakeEncoder(8).fingerprint != FakeEncoder(16).fingerprint
    assert FakeEncoder(8).fingerprint == FakeEncoder(8).fingerprint


@pytest.mark.slow
def test_the_fakes_are_fast():
    sessions = [talk(i) for i in range(2_000)]
    start = time.process_time()
    FakeExtractor().extract(sessions)
    assert 2_000 / (time.process_time() - start) > 1_000  # sessions a second
    texts = [turn.text for session in sessions[:1_000] for turn in session.turns]
    start = time.process_time()
    FakeEncoder().encode(texts)
    assert len(texts) / (time.process_time() - start) > 10_000  # texts a second
