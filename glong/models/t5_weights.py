"""Where the weights of a T5 come from: a checkpoint, or a seed until there is a trained one."""

import logging
from typing import TYPE_CHECKING, Any

from glong.errors import ConfigError, ModelError
from glong.models.sentence import minilm_folder
from glong.models.shipped import checked_folder, is_shipped

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["SEEDED", "seeded_t5", "t5_checkpoint"]

SEEDED = "seeded"
SEED = 20

logger = logging.getLogger(__name__)


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
    try:
        kind = AutoConfig.from_pretrained(place).model_type
        if kind != "t5":
            raise ConfigError(f"scorer.model is {name!r}, a model of type {kind!r}; allowed: t5.")
        tokenizer = AutoTokenizer.from_pretrained(place)
        # Eager: sdpa gives no cross-attention. float32: bf16 is 50 times slower on a CPU with AVX2.
        loaded: Any = T5ForConditionalGeneration.from_pretrained(
            place, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"scorer.model is {name!r}, which cannot be loaded ({error}); allowed: a hub name or "
            f"folder of a T5 checkpoint, package:glong-scorer, or {SEEDED!r}."
        ) from error
    model, report = loaded
    if report["missing_keys"]:
        raise ModelError(
            f"{name!r} lacks the weights {sorted(report['missing_keys'])[:3]}.",
            hint="They would be random; use a complete checkpoint.",
        )
    return model, tokenizer


def seeded_t5() -> tuple[Any, "PreTrainedTokenizerBase"]:
    """A small T5 with weights from a seed, and MiniLM's tokeniser; see ``cards/t5_seeded.md``.

    Raises:
        ConfigError: the package with MiniLM is not installed.
    """
    import torch
    from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

    logger.warning(
        "scorer.model is %r: its weights are random, so the importance of triplets means nothing. "
        "Name a trained T5 checkpoint for real use.",
        SEEDED,
    )
    tokenizer = AutoTokenizer.from_pretrained(str(minilm_folder()), local_files_only=True)
    untyped: Any = T5Config  # takes every common setting, of which its signature names a few
    config = untyped(
        vocab_size=len(tokenizer),
        d_model=128,
        d_kv=32,
        d_ff=256,
        num_layers=2,
        num_heads=4,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
        attn_implementation="eager",
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(SEED)
        model = T5ForConditionalGeneration(config)
        # With T5's own scales a random T5 repeats one token and attends almost evenly: embeddings
        # of a tenth let the layers speak, queries of twice the size make attention vary.
        model.shared.weight.mul_(0.1)
        for name, parameter in model.named_parameters():
            if name.endswith(".q.weight"):
                parameter.mul_(2.0)
    return model, tokenizer
