"""Memories of any shape for property tests: many scripts, missing times, no facts, one turn."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from glong.graph import MemoryGraph
from glong.retrieval import MemoryIndex, Query
from tests.glong.evaluation.memories import DAY_S, START_S, memory

_WORDS = st.sampled_from(
    [
        "dog", "Leipzig", "yesterday", "When", "I", "my", "Mira", "Tom", "May", "2023", "the", "?",
        "猫が好き", "小明", "Мария", "чай", "🐕", "नमस्ते", "grilled", "courgettes", "last", "week",
        "how many",
    ]
)  # fmt: skip
TEXTS = st.lists(_WORDS, max_size=6).map(" ".join)
_NAMES = st.sampled_from(["Mira", "Tom", "Pixel", "Leipzig", "Oslo", "小明", "a dog"])
_RELATIONS = st.sampled_from(["likes", "live_in_citystatecountry", "has_pet", "not_likes"])
_SPEAKERS = st.sampled_from(["Mira", "Tom", "小明", "Speaker 1", "Speaker 2", "..."])


@st.composite
def memories(draw: st.DrawFn, max_turns: int = 8) -> MemoryGraph:
    """A graph; sessions follow one another, a third of the turns has no time."""
    n = draw(st.integers(0, max_turns))
    starts = sorted(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    talk = [(f"session_{start}", draw(_SPEAKERS), draw(TEXTS)) for start in starts]
    facts = []
    if n:
        fact = st.tuples(st.integers(0, n - 1), _NAMES, _RELATIONS, _NAMES)
        facts = draw(st.lists(fact, max_size=8))
    no_time = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), int) == 0
    times = START_S + DAY_S * np.array(starts, float)
    graph = memory(talk, facts)
    turn_times = np.where(no_time, np.nan, times)
    return replace(
        graph,
        turn_times_s=turn_times,
        created_s=turn_times[graph.edge_turn],
        accessed_s=turn_times[graph.edge_turn],
    )


def contents(value: Any) -> Iterator[bytes]:
    """Every array and text that an index or a query holds, down to BM25 scores and the graph."""
    if isinstance(value, np.ndarray):
        yield value.tobytes()
    elif isinstance(value, dict):
        for key, one in value.items():
            yield str(key).encode()
            yield from contents(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from contents(one)
    elif is_dataclass(value):
        for field in fields(value):
            yield from contents(getattr(value, field.name))
    else:
        yield str(value).encode()


def snapshot(*values: MemoryIndex | Query) -> list[bytes]:
    return [one for value in values for one in contents(value)]
