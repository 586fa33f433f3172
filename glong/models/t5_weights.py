"""Where the weights of a T5 come from: the hub, a folder, or our own files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from glong.errors import ConfigError, ModelError
from glong.models.shipped import checked_folder, is_shipped, verify_if_listed
from glong.models.weights import without_bars

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["t5_checkpoint"]


def t5_checkpoint(name: str) -> tuple[Any, "PreTrainedTokenizerBase"]:
    """Model and tokeniser of a T5 checkpoint, for eager attention in float32.

    Args:
        name: hub name, folder, or ``package:glong-scorer``, whose files are checked by hash.

    Raises:
        ConfigError: there is no such checkpoint, or it is not a T5.
        ModelError: it lacks weights, or a shipped file was changed.
    """
    import torch
    from transformers import AutoConfig, AutoTokenizer, T5ForConditionalGeneration

    place = str(checked_folder(name)) if is_shipped(name) else name
    if Path(place).is_dir():
        verify_if_listed(Path(place))
    try:
        kind = AutoConfig.from_pretrained(place).model_type
        if kind != "t5":
            raise ConfigError(f"scorer.model is {name!r}, a model of type {kind!r}; allowed: t5.")
        tokenizer = AutoTokenizer.from_pretrained(place)
        # Eager: sdpa gives no cross-attention. float32: bf16 is 50 times slower on a CPU with AVX2.
        with without_bars():
            loaded: Any = T5ForConditionalGeneration.from_pretrained(
                place, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
            )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"scorer.model is {name!r}, which cannot be loaded ({error}); allowed: a hub name or "
            "folder of a T5 checkpoint, or package:glong-scorer."
        ) from error
    model, report = loaded
    if report["missing_keys"]:
        raise ModelError(
            f"{name!r} lacks the weights {sorted(report['missing_keys'])[:3]}.",
            hint="They would be random; use a complete checkpoint.",
        )
    return model, tokenizer
