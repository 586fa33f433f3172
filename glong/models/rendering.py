"""Messages -> token ids through a chat template: local back ends read the very same tokens."""

from typing import Any

from glong.errors import ModelError
from glong.types import Failure, GenerationRequest

__all__ = ["render", "too_long"]


def render(tokenizer: Any, request: GenerationRequest) -> list[int]:
    """The prompt's token ids, with the header of the answer; models that can think do not.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        request: its messages are rendered.

    Raises:
        ModelError: the tokenizer has no chat template.
    """
    if not tokenizer.chat_template:
        raise ModelError(
            "the tokenizer has no chat template.",
            hint="Use an instruction-tuned model (…-Instruct).",
        )
    messages = [{"role": m.role, "content": m.content} for m in request.messages]
    text = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False, enable_thinking=False
    )
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def too_long(n_prompt: int, max_tokens: int, limit: int) -> Failure | None:
    """The failure of a prompt that leaves no room for its answer in the model's context, if so."""
    if n_prompt + max_tokens <= limit:
        return None
    message = (
        f"the prompt has {n_prompt} tokens and the answer up to {max_tokens}; "
        f"allowed: {limit} together. Lower window_chars or max_tokens."
    )
    return Failure("extract", "prompt_too_long", message)
