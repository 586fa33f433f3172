"""The model of ``train_scorer``: a vocabulary and a small T5 from scratch, or one from the hub.

torch, transformers and sentencepiece are imported where they are used.
"""

import io
import json
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glong.errors import ConfigError
from glong.models.extras import extra
from glong.models.sentence import minilm_folder
from glong.models.shipped import write_manifest
from glong.models.t5_weights import t5_checkpoint

__all__ = [
    "Size",
    "export",
    "hub_model",
    "load_tokenizer",
    "n_parameters",
    "new_model",
    "take_embeddings",
    "train_tokenizer",
]

_SPECIAL = ("<pad>", "</s>", "<unk>")
"""T5's ids 0, 1 and 2."""

_QUERY_START = 0.3
"""Of T5's own spread, for the queries whose attention is the weight: it begins nearly even, so that
nothing has to be unlearned."""
_LAYER_START = 0.3
"""Of T5's own spread, for what the encoder's layers add: words begin as their embeddings."""
_SLOPE, _OTHER_SIDE = 0.7, 4.0
"""By how much the encoder's heads prefer a near word to one a step farther, and one side to the
other, at the start. T5's own biases are so small that training hardly moves them; without a sense
of place no head finds where a fact ends, and a fact's sum of attention grows with its words: AUC of
w .66 without, .77 with it on held-out MSC."""


@dataclass(frozen=True, slots=True)
class Size:
    """Shape of a T5 from scratch; feed-forward layers are 4 times as wide as the model."""

    d_model: int = 256
    n_layers: int = 4
    n_decoder_layers: int = 2
    n_heads: int = 4
    dropout: float = 0.1


def train_tokenizer(texts: Iterable[str], vocabulary: int, folder: Path) -> None:
    """Train a SentencePiece unigram vocabulary and save it as a fast tokeniser of T5's kind.

    Texts are read in lower case (NFKC with case folding), which a small vocabulary gains from.

    Args:
        texts: sentences.
        vocabulary: pieces, special ones included.
        folder: gets ``tokenizer.json`` and ``tokenizer_config.json``.

    Raises:
        ConfigError: a package is missing, or the texts are too few for so many pieces.
    """
    with extra("models"):
        import sentencepiece
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocabulary,
            character_coverage=0.9995,
            normalization_rule_name="nmt_nfkc_cf",
            num_threads=1,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            pad_piece=_SPECIAL[0],
            eos_piece=_SPECIAL[1],
            unk_piece=_SPECIAL[2],
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise ConfigError(
            f"--vocabulary is {vocabulary}; allowed: fewer pieces, the texts do not give as many"
            f" ({error})."
        ) from error
    _fast_tokenizer(model.getvalue()).save_pretrained(folder)


def _fast_tokenizer(model: bytes) -> Any:
    """A ``tokenizers`` unigram model with the pieces, scores and normaliser of SentencePiece."""
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    proto: Any = sentencepiece_model_pb2.ModelProto.FromString(model)  # type: ignore[attr-defined]
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    untyped: Any = PreTrainedTokenizerFast
    pad, end, unknown = _SPECIAL
    return untyped(tokenizer_object=tokenizer, pad_token=pad, eos_token=end, unk_token=unknown)


