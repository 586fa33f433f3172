"""The tagger's network: MiniLM, and heads that point at words.

One pass reads a turn with the turn before it. A span head says which words are the object of a
fact; for each such span others say its relation, whether it is denied, and which words are its
subject and its verb. Knows nothing of text, relations' names or files.

Shapes: B turns, T word pieces, N words (those of the turn before come first), S spans, H hidden.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["MAX_WIDTH", "SpanOutputs", "TaggerNet", "WordBatch"]

MAX_WIDTH = 10
"""The most words of an object."""
_SPAN, _POINT = 128, 96


@dataclass(frozen=True, slots=True)
class WordBatch:
    """Padded input.

    Attributes:
        input_ids: (B, T) word pieces.
        token_types: (B, T) 0 for the turn before, 1 for the turn.
        attention: (B, T) 1 where there is a piece.
        first: (B, N) place of each word's first piece; 0 is padding.
        last: (B, N) place of each word's last piece.
        is_word: (B, N) whether there is a word.
    """

    input_ids: Tensor
    token_types: Tensor
    attention: Tensor
    first: Tensor
    last: Tensor
    is_word: Tensor


@dataclass(frozen=True, slots=True)
class SpanOutputs:
    """What the heads say of S spans.

    Attributes:
        relation: (S, n_relations) logits.
        denied: (S,) logits.
        subject: (S, 2, N + 1) logits of first and last word; place 0 is the speaker.
        trigger: (S, 2, N + 1) logits of first and last word; place 0 is none.
    """

    relation: Tensor
    denied: Tensor
    subject: Tensor
    trigger: Tensor


class TaggerNet(nn.Module):
    """Encoder and heads; ``n_relations`` counts the open class, which is 0."""

    def __init__(self, encoder: nn.Module, hidden: int, n_relations: int, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.start = nn.Linear(hidden, _SPAN)
        self.end = nn.Linear(hidden, _SPAN)
        self.bilinear = nn.Linear(_SPAN, _SPAN)
        self.start_bias = nn.Linear(hidden, 1)
        self.end_bias = nn.Linear(hidden, 1)
        self.width = nn.Parameter(torch.zeros(MAX_WIDTH))
        self.span = nn.Sequential(nn.Linear(4 * hidden, hidden), nn.GELU(), nn.Dropout(dropout))
        self.relation = nn.Linear(hidden, n_relations)
        self.denied = nn.Linear(hidden, 1)
        self.queries = nn.Linear(hidden, 4 * _POINT)
        self.keys = nn.Linear(hidden, 4 * _POINT)

    def words(self, batch: WordBatch) -> Tensor:
        """(B, N + 1, H): the whole turn's vector, then each word's first and last piece, mean."""
        output: Any = self.encoder(
            input_ids=batch.input_ids,
            token_type_ids=batch.token_types,
            attention_mask=batch.attention,
        )
        pieces: Tensor = self.dropout(output.last_hidden_state)

        def at(places: Tensor) -> Tensor:
            return pieces.gather(1, places.unsqueeze(-1).expand(-1, -1, pieces.shape[-1]))

        words = (at(batch.first) + at(batch.last)) / 2
        return torch.cat([pieces[:, :1], words], 1)

    def span_logits(self, words: Tensor) -> Tensor:
        """(B, N, MAX_WIDTH): logit that an object begins at word n and has so many words + 1."""
        words = words[:, 1:]
        n = words.shape[1]
        start, end = self.bilinear(self.start(words)), self.end(words)
        scores = start @ end.transpose(1, 2) / _SPAN**0.5
        scores = scores + self.start_bias(words) + self.end_bias(words).transpose(1, 2)
        wide = nn.functional.pad(scores, (0, MAX_WIDTH), value=-30.0)
        steps = torch.arange(n).unsqueeze(1) + torch.arange(MAX_WIDTH)
        banded = wide.gather(2, steps.unsqueeze(0).expand(words.shape[0], -1, -1))
        return banded + self.width

    def describe(self, words: Tensor, is_word: Tensor, spans: Tensor) -> SpanOutputs:
        """Relation, denial, subject and trigger of spans.

        Args:
            words: from :meth:`words`.
            is_word: (B, N).
            spans: (S, 3) row of the batch, first word, last word.
        """
        row, first, last = spans[:, 0], spans[:, 1], spans[:, 2]
        totals = nn.functional.pad(words[:, 1:].cumsum(1), (0, 0, 1, 0))
        n_words = (last - first + 1).unsqueeze(1)
        mean = (totals[row, last + 1] - totals[row, first]) / n_words
        parts = [words[row, first + 1], words[row, last + 1], mean, words[row, 0]]
        span = self.span(torch.cat(parts, -1))
        queries = self.queries(span).view(-1, 4, _POINT)
        keys = self.keys(words).view(words.shape[0], words.shape[1], 4, _POINT)[row]
        pointers = torch.einsum("scp,sncp->scn", queries, keys) / _POINT**0.5
        allowed = nn.functional.pad(is_word, (1, 0), value=True)[row].unsqueeze(1)
        pointers = pointers.masked_fill(~allowed, -30.0)
        return SpanOutputs(
            self.relation(span), self.denied(span).squeeze(-1), pointers[:, :2], pointers[:, 2:]
        )
