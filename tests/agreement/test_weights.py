"""S and w of the T5 code agree over batch size and order; prints the share of equal summaries."""

import dataclasses

import numpy as np
import pytest

from glong.config import ScorerSpec
from glong.models.t5 import Reading, T5Scorer
from glong.weighting import normalise

pytest.importorskip("transformers")

N_SESSIONS = 64
SUBJECTS = ("Mira", "Jon", "Ada", "Tom", "Mira's sister", "the neighbour")
RELATIONS = (
    "likes",
    "owns",
    "works as",
    "plans a trip to",
    "hates",
    "grew up in",
    "is allergic to",
)
OBJECTS = (
    "grilled peppers",
    "two dogs",
    "a nurse",
    "Oslo",
    "cold weather",
    "Nagano",
    "old maps",
    "tea",
)
SPEC = ScorerSpec(
    backend="t5", model="package:glong-scorer", max_source_tokens=128, overlap_tokens=32
)


def make_sessions() -> list[list[str]]:
    """Sessions of 0 to 24 triplets, so that lengths differ and some need two windows."""
    rng = np.random.default_rng(11)
    return [
        [f"{rng.choice(SUBJECTS)} {rng.choice(RELATIONS)} {rng.choice(OBJECTS)}" for _ in range(n)]
        for n in rng.integers(0, 25, size=N_SESSIONS)
    ]


@pytest.fixture(scope="module")
def sessions() -> list[list[str]]:
    return make_sessions()


@pytest.fixture(scope="module")
def alone(sessions) -> list[Reading]:
    """Each session by itself, one window at a time: what every other way must agree with."""
    scorer = T5Scorer.load(dataclasses.replace(SPEC, batch_size=1))
    return [scorer.read([texts])[0] for texts in sessions]


def test_sessions_of_this_test_need_padding_and_windows(alone):
    assert len({len(reading.scores) for reading in alone}) > 10
    assert any(reading.n_windows > 1 for reading in alone)


@pytest.mark.parametrize("batch_size", [7, 64])
def test_weights_agree_over_batch_size_and_order(sessions, alone, batch_size, capsys):
    scorer = T5Scorer.load(dataclasses.replace(SPEC, batch_size=batch_size))
    order = np.random.default_rng(batch_size).permutation(N_SESSIONS)
    pairs = [
        (alone[i], reading)
        for i, reading in zip(order, scorer.read([sessions[i] for i in order]), strict=True)
    ]
    n_equal = sum(one.summaries == other.summaries for one, other in pairs)
    with capsys.disabled():
        print(f" batch {batch_size}: equal summaries {n_equal}/{N_SESSIONS}", end="")
    assert n_equal / N_SESSIONS >= 0.99
    for one, other in pairs:
        if one.summaries == other.summaries:
            np.testing.assert_allclose(other.scores, one.scores, rtol=1e-4)
            np.testing.assert_allclose(normalise(other.scores), normalise(one.scores), atol=1e-4)
