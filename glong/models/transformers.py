"""The generator for machines without vLLM: Hugging Face transformers, greedy, in padded batches.

Batches are sorted by length and padded on the left; the mask hides the padding, so that a row's
tokens do not depend on its batch mates but for rounding. float32 on a CPU (bfloat16 is about 50
times slower without AVX512), the checkpoint's own type on a GPU.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from glong.config import ExtractorSpec
from glong.errors import ConfigError, ModelError
from glong.models.extras import extra
from glong.models.grammar import GrammarCompiler
from glong.models.rendering import render, too_long
from glong.models.weights import generator_fingerprint, model_folder, own_weights
from glong.types import Generation, GenerationRequest, Usage

__all__ = ["TransformersGenerator", "nf4_settings", "plan_batches"]

MAX_BATCH_ROWS = 16
MAX_BATCH_TOKENS = 16_384
"""Rows times padded length, prompt and answer: bounds the memory of keys and values (0.8 GB for
SmolLM2, twice for a moment at each step). Wider batches were no faster on two cores: the cache is
copied at every step."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One request, ready to run: its place in the input and its prompt's token ids."""

    place: int
    prompt: tuple[int, ...]
    request: GenerationRequest


class TransformersGenerator:
    """Runs a causal language model in this process.

    Args:
        model: a transformers causal language model, in evaluation mode.
        tokenizer: its tokenizer, with a chat template.
        fingerprint: identity of model, adapter and quantization.
    """

    def __init__(self, model: Any, tokenizer: Any, fingerprint: str) -> None:
        with extra("models"):
            from transformers import GenerationConfig

        self._model = model
        self._tokenizer = tokenizer
        self._fingerprint = fingerprint
        self._stops = _stop_ids(model, tokenizer)
        # The checkpoint's own sampling and penalties would make the answers not greedy.
        settings: dict[str, Any] = {"eos_token_id": self._stops, "pad_token_id": self._stops[0]}
        model.generation_config = GenerationConfig.from_dict({"do_sample": False, **settings})
        self._grammars = GrammarCompiler(tokenizer, model.config.vocab_size, self._stops)

    @classmethod
    def load(cls, spec: ExtractorSpec) -> "TransformersGenerator":
        """Load the model, its tokenizer and its adapter.

        Raises:
            ConfigError: a package is missing, or nf4 without a GPU.
            ModelError: the weights cannot be loaded.
        """
        with extra("models"):
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer

        on_gpu = torch.cuda.is_available()
        folder = model_folder(spec.model)
        settings: dict[str, Any] = {"dtype": "auto" if on_gpu else torch.float32}
        if spec.quantization == "nf4":
            settings["quantization_config"] = nf4_settings(on_gpu)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
            model: Any = AutoModelForCausalLM.from_pretrained(folder, **settings)
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{spec.model!r} cannot be loaded: {error}", hint="Check the files of the model."
            ) from error
        model = _adapted(model, spec) if spec.adapter else model
        if not on_gpu:
            own_weights(model)
        elif spec.quantization == "none":
            model = model.to("cuda")
        identity = generator_fingerprint(spec.model, spec.adapter, spec.quantization)
        return cls(model.eval(), tokenizer, identity)

    @property
    def fingerprint(self) -> str:
        """Identity of model, adapter and quantization."""
        return self._fingerprint

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer each request greedily.

        Raises:
            ModelError: out of memory, or the engine failed.
        """
        answers: dict[int, Generation] = {}
        jobs = []
        limit = self._model.config.max_position_embeddings
        for place, request in enumerate(requests):
            prompt = tuple(render(self._tokenizer, request))
            if failure := too_long(len(prompt), request.max_tokens, limit):
                answers[place] = Generation("", failure=failure)
            else:
                jobs.append(_Job(place, prompt, request))
        for batch in plan_batches([(len(j.prompt), j.request.max_tokens) for j in jobs]):
            rows = [jobs[index] for index in batch]
            answers |= zip((row.place for row in rows), self._run(rows), strict=True)
        return [answers[place] for place in range(len(requests))]

    def _run(self, rows: Sequence[_Job]) -> Iterator[Generation]:
        import torch

        width = max(len(row.prompt) for row in rows)
        pads = [width - len(row.prompt) for row in rows]
        ids = torch.tensor(
            [[self._stops[0]] * pad + [*row.prompt] for pad, row in zip(pads, rows, strict=True)]
        )
        seen = torch.tensor([[0] * pad + [1] * (width - pad) for pad in pads])
        mask = self._grammars.mask([row.request.json_schema for row in rows])
        try:
            with torch.inference_mode():
                output = self._model.generate(
                    input_ids=ids.to(self._model.device),
                    attention_mask=seen.to(self._model.device),
                    max_new_tokens=rows[0].request.max_tokens,
                    logits_processor=[mask] if mask else [],
                )
        except RuntimeError as error:
            raise ModelError(
                f"generation failed: {error}",
                hint="Out of memory? Lower batch_size or window_chars.",
            ) from error
        answers = output[:, width:].tolist()
        return (self._answer(row, tokens) for row, tokens in zip(rows, answers, strict=True))

    def _answer(self, row: _Job, tokens: list[int]) -> Generation:
        """The text before the first stop token, if there is one."""
        end = next((i for i, token in enumerate(tokens) if token in self._stops), None)
        text = self._tokenizer.decode(tokens[:end], skip_special_tokens=True).strip()
        n_out = len(tokens) if end is None else end + 1
        return Generation(text, Usage(len(row.prompt), n_out), finished=end is not None)


def plan_batches(sizes: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Group requests of like length into batches.

    Args:
        sizes: for each request the tokens of its prompt and the most tokens of its answer.

    Returns:
        Indices of the requests, batch by batch, longest first; a batch has one ``max_tokens``, at
        most ``MAX_BATCH_ROWS`` rows, and at most ``MAX_BATCH_TOKENS`` tokens unless it is a single
        row.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(sizes)), key=lambda i: sizes[i][::-1], reverse=True):
        if batches and _fits(sizes, batches[-1], index):
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def _fits(sizes: Sequence[tuple[int, int]], batch: Sequence[int], index: int) -> bool:
    n_prompt, max_tokens = sizes[batch[0]]  # the longest
    n_rows = len(batch) + 1
    room = n_rows <= MAX_BATCH_ROWS and n_rows * (n_prompt + max_tokens) <= MAX_BATCH_TOKENS
    return room and sizes[index][1] == max_tokens


def _stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends an answer: the checkpoint's (one or a list) and the tokenizer's."""
    own = model.generation_config.eos_token_id
    ids = [] if own is None else [own] if isinstance(own, int) else list(own)
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ids:
        ids.append(tokenizer.eos_token_id)
    if not ids:
        raise ModelError(
            "the model has no end-of-text token.", hint="Set eos_token_id in its config."
        )
    return ids


def _adapted(model: Any, spec: ExtractorSpec) -> Any:
    """The model with its LoRA adapter, merged unless the weights are quantized."""
    with extra("models"):
        from peft import PeftModel

    try:
        adapted = PeftModel.from_pretrained(model, str(model_folder(spec.adapter)))
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"adapter {spec.adapter!r} does not fit {spec.model!r}: {error}",
            hint="Use the base model that the adapter was trained on.",
        ) from error
    return adapted if spec.quantization != "none" else adapted.merge_and_unload()


def nf4_settings(on_gpu: bool) -> Any:
    """How weights are read in 4 bits, with arithmetic in bfloat16.

    Raises:
        ConfigError: no GPU, or bitsandbytes is missing.
    """
    if not on_gpu:
        raise ConfigError("extractor.quantization is 'nf4'; allowed without an NVIDIA GPU: none.")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigError("nf4 needs bitsandbytes. Install it with: pip install bitsandbytes")
    with extra("models"):
        import torch
        from transformers import BitsAndBytesConfig

    settings: Any = BitsAndBytesConfig
    return settings(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
    )
