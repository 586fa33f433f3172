"""The largest of many values."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["largest"]


def largest(values: NDArray[np.floating], n: int) -> NDArray[np.intp]:
    """Positions of the ``n`` largest values, best first, ties in order of position."""
    if len(values) <= n:
        return np.argsort(-values, kind="stable")
    least = np.partition(values, len(values) - n)[len(values) - n]
    enough = np.flatnonzero(values >= least)
    return enough[np.argsort(-values[enough], kind="stable")[:n]]
