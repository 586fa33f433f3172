"""The loss of a batch: spans, and for each labelled span its relation, denial, subject and verb."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from glong.models.tagger_input import pad
from glong.models.tagger_net import MAX_WIDTH, TaggerNet
from jobs.tagger.targets import UNKNOWN, Example

__all__ = ["batch_loss"]

_POSITIVE = 2.0
"""Factor of the few cells that are objects, beside the hundreds of a turn that are not."""


def batch_loss(
    net: TaggerNet, batch: Sequence[Example], pad_id: int, relations_only: bool = False
) -> Tensor:
    """Mean loss a turn, a scalar with gradients.

    Args:
        net: in training mode or not.
        batch: at least one example.
        pad_id: fills word pieces.
        relations_only: leave the span head out; what a teacher of relations learns.
    """
    inputs = pad([one.pieces for one in batch], pad_id)
    words = net.words(inputs)
    labels = _labels(batch, inputs.is_word)
    total = words.new_zeros(())
    if not relations_only:
        logits = net.span_logits(words)
        cells = functional.binary_cross_entropy_with_logits(
            logits, labels.is_object, reduction="none"
        )
        total = total + (cells * labels.counts * (1 + (_POSITIVE - 1) * labels.is_object)).sum()
    if len(labels.spans):
        total = total + _span_loss(net, words, inputs.is_word, labels)
    return total / len(batch)


@dataclass(frozen=True, slots=True)
class _Labels:
    """Shapes as in :mod:`glong.models.tagger_net`; ``counts`` is 0 where nothing is known."""

    is_object: Tensor
    counts: Tensor
    spans: Tensor
    relation: Tensor
    denied: Tensor
    subject: Tensor
    trigger: Tensor


def _labels(batch: Sequence[Example], is_word: Tensor) -> _Labels:
    n_rows, n = is_word.shape
    is_object = torch.zeros((n_rows, n, MAX_WIDTH))
    ends = torch.arange(n).unsqueeze(1) + torch.arange(MAX_WIDTH)
    inside = ends.unsqueeze(0) < is_word.sum(1).view(-1, 1, 1)
    counts = inside.float() * torch.tensor([float(one.is_complete) for one in batch]).view(-1, 1, 1)
    rows = []
    for row, one in enumerate(batch):
        for t in one.targets:
            is_object[row, t.first, t.last - t.first] = 1.0
            if not one.is_complete:
                # Another cut of the same words is wrong; about other words nothing is known.
                starts = torch.arange(n).unsqueeze(1)
                overlaps = (starts <= t.last) & (ends >= t.first)
                counts[row] = torch.maximum(counts[row], (overlaps & inside[row]).float())
            rows.append((row, t))
    targets = [t for _, t in rows]
    spans = torch.tensor([(row, t.first, t.last) for row, t in rows], dtype=torch.long)
    return _Labels(
        is_object,
        counts,
        spans.view(-1, 3),
        torch.tensor([t.relation for t in targets], dtype=torch.long),
        torch.tensor([float(t.is_denied) for t in targets]),
        torch.tensor([t.subject for t in targets], dtype=torch.long).view(-1, 2),
        torch.tensor([t.trigger for t in targets], dtype=torch.long).view(-1, 2),
    )


def _span_loss(net: TaggerNet, words: Tensor, is_word: Tensor, labels: _Labels) -> Tensor:
    """Sum over the labelled spans."""
    said = net.describe(words, is_word, labels.spans)

    def pointed(logits: Tensor, places: Tensor) -> Tensor:
        return functional.cross_entropy(
            logits.flatten(0, 1), places.flatten(), ignore_index=UNKNOWN, reduction="sum"
        )

    total = functional.cross_entropy(said.relation, labels.relation, reduction="sum")
    total = total + functional.binary_cross_entropy_with_logits(
        said.denied, labels.denied, reduction="sum"
    )
    return total + pointed(said.subject, labels.subject) + pointed(said.trigger, labels.trigger)
