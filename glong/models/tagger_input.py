"""Turns as word pieces with the places of words, for the tagger's training and inference alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from glong.models.tagger_net import WordBatch
from glong.models.tagger_text import WordPair

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Pieces", "as_pieces", "pad"]

_PIECES_PER_WORD = 6
"""A longer word (an address, a line of code) is cut there."""
_MOST_PIECES = 512
"""Of one pass: MiniLM has as many places."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """One pair as numbers: see :class:`~glong.models.tagger_net.WordBatch`."""

    ids: list[int]
    n_before: int
    first: list[int]
    last: list[int]


def as_pieces(tokenizer: "PreTrainedTokenizerBase", pairs: Sequence[WordPair]) -> list[Pieces]:
    """Word pieces of each pair: begin, turn before, separator, turn, separator."""
    words = sorted({word for pair in pairs for word in (*pair.before, *pair.turn)})
    unknown = [tokenizer.unk_token_id]
    known = dict(zip(words, _ids(tokenizer, words), strict=True)) if words else {}
    begin, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    found = []
    for pair in pairs:
        ids, first, last = [begin], [], []
        read = (*pair.before, *pair.turn)
        # Words of many pieces, such as rules of "=" or addresses, must not push others out.
        most = min(_PIECES_PER_WORD, (_MOST_PIECES - 3) // max(1, len(read)))
        for number, word in enumerate(read):
            if number == pair.n_before:
                ids.append(end)
            first.append(len(ids))
            ids += known[word][:most] or unknown
            last.append(len(ids) - 1)
        n_before = first[pair.n_before] if pair.turn else len(ids)
        found.append(Pieces([*ids, end], n_before, first, last))
    return found


def _ids(tokenizer: "PreTrainedTokenizerBase", words: list[str]) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(words, add_special_tokens=False)["input_ids"]
    return ids


def pad(batch: Sequence[Pieces], pad_id: int) -> WordBatch:
    """Padded tensors of a batch; at least one word wide."""
    n_pieces = max(len(one.ids) for one in batch)
    n_words = max(1, max(len(one.first) for one in batch))
    shape = (len(batch), n_pieces)
    ids = torch.full(shape, pad_id)
    types, attention = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    first, last = (torch.zeros((len(batch), n_words), dtype=torch.long) for _ in range(2))
    is_word = torch.zeros((len(batch), n_words), dtype=torch.bool)
    for row, one in enumerate(batch):
        ids[row, : len(one.ids)] = torch.tensor(one.ids)
        types[row, one.n_before : len(one.ids)] = 1
        attention[row, : len(one.ids)] = 1
        first[row, : len(one.first)] = torch.tensor(one.first, dtype=torch.long)
        last[row, : len(one.last)] = torch.tensor(one.last, dtype=torch.long)
        is_word[row, : len(one.first)] = True
    return WordBatch(ids, types, attention, first, last, is_word)
