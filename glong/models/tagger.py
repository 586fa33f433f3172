"""The tagger as an extractor: sessions in, triplets out, one pass of MiniLM over each turn.

Knows how turns are cut, how spans become triplets, and where weights lie. Knows nothing of training
data or of what comes after a triplet. One to two orders of magnitude faster than a decoder, since
it points at words where that writes them one by one.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glong.config import ExtractorSpec
from glong.errors import ModelError
from glong.ids import text_hash
from glong.models.extras import extra
from glong.models.sentence import minilm_folder, tokenizer_hash
from glong.models.shipped import MANIFEST, folder_of, is_shipped, verify
from glong.models.tagger_text import (
    Found,
    Passage,
    may_state,
    pair_of,
    passages,
    triplets_of,
)
from glong.rules import RULES
from glong.types import Extraction, Session, Triplet, Usage

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from glong.models.tagger_input import Pieces
    from glong.models.tagger_net import TaggerNet

__all__ = ["TaggerExtractor", "tagger_fingerprint", "tagger_folder"]

CONFIG, WEIGHTS = "config.json", "model.safetensors"
DECODING = "tagger-5"
"""Version of how turns are cut and spans become triplets: a part of the fingerprint."""
_BATCH_PIECES = 4096


class TaggerExtractor:
    """An :class:`glong.protocols.Extractor` without a language model.

    Args:
        net: the network, loaded.
        tokenizer: MiniLM's.
        classes: names of the relations; the first is the open class, empty.
        threshold: least probability of an object, 0 to 1.
        spec: bounds of the output.
        fingerprint: identity of all that.
    """

    def __init__(
        self,
        net: "TaggerNet",
        tokenizer: "PreTrainedTokenizerBase",
        classes: Sequence[str],
        threshold: float,
        spec: ExtractorSpec,
        fingerprint: str,
    ) -> None:
        self._net = net.eval()
        self._tokenizer = tokenizer
        self._classes = tuple(classes)
        self._threshold = threshold
        self._most = spec.max_triplets_per_turn
        self._fingerprint = fingerprint

    @classmethod
    def load(cls, spec: ExtractorSpec) -> "TaggerExtractor":
        """Load ``spec.model``: ``package:glong-tagger`` or the folder of a trained tagger.

        Raises:
            ConfigError: an extra or a package is missing, or there is no such model.
            ModelError: a file is missing or is not what the manifest says.
        """
        with extra("models"):
            from transformers import AutoTokenizer

            from glong.models.tagger_weights import load_net
        folder = tagger_folder(spec.model)
        verify(folder)
        settings = read_settings(folder)
        net = load_net(folder / WEIGHTS, len(settings["classes"]))
        tokenizer = AutoTokenizer.from_pretrained(str(minilm_folder()), local_files_only=True)
        fingerprint = tagger_fingerprint(spec)
        return cls(net, tokenizer, settings["classes"], settings["threshold"], spec, fingerprint)

    @property
    def fingerprint(self) -> str:
        """Identity of weights, decoding and bounds."""
        return self._fingerprint

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        """Extract the facts of each session; a turn about nobody is not read and gives none."""
        read = [list(filter(may_state, passages(session))) for session in sessions]
        every = [passage for one in read for passage in one]
        found, n_pieces = self._find(every)
        results, at = [], 0
        for one in read:
            triplets: list[Triplet] = []
            for passage, facts in zip(one, found[at : at + len(one)], strict=True):
                triplets += triplets_of(facts, passage, self._most)
            usage = Usage(sum(n_pieces[at : at + len(one)]), 0)
            results.append(Extraction(tuple(dict.fromkeys(triplets)), (), usage, len(one)))
            at += len(one)
        return results

    def _find(self, every: Sequence[Passage]) -> tuple[list[list[Found]], list[int]]:
        """The facts of each passage, and its word pieces; passages of like length together."""
        from glong.models.tagger_input import as_pieces

        pairs = [pair_of(passage) for passage in every]
        pieces = as_pieces(self._tokenizer, pairs)
        lengths = [len(one.ids) for one in pieces]
        found: list[list[Found]] = [[] for _ in every]
        order = sorted(range(len(every)), key=lengths.__getitem__)
        for batch in _batches(order, lengths):
            facts = self._forward([pieces[i] for i in batch], [pairs[i].n_before for i in batch])
            for i, one in zip(batch, facts, strict=True):
                found[i] = one
        return found, lengths

    def _forward(self, batch: "Sequence[Pieces]", n_before: Sequence[int]) -> list[list[Found]]:
        import torch

        from glong.models.tagger_input import pad

        pad_id: int = self._tokenizer.pad_token_id
        inputs = pad(batch, pad_id)
        found: list[list[Found]] = [[] for _ in batch]
        with torch.inference_mode():
            words = self._net.words(inputs)
            chances = self._net.span_logits(words).sigmoid()
            spans = _chosen(chances, inputs.is_word, n_before, self._threshold, self._most)
            if not spans:
                return found
            said = self._net.describe(words, inputs.is_word, torch.tensor(spans))
            certainties, relations = said.relation.softmax(1).max(1)
            denied = (said.denied > 0).tolist()
            subjects, triggers = (_pointed(logits) for logits in (said.subject, said.trigger))
        for k, (row, first, last) in enumerate(spans):
            fact = Found(
                (first, last), self._classes[int(relations[k])], denied[k], subjects[k],
                triggers[k], float(chances[row, first, last - first]), float(certainties[k]),
            )  # fmt: skip
            found[row].append(fact)
        return [sorted(facts, key=lambda fact: fact.object) for facts in found]


def _batches(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Neighbours in order of length, so many that a padded batch stays within its pieces."""
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * lengths[i] > _BATCH_PIECES:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _chosen(
    chances: Any, is_word: Any, n_before: Sequence[int], threshold: float, most: int
) -> list[tuple[int, int, int]]:
    """(row, first, last) of objects, likeliest first, none over words that another has."""
    import torch

    n_words = is_word.sum(1).tolist()
    row, first, width = torch.nonzero(chances > threshold, as_tuple=True)
    last = first + width
    ranked = sorted(
        zip(
            row.tolist(), (-chances[row, first, width]).tolist(), first.tolist(), last.tolist(),
            strict=True,
        )
    )  # fmt: skip
    taken: dict[int, list[tuple[int, int]]] = {}
    for which, _, begin, end in ranked:
        kept = taken.setdefault(which, [])
        crosses = begin < n_before[which] <= end
        is_free = all(end < a or begin > b for a, b in kept)
        if len(kept) < most and is_free and end < n_words[which] and not crosses:
            kept.append((begin, end))
    return [(which, *span) for which, kept in taken.items() for span in kept]


