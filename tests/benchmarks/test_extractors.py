"""The tagger against its bare encoder, on a few sample dialogues."""

import pytest

from glong.sources import sample_dialogues
from tests.benchmarks.extractors import compare

pytestmark = pytest.mark.slow


def test_text_and_triplets_cost_little_beside_the_encoder() -> None:
    result = compare(str(sample_dialogues()), n_sessions=12)
    assert result["n_sessions"] == 12
    assert result["n_padded_pieces"] > 12
    assert set(result["turns_per_s"]) == {"rules", "tagger", "bare"}
    assert 0.8 <= result["tagger_over_bare"] <= 3  # below 1 only by the machine's changing speed
