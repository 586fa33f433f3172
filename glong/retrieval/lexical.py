"""BM25 over one memory's turns, their surroundings and their sessions, in one vocabulary."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lexicon"]

_K1, _B = 1.5, 0.75


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """Documents of one vocabulary, ready to be scored.

    Attributes:
        vocabulary: term -> number.
        scorers: one a collection of documents.
    """

    vocabulary: dict[str, int]
    scorers: tuple[Any, ...]

    @classmethod
    def of(cls, *collections: Sequence[Sequence[str]]) -> "Lexicon":
        """Index collections of documents, each a sequence of terms."""
        import bm25s

        # It sets its logger to DEBUG, so that every handler prints three lines an index.
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        vocabulary: dict[str, int] = {}
        scorers: list[Any] = []
        for documents in collections:
            ids = [[vocabulary.setdefault(t, len(vocabulary)) for t in one] for one in documents]
            if not any(ids):
                scorers.append(None)
                continue
            scorer = bm25s.BM25(k1=_K1, b=_B, method="lucene")
            corpus = (ids, dict(vocabulary))
            scorer.index(corpus, create_empty_token=False, show_progress=False)
            scorers.append(scorer)
        return cls(vocabulary, tuple(scorers))

    def scores(self, collection: int, terms: Sequence[str], n: int) -> NDArray[np.float32]:
        """(n,) BM25 of every document of a collection; a term counts once."""
        scorer = self.scorers[collection]
        known = len(scorer.vocab_dict) if scorer else 0
        numbers = {self.vocabulary.get(term, known) for term in terms}
        asked = sorted(number for number in numbers if number < known)
        if not asked:
            return np.zeros(n, np.float32)
        found: NDArray[np.float32] = scorer.get_scores_from_ids(asked)
        return found
