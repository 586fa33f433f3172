"""The model of ``train_extractor``: a causal language model with LoRA, and its answer loss.

torch, transformers and peft are imported where they are used.
"""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glong.errors import ConfigError, ModelError
from glong.models.extras import extra
from glong.models.shipped import write_manifest
from glong.models.transformers import nf4_settings
from glong.models.weights import model_folder, own_weights
from jobs.extractor.batches import IGNORED, Batch

__all__ = [
    "ADAPTER",
    "answer_loss",
    "check_nf4",
    "export",
    "load_base",
    "n_parameters",
    "new_adapter",
    "read_adapter",
    "trained",
]

ADAPTER = "adapter_model.safetensors"


def check_nf4() -> None:
    """Whether this machine can train on weights in 4 bits.

    Raises:
        ConfigError: it cannot; says what to do.
    """
    with extra("models"):
        import torch
    if not torch.cuda.is_available():
        raise ConfigError(
            "--quantization is nf4 and there is no NVIDIA GPU; allowed here: none. Run on a machine"
            " with a GPU, or train a small model with --preset small."
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigError(
            "--quantization is nf4 and bitsandbytes is missing. Install it with: pip install"
            " bitsandbytes. Or give --quantization none if the model fits the GPU in 16 bits."
        )


def load_base(name: str, quantization: str) -> tuple[Any, Any]:
    """Model and tokeniser: float32 on a CPU; on a GPU bfloat16, or NF4 with checkpointing.

    Raises:
        ConfigError: a package is missing.
        ModelError: the weights cannot be loaded.
    """
    with extra("models"):
        import torch
        from peft import prepare_model_for_kbit_training
        from transformers import AutoModelForCausalLM, AutoTokenizer

    on_gpu = torch.cuda.is_available()
    settings: dict[str, Any] = {"dtype": torch.bfloat16 if on_gpu else torch.float32}
    if on_gpu:
        settings["device_map"] = {"": torch.cuda.current_device()}
    if quantization == "nf4":
        settings["quantization_config"] = nf4_settings(on_gpu)
    folder = model_folder(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, **settings)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{name!r} cannot be loaded: {error}", hint="Check the files of the model."
        ) from error
    if not on_gpu:
        own_weights(model)
    if quantization == "nf4":
        prepare: Any = prepare_model_for_kbit_training
        model = prepare(model, gradient_checkpointing_kwargs={"use_reentrant": False})
    return model, tokenizer


def new_adapter(model: Any, rank: int, alpha: int, seed: int) -> Any:
    """The model with LoRA on all linear projections, no dropout; its weights come from a seed."""
    import torch
    from peft import LoraConfig, get_peft_model

    settings: Any = LoraConfig(
        r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules="all-linear",
        task_type="CAUSAL_LM",
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return get_peft_model(model, settings)


def read_adapter(model: Any, folder: Path) -> Any:
    """The model with a trained adapter.

    Raises:
        ModelError: the adapter cannot be read or does not fit.
    """
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(model, str(folder))
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"{folder} holds no adapter that fits the model: {error}",
            hint="Give the --model that it was trained on.",
        ) from error


def trained(model: Any) -> dict[str, Any]:
    """Name -> parameter, of those that learn."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def n_parameters(model: Any) -> int:
    """Parameters that learn."""
    return sum(p.numel() for p in trained(model).values())


def answer_loss(model: Any, prefix: Sequence[int]) -> Any:
    """A torch module: a :class:`Batch` -> mean loss of its answer tokens, in nats.

    Gradient checkpointing forbids a cache: then the prefix stands in front of every row instead of
    being read once a step; the loss is the same.

    Args:
        model: with its adapter.
        prefix: token ids that every prompt begins with; may be empty.
    """
    import torch

    class AnswerLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, batch: Batch) -> Any:
            return _loss(self.model, tuple(prefix), batch)

    return AnswerLoss()


def _loss(model: Any, prefix: tuple[int, ...], batch: Batch) -> Any:
    import torch

    device = next(model.parameters()).device
    ids, mask, labels = (
        torch.from_numpy(array).to(device) for array in (batch.ids, batch.mask, batch.labels)
    )
    start = torch.tensor([prefix], dtype=torch.long, device=device).expand(len(ids), -1)
    seen = torch.cat([torch.ones_like(start), mask], dim=1)
    places = (seen.cumsum(1) - 1).clamp(min=0)
    inputs: dict[str, Any] = {"input_ids": ids, "position_ids": places[:, len(prefix) :]}
    with torch.autocast("cuda", torch.bfloat16, enabled=device.type == "cuda"):
        if prefix and not getattr(model, "is_gradient_checkpointing", False):
            read = model(input_ids=start[:1], use_cache=True, logits_to_keep=1)
            read.past_key_values.batch_repeat_interleave(len(ids))
            inputs["past_key_values"] = read.past_key_values
        elif prefix:
            inputs = {"input_ids": torch.cat([start, ids], dim=1), "position_ids": places}
        # One place more than the answers: the token before predicts the first.
        out = model(attention_mask=seen, logits_to_keep=labels.shape[1] + 1, **inputs)
    logits = out.logits[:, :-1].float()
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED
    )


def export(model: Any, base: str, folder: Path, note: dict[str, Any]) -> None:
    """Write the adapter in float16, its configuration and how it was made; the manifest last.

    Args:
        model: with its adapter, left as it is.
        base: the name by which the model was asked for: a cache's path would say nothing elsewhere.
        folder: made if missing.
        note: becomes ``training.json``.
    """
    import torch
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    weights = get_peft_model_state_dict(model, save_embedding_layers=False)
    halves = {name: w.detach().to("cpu", torch.float16).contiguous() for name, w in weights.items()}
    save_file(halves, str(folder / ADAPTER), metadata={"format": "pt"})
    settings = model.peft_config["default"].to_dict()
    settings |= {
        "base_model_name_or_path": base,
        "inference_mode": True,
        # peft lists every layer by its path; their last names say the same and fit any engine.
        "target_modules": sorted({name.split(".")[-1] for name in settings["target_modules"]}),
    }
    _write(settings, folder / "adapter_config.json")
    _write(note, folder / "training.json")
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors makes its file private
    write_manifest(folder)


def _write(value: dict[str, Any], path: Path) -> None:
    text = json.dumps(value, indent=2, sort_keys=True, default=_plain)
    path.write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else str(value)