def load_tokenizer(folder: Path) -> Any:
    """The tokeniser that :func:`train_tokenizer` saved."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)


def new_model(size: Size, vocabulary: int, seed: int) -> Any:
    """A T5 with weights from a seed, eager attention, float32.

    Args:
        size: its shape.
        vocabulary: pieces.
        seed: of its weights.
    """
    with extra("models"):
        import torch
        from transformers import T5Config, T5ForConditionalGeneration

    untyped: Any = T5Config
    config = untyped(
        vocab_size=vocabulary,
        d_model=size.d_model,
        d_kv=size.d_model // size.n_heads,
        d_ff=4 * size.d_model,
        num_layers=size.n_layers,
        num_decoder_layers=size.n_decoder_layers,
        num_heads=size.n_heads,
        dropout_rate=size.dropout,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        attn_implementation="eager",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = T5ForConditionalGeneration(config)
    with torch.no_grad():
        model.decoder.block[-1].layer[1].EncDecAttention.q.weight.mul_(_QUERY_START)
        for block in model.encoder.block:
            block.layer[0].SelfAttention.o.weight.mul_(_LAYER_START)
            block.layer[1].DenseReluDense.wo.weight.mul_(_LAYER_START)
        biases = model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        biases.copy_(_near_first(*biases.shape))
    return model


def _near_first(n_buckets: int, n_heads: int) -> Any:
    """Biases of attention by distance: of heads in turn to words behind, ahead, around, everywhere.

    Of shape (n_buckets, n_heads). T5's buckets: the first half behind and at the word itself, the
    other half ahead; a higher one is farther away.
    """
    import torch

    away = -_SLOPE * torch.arange(n_buckets // 2)
    kinds = (
        torch.cat([away, away - _OTHER_SIDE]),
        torch.cat([away - _OTHER_SIDE, away]),
        torch.cat([away, away]) / 2,
        torch.zeros(n_buckets),
    )
    return torch.stack([kinds[head % len(kinds)] for head in range(n_heads)], dim=1)


def take_embeddings(model: Any, tokenizer: Any) -> None:
    """Start a model's embeddings from MiniLM's: words that mean alike are alike from step 0.

    A piece gets the mean of the vectors of the MiniLM pieces that spell it, brought to the model's
    width by their principal components and to the spread of T5's own start (standard deviation 1).

    Args:
        model: a new T5, changed in place.
        tokenizer: its tokeniser.

    Raises:
        ConfigError: the package with MiniLM is not installed.
    """
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    folder = minilm_folder()
    words = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"].float()
    spell = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    texts = [piece.replace("▁", " ").strip() or "." for piece in pieces]
    spelt = spell(texts, add_special_tokens=False)["input_ids"]
    vectors = torch.stack([words[ids or [spell.unk_token_id]].mean(dim=0) for ids in spelt])
    centred = vectors - vectors.mean(dim=0)
    directions = torch.linalg.eigh(centred.T @ centred).eigenvectors.flip(1)
    width = min(model.config.d_model, directions.shape[1])
    start = centred @ directions[:, :width]
    with torch.no_grad():
        model.shared.weight[: len(start), :width] = start / start.std()


def hub_model(name: str) -> tuple[Any, Any]:
    """Model and tokeniser of a checkpoint to fine-tune; errors as of :func:`t5_checkpoint`."""
    with extra("models"):
        import torch  # noqa: F401  # names the pip line if it is missing
    return t5_checkpoint(name)


def n_parameters(model: Any) -> int:
    """Parameters, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def export(
    model: Any, tokenizer: Any, folder: Path, note: dict[str, Any], max_summary_tokens: int
) -> None:
    """Write float16 safetensors, configuration and tokeniser; the manifest last.

    float16 halves the file; it is read back as float32, in which alone it is run.

    Args:
        model: a trained T5, left as it is.
        tokenizer: its tokeniser.
        folder: made if missing.
        note: how it was made; becomes ``training.json``.
        max_summary_tokens: M that the scorer keeps to, a part of the configuration.
    """
    import torch
    from transformers import T5ForConditionalGeneration

    from glong.models.weights import without_bars

    folder.mkdir(parents=True, exist_ok=True)
    untyped: Any = T5ForConditionalGeneration
    config = deepcopy(model.config)
    config.max_summary_tokens = max_summary_tokens
    copy = untyped(config)
    copy.load_state_dict(model.state_dict())
    with without_bars():
        copy.to(torch.float16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    text = json.dumps(note, indent=2, sort_keys=True) + "\n"
    (folder / "training.json").write_text(text, encoding="utf-8")
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors makes its file private
    write_manifest(folder)
