"""Lessons -> token batches. The prompt's beginning, equal in all of them, is kept apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glong.config import ExtractorSpec
from glong.errors import ModelError
from glong.models.rendering import render
from glong.parsing import answer_text
from jobs.extractor.data import Lesson

__all__ = ["IGNORED", "Batch", "Example", "collate", "encode", "shared_prefix"]

IGNORED = -100
"""Label that the loss leaves out."""


@dataclass(frozen=True, slots=True)
class Example:
    """One lesson as token ids; ``answer`` ends with the token that ends an answer."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        """Prompt and answer."""
        return len(self.prompt) + len(self.answer)


@dataclass(frozen=True, slots=True)
class Batch:
    """B examples of N tokens at most, filled on the left, so that all answers end together.

    Attributes:
        ids: (B, N) what follows the shared beginning of the prompt.
        mask: (B, N) 1 where a token is.
        labels: (B, T) the next token at the last T places, -100 where no answer is.
    """

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    labels: NDArray[np.int64]


def encode(found: Sequence[Lesson], tokenizer: Any, spec: ExtractorSpec) -> list[Example]:
    """The prompt of inference and the answer that its parser reads back.

    Raises:
        ModelError: the tokeniser has no chat template or no end token.
    """
    end = tokenizer.eos_token_id
    if end is None:
        raise ModelError("the tokenizer has no end token.", hint="Set its eos_token.")
    if not found:
        return []
    texts = [answer_text(one.triplets, one.window.turns) for one in found]
    answers = tokenizer(texts, add_special_tokens=False)["input_ids"]
    prompts = (render(tokenizer, one.request(spec)) for one in found)
    return [
        Example(tuple(prompt), (*answer, end))
        for prompt, answer in zip(prompts, answers, strict=True)
    ]


def shared_prefix(examples: Sequence[Example]) -> tuple[int, ...]:
    """The tokens with which every prompt begins; at least one token of each is left over."""
    prompts = [example.prompt[:-1] for example in examples]
    first, last = min(prompts), max(prompts)  # what these share, all between them share
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return tuple(token for token, _ in equal)


def collate(examples: Sequence[Example], n_prefix: int, pad_id: int) -> Batch:
    """Fill up a batch.

    Args:
        examples: at least one.
        n_prefix: tokens of each prompt that the model reads apart.
        pad_id: fills.
    """
    rows = [example.prompt[n_prefix:] + example.answer for example in examples]
    n_answer = max(len(example.answer) for example in examples)
    width = max(map(len, rows))
    ids = np.full((len(rows), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    labels = np.full((len(rows), n_answer), IGNORED, dtype=np.int64)
    for i, (row, example) in enumerate(zip(rows, examples, strict=True)):
        ids[i, width - len(row) :] = row
        mask[i, width - len(row) :] = 1
        labels[i, n_answer - len(example.answer) :] = example.answer
    return Batch(ids, mask, labels)