def _pointed(logits: Any) -> list[tuple[int, int] | None]:
    """First and last word that two pointers agree on, within six words; ``None`` for place 0."""
    import torch

    n = logits.shape[2]
    pairs = logits[:, 0].unsqueeze(2) + logits[:, 1].unsqueeze(1)
    steps = torch.arange(n).unsqueeze(0) - torch.arange(n).unsqueeze(1)
    allowed = (steps >= 0) & (steps < 6)
    allowed[0, 1:] = False  # the speaker is no word
    best = pairs.masked_fill(~allowed, -1e9).flatten(1).argmax(1).tolist()
    return [None if not place else (place // n - 1, place % n - 1) for place in best]


def tagger_folder(name: str) -> Path:
    """Folder of a tagger: shipped in the package, or given by path.

    Raises:
        ConfigError: the package has no such model.
        ModelError: the folder is no trained tagger.
    """
    folder = folder_of(name) if is_shipped(name) else Path(name)
    if not (folder / MANIFEST).is_file():
        raise ModelError(
            f"extractor.model is {name!r}, which is no trained tagger (it has no {MANIFEST}).",
            hint="Name package:glong-tagger, or the folder that jobs/train_tagger.py wrote.",
        )
    return folder


def read_settings(folder: Path) -> dict[str, Any]:
    """The tagger's own settings: ``classes`` and ``threshold``."""
    settings: dict[str, Any] = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    return settings


def tagger_fingerprint(spec: ExtractorSpec) -> str:
    """Identity of weights (by the manifest), tokeniser, decoding, patterns and bounds.

    Raises:
        ConfigError: the package has no such model, or MiniLM's is not installed.
        ModelError: the folder is no trained tagger.
    """
    from transformers import AutoTokenizer

    manifest = (tagger_folder(spec.model) / MANIFEST).read_text(encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(str(minilm_folder()), local_files_only=True)
    bounds = str(spec.max_triplets_per_turn)
    return text_hash("tagger", DECODING, RULES, manifest, tokenizer_hash(tokenizer), bounds)
