"""Who and when a query names, and which turns of a memory that concerns. Pure.

Shapes: T turns, C candidates.
"""

import re
import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glong.retrieval.index import MemoryIndex
from glong.retrieval.query import Query
from glong.retrieval.terms import is_unspaced, proper_names
from glong.retrieval.times import time_spans

__all__ = ["Asked"]

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

_BREAK = re.compile(r"[\s,;:!?()\[\]\"/\u00ab\u00bb\u060c\u061f\u0964\u201c-\u201e\u3001\u3002]+")
_DAY_S = 86_400.0
_TOLD_LATER_DAYS, _TOLD_EARLIER_DAYS = 14.0, 3.0
"""How fast a turn's claim to a span of time fades after its end, and before its start."""
_HALVES_AT = float(np.log(2))
"""The claim is one half at so many times the one or the other."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Names and times of a query.

    Attributes:
        speakers: (T,) of each speaker that it names, what they said.
        named: turns, ascending, of each other name that it shares with any.
        spans: (start, end) of times that it names, seconds since 1970 UTC.
    """

    speakers: list[NDArray[np.bool_]]
    named: list[Places]
    spans: list[tuple[float, float]]

    @classmethod
    def of(cls, index: MemoryIndex, query: Query) -> "Asked":
        """Read the query for a memory."""
        text = unicodedata.normalize("NFKC", query.text).replace("\u2019", "'").casefold()
        found = (word.strip(".'-").removesuffix("'s") for word in _BREAK.split(text))
        words = f" {' '.join(found)} "
        speakers = [
            who
            for name, who in index.speakers.items()
            if (name if is_unspaced(name) else f" {name} ") in words
        ]
        others = sorted(proper_names(query.text) - index.speakers.keys())
        named = [index.names[name] for name in others if name in index.names]
        return cls(speakers, named, time_spans(query.text, query.now_s))

    def speaks(self, turns: Places) -> Floats:
        """(C,) whether the query names who speaks."""
        speaks = np.zeros(len(turns), np.bool_)
        for who in self.speakers:
            speaks |= who[turns]
        return speaks.astype(np.float32)

    def shares(self, turns: Places) -> Floats:
        """(C,) how many other names a turn shares with the query."""
        shared = np.zeros(len(turns), np.float32)
        for named in self.named:
            place = np.searchsorted(named, turns)
            shared += np.append(named, -1)[place] == turns
        return shared

    def said_then(self, index: MemoryIndex) -> NDArray[np.bool_]:
        """(T,) whether ``dates`` is one half or more, at less cost for a whole memory."""
        times = index.graph.turn_times_s
        near = np.zeros(len(times), np.bool_)
        for start, end in self.spans:
            near |= (times >= start - _HALVES_AT * _TOLD_EARLIER_DAYS * _DAY_S) & (
                times <= end + _HALVES_AT * _TOLD_LATER_DAYS * _DAY_S
            )
        return near

    def dates(self, index: MemoryIndex, turns: Places) -> Floats:
        """(C,) 1 for a turn of the time that the query names, less with the distance to it."""
        if not self.spans:
            return np.zeros(len(turns), np.float32)
        times = index.graph.turn_times_s[turns]
        best = np.zeros(len(turns))
        for start, end in self.spans:
            late = np.maximum(0, times - end) / (_TOLD_LATER_DAYS * _DAY_S)
            early = np.maximum(0, start - times) / (_TOLD_EARLIER_DAYS * _DAY_S)
            best = np.fmax(best, np.exp(-late - early))
        return best.astype(np.float32)
