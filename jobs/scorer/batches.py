"""Training pairs -> token batches, in an order that a seed and an epoch decide.

The source has the tokens that :class:`glong.models.t5.T5Scorer` reads: prefix, each fact with its
separator, end token; the parts are tokenised one by one, as there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glong.training.summaries import Pair
from glong.weighting import SEPARATOR, SOURCE_PREFIX
from jobs import training

__all__ = [
    "Batch",
    "Example",
    "Limits",
    "collate",
    "encode_pairs",
    "plan_epoch",
    "with_other_prefixes",
]

IGNORED = -100
"""Label that the loss leaves out."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Most tokens of a source (whole facts are left out behind it) and of a target (cut)."""

    source: int = 512
    target: int = 64


@dataclass(frozen=True, slots=True)
class Example:
    """One pair as tokens.

    Attributes:
        source: token ids.
        owners: for each source token the fact it belongs to, or -1 (prefix, separators, end).
        favoured: for each fact whether the target is about it.
        target: token ids, end token included unless cut.
    """

    source: tuple[int, ...]
    owners: tuple[int, ...]
    favoured: tuple[bool, ...]
    target: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        """Source and target together."""
        return len(self.source) + len(self.target)


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded arrays of B examples.

    Attributes:
        source: (B, N) token ids.
        mask: (B, N) 1 where a token is.
        owners: (B, N) the fact of each source token; F where none.
        favoured: (B, F) share of the wanted attention mass: equal parts over favoured facts.
        prefix: (B, T) what the decoder reads: the start token, then the labels but the last.
        labels: (B, T) token ids, -100 where padded.
    """

    source: NDArray[np.int64]
    mask: NDArray[np.int64]
    owners: NDArray[np.int64]
    favoured: NDArray[np.float32]
    prefix: NDArray[np.int64]
    labels: NDArray[np.int64]


def encode_pairs(pairs: Sequence[Pair], tokenizer: Any, limits: Limits) -> list[Example]:
    """Tokenise; a pair whose cut source has no favoured fact left is dropped."""
    if not pairs:
        return []
    flat = [text for pair in pairs for text in pair.texts]
    parts = iter(_parts(flat, tokenizer))
    targets = tokenizer([pair.target for pair in pairs], add_special_tokens=False)["input_ids"]
    prefix = tokenizer(SOURCE_PREFIX, add_special_tokens=False)["input_ids"]
    end = tokenizer.eos_token_id
    examples = []
    for pair, target in zip(pairs, targets, strict=True):
        facts = [next(parts) for _ in pair.texts]
        source, owners, n_facts = _lay_out(facts, prefix, end, limits.source)
        favoured = pair.favoured[:n_facts]
        if any(favoured):
            cut = (*target, end)[: limits.target]
            examples.append(Example(source, owners, favoured, cut))
    return examples


def _parts(texts: Sequence[str], tokenizer: Any) -> Iterator[tuple[list[int], list[int]]]:
    """Each fact's own tokens (at least one) and those of the separator after it."""
    read = tokenizer(
        [text + SEPARATOR for text in texts], add_special_tokens=False, return_offsets_mapping=True
    )
    for text, ids, offsets in zip(texts, read["input_ids"], read["offset_mapping"], strict=True):
        n_own = sum(start < len(text) for start, _ in offsets)
        yield ids[:n_own] or [tokenizer.unk_token_id], ids[n_own:]


def _lay_out(
    facts: Sequence[tuple[list[int], list[int]]], prefix: Sequence[int], end: int, limit: int
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Source tokens, their owners, and how many facts fit."""
    source, owners, n_facts = list(prefix), [-1] * len(prefix), 0
    for own, separator in facts:
        if len(source) + len(own) + len(separator) >= limit:
            break
        source += [*own, *separator]
        owners += [n_facts] * len(own) + [-1] * len(separator)
        n_facts += 1
    return (*source, end), (*owners, -1), n_facts


def plan_epoch(
    examples: Sequence[Example], batch_tokens: int, seed: int, epoch: int
) -> list[list[int]]:
    """Indices of the examples of each batch, like lengths together, batches in random order.

    Args:
        examples: all of them.
        batch_tokens: most padded tokens of a batch, source and target; a longer example is alone.
        seed: of the run.
        epoch: passes before this one.
    """
    return training.plan_epoch([e.n_tokens for e in examples], batch_tokens, seed, epoch)


def collate(examples: Sequence[Example], pad_id: int) -> Batch:
    """Pad a batch; T5's decoder starts with the padding token."""
    n_facts = max(len(e.favoured) for e in examples)
    source = _padded([e.source for e in examples], pad_id)
    mask = _padded([(1,) * len(e.source) for e in examples], 0)
    owners = _padded([tuple(n_facts if o < 0 else o for o in e.owners) for e in examples], n_facts)
    favoured = _padded([tuple(map(int, e.favoured)) for e in examples], 0, n_facts)
    shares = (favoured / favoured.sum(axis=1, keepdims=True)).astype(np.float32)
    prefix = _padded([(pad_id, *e.target[:-1]) for e in examples], pad_id)
    labels = _padded([e.target for e in examples], IGNORED)
    return Batch(source, mask, owners, shares, prefix, labels)


def with_other_prefixes(batch: Batch, share: float, rng: np.random.Generator) -> Batch:
    """The batch with some decoders reading the prefix of the next example in place of their own.

    Args:
        batch: of B examples; one alone has no other and stays as it is.
        share: of the examples, on average.
        rng: draws them.
    """
    chosen = rng.random(len(batch.prefix)) < share
    others = np.roll(batch.prefix, -1, axis=0)
    return replace(batch, prefix=np.where(chosen[:, None], others, batch.prefix))


def _padded(rows: Sequence[Sequence[int]], value: int, width: int = 0) -> NDArray[np.int64]:
    """(n, longest or ``width``), filled on the right."""
    padded = np.full((len(rows), width or max(map(len, rows))), value, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded
