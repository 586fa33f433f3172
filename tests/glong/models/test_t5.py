import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from glong.config import SMALL_MODELS, ScorerSpec
from glong.errors import ConfigError, ModelError
from glong.models.t5 import T5Scorer
from glong.protocols import Scorer
from glong.weighting import SEPARATOR, SOURCE_PREFIX, normalise

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SESSION = [
    "Mira likes grilled peppers",
    "Jon owns two brown dogs",
    "Mira works as a nurse",
    "Mira plans a trip to Oslo",
    "Jon hates cold weather",
    "Mira has a sister called Ada",
]
SESSIONS = [SESSION, SESSION[:1], [], SESSION[2:5], list(reversed(SESSION)), SESSION[3:] * 2]
WORDS = sorted({word for text in SESSION for word in text.split()} | {SOURCE_PREFIX[:-1]})
SMALL = ScorerSpec(
    backend="t5", model="-", max_source_tokens=64, overlap_tokens=8, max_summary_tokens=12
)


def make_tokenizer(folder: Path) -> None:
    """A Unigram tokeniser of T5's kind: ids 0 padding, 1 end, 2 unknown."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    pieces = ["<pad>", "</s>", "<unk>", ".", ":", "▁", *(f"▁{word}" for word in WORDS)]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A T5 checkpoint small enough that its summaries end by themselves, at different lengths."""
    path = tmp_path_factory.mktemp("t5")
    make_tokenizer(path)
    config = transformers.T5Config(
        vocab_size=6 + len(WORDS), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=0, tie_word_embeddings=False,
    )  # fmt: skip
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(15)
        model = transformers.T5ForConditionalGeneration(config)
        for name, parameter in model.named_parameters():
            if name.endswith("Attention.q.weight"):
                parameter.mul_(6.0)
        model.shared.weight.mul_(0.2)
        model.lm_head.weight[1].mul_(2.5)
    # Checkpoints ask for things like these; a score must not depend on them.
    model.generation_config = transformers.GenerationConfig(
        num_beams=3, length_penalty=2.0, min_length=9, early_stopping=True, decoder_start_token_id=0
    )
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def scorer(folder: Path) -> T5Scorer:
    return T5Scorer.load(dataclasses.replace(SMALL, model=str(folder)))


