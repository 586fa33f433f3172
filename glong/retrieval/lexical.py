"""BM25 over one memory's turns, their surroundings and their sessions, in one vocabulary.

The scores of every term in every document are computed once, as a sparse matrix by columns (scipy);
a query adds up the columns of its terms. A common term's column is also kept dense, since adding a
whole row costs less than scattering its entries. The scores are those of ``bm25s`` (a test compares
them), which makes them document by document in Python, and so took most of the time of an index.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Lexicon", "Occurrences", "Postings", "numbered"]

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

_K1, _B = 1.5, 0.75
_COMMON = 8
"""A term in at least one of so many documents has a dense row."""


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """Terms in documents, each as often as it stands there.

    Attributes:
        documents: (n,) number of the document.
        terms: (n,) number of the term.
        n_documents: how many there are, those without a term too.
    """

    documents: Places
    terms: Places
    n_documents: int


def numbered(documents: Iterable[Sequence[str]], vocabulary: dict[str, int]) -> Occurrences:
    """Terms of each document by number; terms that are new get the next numbers."""
    lengths: list[int] = []
    found: list[int] = []
    for document in documents:
        lengths.append(len(document))
        found += [vocabulary.setdefault(term, len(vocabulary)) for term in document]
    owners = np.repeat(np.arange(len(lengths)), lengths)
    return Occurrences(owners, np.array(found, np.int64), len(lengths))


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """BM25 of each term in each document of one collection.

    Attributes:
        starts: (V + 1,) term i has the entries ``starts[i]`` to ``starts[i + 1]``.
        documents: (n,) document of each entry; a document once a term.
        scores: (n,) its share of the document's score.
        dense: term -> its row of ``rows``, of the common ones.
        rows: (m, D) scores of common terms in all documents.
        n_documents: D.
    """

    starts: Places
    documents: Places
    scores: Floats
    dense: dict[int, int]
    rows: Floats
    n_documents: int

    @classmethod
    def of(cls, found: Occurrences, n_terms: int) -> "Postings":
        """Score a collection: Lucene's BM25, idf = log(1 + (N - n + .5) / (n + .5))."""
        n = found.n_documents
        ones = np.ones(len(found.terms), np.float32)
        counts = sparse.csc_array((ones, (found.documents, found.terms)), shape=(n, n_terms))
        counts.sum_duplicates()
        starts, documents = counts.indptr.astype(np.int64), counts.indices.astype(np.int64)
        n_with = np.diff(starts)
        idf = np.log1p((n - n_with + 0.5) / (n_with + 0.5))
        lengths = np.bincount(found.documents, minlength=n)
        norms = _K1 * (1 - _B + _B * lengths / max(1e-9, lengths.mean() if n else 0))
        tf = counts.data / (counts.data + norms[documents])
        scores = (np.repeat(idf, n_with) * tf).astype(np.float32)
        common = np.flatnonzero(n_with * _COMMON >= max(1, n))
        rows = np.zeros((len(common), n), np.float32)
        for row, term in zip(rows, common, strict=True):
            span = slice(starts[term], starts[term + 1])
            row[documents[span]] = scores[span]
        numbers = {term: row for row, term in enumerate(common.tolist())}
        return cls(starts, documents, scores, numbers, rows, n)

    def score(self, terms: Iterable[int]) -> Floats:
        """(D,) sum over the terms."""
        total = np.zeros(self.n_documents, np.float32)
        for term in terms:
            row = self.dense.get(term)
            if row is None:
                span = slice(self.starts[term], self.starts[term + 1])
                total[self.documents[span]] += self.scores[span]
            else:
                total += self.rows[row]
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """Collections of documents in one vocabulary, ready to be asked.

    Attributes:
        vocabulary: term -> number.
        collections: each with its own documents.
    """

    vocabulary: dict[str, int]
    collections: tuple[Postings, ...]

    @classmethod
    def of(cls, vocabulary: dict[str, int], *collections: Occurrences) -> "Lexicon":
        """Score every collection."""
        n_terms = len(vocabulary)
        return cls(vocabulary, tuple(Postings.of(found, n_terms) for found in collections))

    def scores(self, terms: Iterable[str]) -> tuple[Floats, ...]:
        """For each collection (n_documents,) BM25 of its documents; a term counts once."""
        numbers = {self.vocabulary.get(term, -1) for term in terms} - {-1}
        asked = sorted(numbers)
        return tuple(collection.score(asked) for collection in self.collections)
