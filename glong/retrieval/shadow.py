"""Cosines of a query with every turn and triplet of a memory, at the cost of a few numbers each.

A small memory is asked exactly. In a large one a pass over all vectors costs more than the rest of
a query (15 MB at 10,000), so vectors are projected onto the directions in which this memory's turns
differ most; the cosines of the projections only pick candidates, whose exact ones follow.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shadow"]

Floats = NDArray[np.float32]

_EXACT_UP_TO = 3_000
"""Vectors of turns and triplets together that are asked exactly."""
_N_DIRECTIONS = 32
_SAMPLE = 4_096
"""Turns that the directions are taken from, evenly over the memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Shadow:
    """Vectors or their projections.

    Attributes:
        directions: (d, p) orthonormal, or ``None`` where vectors are whole.
        rows: whole vectors, (T, d) and (E, d); or projections in one array, (T + E, p), since one
            product takes less time than two.
        n_turns: T.
    """

    directions: Floats | None
    rows: tuple[Floats, ...]
    n_turns: int

    @classmethod
    def of(cls, turns: Floats, edges: Floats) -> "Shadow":
        """Project the vectors of a large memory; keep those of a small one."""
        if len(turns) + len(edges) <= _EXACT_UP_TO or turns.shape[1] <= _N_DIRECTIONS:
            return cls.exact(turns, edges)
        sample = turns[:: max(1, len(turns) // _SAMPLE)].astype(np.float64)
        _, vectors = np.linalg.eigh(sample.T @ sample)
        directions = vectors[:, -_N_DIRECTIONS:].astype(np.float32)
        both = np.concatenate([turns @ directions, edges @ directions])
        return cls(directions, (both,), len(turns))

    @classmethod
    def exact(cls, turns: Floats, edges: Floats) -> "Shadow":
        """Keep the vectors."""
        return cls(None, (turns, edges), len(turns))

    @property
    def is_exact(self) -> bool:
        """Whether similarities are cosines, not nearly so."""
        return self.directions is None

    def similarities(self, query: Floats) -> tuple[Floats, Floats]:
        """(T,) and (E,) cosines of a unit vector (d,) with turns and edges, or nearly so."""
        if self.directions is None:
            turns, edges = (_product(rows, query) for rows in self.rows)
            return turns, edges
        both = _product(self.rows[0], query @ self.directions)
        return both[: self.n_turns], both[self.n_turns :]


def _product(rows: Floats, vector: NDArray[np.floating]) -> Floats:
    product: Floats = np.asarray(rows @ vector, np.float32)
    return product