def brute_force(folder: Path, texts: list[str], max_new_tokens: int) -> np.ndarray:
    """Equation (2) from one session alone, generated step by step, with its own token spans."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.T5ForConditionalGeneration.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()

    model.generation_config = transformers.GenerationConfig(decoder_start_token_id=0)

    def ids(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    source, spans = ids(SOURCE_PREFIX), []
    for text in texts:
        spans.append((len(source), len(source) + len(ids(text))))
        source += ids(text) + ids(text + SEPARATOR)[len(ids(text)) :]
    with torch.no_grad():
        out = model.generate(
            torch.tensor([[*source, 1]]), max_new_tokens=max_new_tokens, num_beams=1,
            do_sample=False, suppress_tokens=[0], pad_token_id=0, eos_token_id=1,
            output_attentions=True, return_dict_in_generate=True,
        )  # fmt: skip
    total = np.zeros(len(source) + 1)
    for step in out.cross_attentions:  # one a summary token; each has every layer's (1, H, 1, N)
        total += step[-1][0, :, 0].double().mean(0).numpy()
    return np.array([total[start:stop].sum() for start, stop in spans])


def test_scorer_keeps_the_protocol(scorer):
    assert isinstance(scorer, Scorer)
    assert scorer.weigh([]) == []
    result = scorer.weigh(SESSIONS)
    assert [len(scores) for scores in result] == [len(texts) for texts in SESSIONS]
    assert all(scores.dtype == np.float64 for scores in result)
    assert all((scores > 0).all() and np.isfinite(scores).all() for scores in result)


def test_scores_match_a_step_by_step_computation(scorer, folder):
    for texts, scores in zip(SESSIONS, scorer.weigh(SESSIONS), strict=True):
        if texts:
            expected = brute_force(folder, texts, SMALL.max_summary_tokens)
            np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_summaries_of_the_test_end_at_different_lengths(scorer):
    lengths = {len(s) for reading in scorer.read(SESSIONS) for s in reading.summaries}
    assert len(lengths) > 2, "without different lengths the tests of padding prove nothing"
    assert min(lengths) < SMALL.max_summary_tokens


def test_scores_of_a_session_sum_to_at_most_its_summary_length(scorer):
    for reading in scorer.read(SESSIONS):
        assert reading.scores.sum() <= sum(map(len, reading.summaries)) + 1e-6


def test_session_does_not_depend_on_its_batch_mates(scorer):
    together = scorer.read(SESSIONS)
    for texts, reading in zip(SESSIONS, together, strict=True):
        alone = scorer.read([texts])[0]
        assert alone.summaries == reading.summaries
        np.testing.assert_allclose(alone.scores, reading.scores, rtol=1e-4)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_scores_agree_over_batch_size_and_order(scorer, folder, batch_size):
    sessions = [SESSION[i % 5 : i % 5 + 1 + i % 4] for i in range(20)]
    expected = scorer.weigh(sessions)
    other = T5Scorer.load(dataclasses.replace(SMALL, model=str(folder), batch_size=batch_size))
    order = np.random.default_rng(batch_size).permutation(len(sessions))
    for i, scores in zip(order, other.weigh([sessions[i] for i in order]), strict=True):
        np.testing.assert_allclose(scores, expected[i], rtol=1e-4)
    assert other.fingerprint == scorer.fingerprint


def test_long_session_is_read_in_windows_without_a_zero(scorer):
    texts = SESSION * 8
    reading = scorer.read([texts])[0]
    assert reading.n_windows > 3
    assert (reading.scores > 0).all()
    assert normalise(reading.scores).max() == 1.0


def test_windows_do_not_favour_the_short_last_one(scorer):
    scores = scorer.weigh([[SESSION[1]] * 40])[0]
    assert scores.max() / scores.min() < 10, "one text, one session: only its place may matter"


def test_triplet_longer_than_a_window_is_cut_and_still_scored(scorer):
    scores = scorer.weigh([["Mira likes " + "peppers " * 200, *SESSION]])[0]
    assert scores.shape == (7,)
    assert (scores > 0).all()


@pytest.mark.parametrize("text", ["", "   ", "\u200b", "日本語", "😀", "."])
def test_text_without_known_tokens_is_scored(scorer, text):
    scores = scorer.weigh([[SESSION[0], text, SESSION[1]]])[0]
    assert (scores > 1e-6).all()


def test_sdpa_gives_no_cross_attention_and_is_refused(scorer, folder):
    model = transformers.T5ForConditionalGeneration.from_pretrained(
        folder, attn_implementation="sdpa"
    )
    ids = torch.ones((1, 3), dtype=torch.long)
    assert (
        model(input_ids=ids, decoder_input_ids=ids, output_attentions=True).cross_attentions == ()
    )
    with pytest.raises(ModelError, match="eager"):
        T5Scorer(SMALL, model, transformers.AutoTokenizer.from_pretrained(folder))


def test_attention_that_is_not_finite_is_refused(folder):
    scorer = T5Scorer.load(dataclasses.replace(SMALL, model=str(folder)))
    with torch.no_grad():
        scorer._model.shared.weight[5:] = float("nan")
    with pytest.raises(ModelError, match="not finite"):
        scorer.weigh([SESSION])


def test_fingerprint_names_weights_and_settings_but_not_the_batch(scorer, folder):
    spec = dataclasses.replace(SMALL, model=str(folder))
    for change in ({"max_source_tokens": 63}, {"overlap_tokens": 9}, {"max_summary_tokens": 11}):
        changed = T5Scorer.load(dataclasses.replace(spec, **change))
        assert changed.fingerprint != scorer.fingerprint
    other = T5Scorer.load(spec)._model
    with torch.no_grad():
        other.lm_head.weight[7, 7] += 1e-3
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert T5Scorer(spec, other, tokenizer).fingerprint != scorer.fingerprint


def test_unknown_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"scorer\.model is .*cannot be loaded"):
        T5Scorer.load(dataclasses.replace(SMALL, model=str(tmp_path / "nothing")))


def test_other_kind_of_model_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ConfigError, match="type 'bert'; allowed: t5"):
        T5Scorer.load(dataclasses.replace(SMALL, model=str(tmp_path)))


def test_checkpoint_without_all_weights_is_refused(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    for file in folder.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(folder / "model.safetensors")
    del weights["decoder.block.1.layer.1.EncDecAttention.q.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="lacks the weights"):
        T5Scorer.load(dataclasses.replace(SMALL, model=str(tmp_path)))


def test_a_model_made_for_short_summaries_keeps_to_its_own_length(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = T5Scorer.load(dataclasses.replace(SMALL, model=str(folder)))._model
    model.config.max_summary_tokens = 3
    of_model = T5Scorer(SMALL, model, tokenizer)
    assert max(len(s) for s in of_model.read([SESSION])[0].summaries) <= 3
    shorter = T5Scorer(dataclasses.replace(SMALL, max_summary_tokens=2), model, tokenizer)
    assert max(len(s) for s in shorter.read([SESSION])[0].summaries) <= 2
    assert of_model.fingerprint != shorter.fingerprint


def test_window_without_room_is_refused(folder):
    spec = ScorerSpec(backend="t5", model=str(folder), max_source_tokens=16, overlap_tokens=0)
    T5Scorer.load(spec)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    wide = type("Wide", (), {"__call__": lambda *_, **__: {"input_ids": [3] * 8}})()
    wide.is_fast, wide.unk_token_id, wide.backend_tokenizer = True, 2, tokenizer.backend_tokenizer
    with pytest.raises(ConfigError, match="17 or more"):
        T5Scorer(spec, T5Scorer.load(spec)._model, wide)


SHIPPED = SMALL_MODELS.scorer


def test_the_shipped_model_writes_few_tokens_and_is_one_model():
    first, second = T5Scorer.load(SHIPPED), T5Scorer.load(SHIPPED)
    assert first.fingerprint == second.fingerprint
    reading = first.read([SESSION])[0]
    assert len(reading.summaries[0]) <= first._model.config.max_summary_tokens
    np.testing.assert_array_equal(reading.scores, second.weigh([SESSION])[0])


def test_the_shipped_model_weighs_what_people_keep_above_small_talk():
    scorer = T5Scorer.load(SHIPPED)
    (weights,) = map(normalise, scorer.weigh([[*KEPT, *SMALL_TALK]]))
    kept, talk = weights[: len(KEPT), None], weights[None, len(KEPT) :]
    assert (kept > talk).mean() >= 0.9


KEPT = [
    "Mira work as a nurse",
    "Jon have two dogs",
    "Mira live in Oslo",
    "Jon like to paint",
    "Mira be vegetarian",
    "Jon play the guitar",
    "Mira have a sister",
    "Jon love hiking",
    "Mira like pizza",
    "Jon have three kids",
]
SMALL_TALK = [
    "It be such a great idea for the weekend",
    "Jon not wait to hear more about it",
    "That be so much better than I thought",
    "Mira hope to see it again next time",
    "Thing be hard at first",
    "Jon guess that makes sense",
    "Mira get what you mean",
    "Jon think about that for a while",
    "It take a lot of time to get used to",
    "Mira bet that was fun",
]
