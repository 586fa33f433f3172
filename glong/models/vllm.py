"""The generator for GPUs, and for tests on a CPU: vLLM's offline engine, with prefix caching.

Prompts are rendered here, so that this and :mod:`glong.models.transformers` read the very same
tokens. Calls from several threads share the engine's batch (:mod:`glong.models.sharing`).
"""

import json
import os
from collections.abc import Sequence
from typing import Any

from glong.config import ExtractorSpec
from glong.errors import ModelError
from glong.models.extras import extra
from glong.models.rendering import render, too_long
from glong.models.sharing import SharedEngine
from glong.models.weights import generator_fingerprint, model_folder
from glong.types import Generation, GenerationRequest, Usage

__all__ = ["VLLMGenerator", "engine_settings"]

_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM allows as ``max_lora_rank``."""


class VLLMGenerator:
    """Runs a language model in this process (the engine may start its own).

    Args:
        engine: of vLLM; several generators may share it.
        tokenizer: the engine's.
        fingerprint: identity of model, adapter and quantization.
        adapter: folder of a LoRA adapter; empty for none.
        max_model_tokens: context length of the engine.
    """

    def __init__(
        self,
        engine: SharedEngine,
        tokenizer: Any,
        fingerprint: str,
        adapter: str,
        max_model_tokens: int,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._fingerprint = fingerprint
        self._adapter = adapter
        self._max_model_tokens = max_model_tokens

    @classmethod
    def load(cls, spec: ExtractorSpec) -> "VLLMGenerator":
        """Start the engine.

        Raises:
            ConfigError: vLLM is not installed.
            ModelError: the weights are missing or the engine does not start.
        """
        with extra("models"):
            import torch

        on_gpu = torch.cuda.is_available()
        if not on_gpu:
            _prepare_cpu()
        with extra("vllm"):
            from vllm import LLM

        adapter = str(model_folder(spec.adapter)) if spec.adapter else ""
        settings = engine_settings(spec, adapter, on_gpu)
        try:
            engine = LLM(model=str(model_folder(spec.model)), **settings)
        except (RuntimeError, ValueError, OSError) as error:
            raise ModelError(
                f"vLLM does not start with {spec.model!r}: {error}",
                hint="Out of memory? Lower max_model_tokens.",
            ) from error
        identity = generator_fingerprint(spec.model, spec.adapter, spec.quantization)
        shared = SharedEngine(engine.llm_engine)
        return cls(shared, engine.get_tokenizer(), identity, adapter, spec.max_model_tokens)

    @property
    def fingerprint(self) -> str:
        """Identity of model, adapter and quantization."""
        return self._fingerprint

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer each request greedily.

        Raises:
            ModelError: the engine failed.
        """
        prompts = [render(self._tokenizer, request) for request in requests]
        answers: dict[int, Generation] = {}
        for place, (prompt, request) in enumerate(zip(prompts, requests, strict=True)):
            if failure := too_long(len(prompt), request.max_tokens, self._max_model_tokens):
                answers[place] = Generation("", failure=failure)
        places = [place for place in range(len(requests)) if place not in answers]
        outputs = self._run([prompts[p] for p in places], [requests[p] for p in places])
        answers |= {
            place: _generation(output) for place, output in zip(places, outputs, strict=True)
        }
        return [answers[place] for place in range(len(requests))]

    def _run(
        self, prompts: Sequence[list[int]], requests: Sequence[GenerationRequest]
    ) -> list[Any]:
        from vllm.inputs import tokens_input
        from vllm.lora.request import LoRARequest

        lora = LoRARequest("adapter", 1, self._adapter) if self._adapter else None
        wanted = [
            (tokens_input(prompt), _sampling(request), lora)
            for prompt, request in zip(prompts, requests, strict=True)
        ]
        try:
            return self._engine.run(wanted)
        except Exception as error:  # the engine raises many kinds; translated here alone
            raise ModelError(
                f"vLLM failed: {type(error).__name__}: {error}",
                retryable=True,
                hint="A dead engine needs a new process; out of memory: lower max_model_tokens.",
            ) from error


def engine_settings(spec: ExtractorSpec, adapter: str, on_gpu: bool) -> dict[str, Any]:
    """Arguments of ``vllm.LLM`` but the model.

    Args:
        spec: context length and quantization.
        adapter: folder of a LoRA adapter; empty for none.
        on_gpu: whether there is an NVIDIA GPU; else float32 and no compilation.
    """
    settings: dict[str, Any] = {
        "max_model_len": spec.max_model_tokens,
        "enable_prefix_caching": True,
        "generation_config": "vllm",  # not the checkpoint's sampling
        "seed": 0,
        "disable_log_stats": True,
        "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
    }
    if not on_gpu:
        settings |= {"dtype": "float32", "enforce_eager": True}
    if spec.quantization == "nf4":
        settings["quantization"] = "bitsandbytes"
    if adapter:
        settings |= {"enable_lora": True, "max_lora_rank": _lora_rank(adapter), "max_loras": 1}
    return settings


def _lora_rank(adapter: str) -> int:
    """The adapter's rank, rounded up to one that vLLM allows.

    Raises:
        ModelError: the folder has no adapter_config.json, or the rank is too high.
    """
    try:
        with open(os.path.join(adapter, "adapter_config.json"), encoding="utf-8") as file:
            rank = int(json.load(file)["r"])
        return next(allowed for allowed in _LORA_RANKS if allowed >= rank)
    except (OSError, ValueError, KeyError, StopIteration) as error:
        raise ModelError(
            f"adapter {adapter!r} has no readable LoRA rank of at most {_LORA_RANKS[-1]}.",
            hint="Give the folder that holds adapter_config.json.",
        ) from error


def _prepare_cpu() -> None:
    """Settings that vLLM reads from the environment at import; what is set already stays."""
    settings = {
        "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # by default one core stays unused
        "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))),
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)


def _sampling(request: GenerationRequest) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    schema = request.json_schema
    return SamplingParams(
        temperature=0.0,
        max_tokens=request.max_tokens,
        output_kind=RequestOutputKind.FINAL_ONLY,
        structured_outputs=StructuredOutputsParams(json=schema) if schema else None,
    )


def _generation(output: Any) -> Generation:
    answer = output.outputs[0]
    usage = Usage(len(output.prompt_token_ids), len(answer.token_ids))
    return Generation(answer.text.strip(), usage, finished=answer.finish_reason != "length")
