"""The tagger's weights on disk: float16, without word embeddings, which MiniLM's package has."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from glong.errors import ModelError
from glong.models.sentence import minilm_folder
from glong.models.tagger_net import TaggerNet
from glong.models.weights import own_weights, without_bars

__all__ = ["load_net", "new_net", "save_net"]

_FROZEN = "encoder.embeddings.word_embeddings.weight"


def new_net(n_relations: int, dropout: float = 0.1) -> TaggerNet:
    """MiniLM from its package with fresh heads; word embeddings do not train.

    Raises:
        ConfigError: the package is not installed.
    """
    from transformers import AutoModel

    with without_bars():
        encoder: Any = AutoModel.from_pretrained(
            str(minilm_folder()), local_files_only=True, dtype=torch.float32
        )
    encoder.pooler = None  # its weights are in the file, and nothing here reads it
    own_weights(encoder)
    encoder.embeddings.word_embeddings.weight.requires_grad_(False)
    return TaggerNet(encoder, encoder.config.hidden_size, n_relations, dropout)


def load_net(path: Path, n_relations: int) -> TaggerNet:
    """A trained network, in float32.

    Raises:
        ConfigError: MiniLM's package is not installed.
        ModelError: weights are missing or have other shapes.
    """
    net = new_net(n_relations)
    weights = {name: tensor.float() for name, tensor in load_file(path).items()}
    try:
        missing, unexpected = net.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise ModelError(f"{path} does not fit the tagger: {error}", hint=_AGAIN) from error
    left = [name for name in missing if name != _FROZEN and not name.endswith("position_ids")]
    if left or unexpected:
        raise ModelError(
            f"{path} lacks or has too many weights: {left or unexpected}.", hint=_AGAIN
        )
    return net


_AGAIN = "Train it again with jobs/train_tagger.py."


def save_net(net: TaggerNet, path: Path) -> None:
    """Write the trained weights in float16: about 22 MB."""
    state = net.state_dict()
    kept = {name: t.detach().half().contiguous() for name, t in state.items() if name != _FROZEN}
    save_file(kept, path)
