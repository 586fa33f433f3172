"""Ask every question of one memory by every method, and judge what is found.

All methods answer over the very same index and query vectors. Nothing is written: no ``touch``, so
``accessed_at`` stays and the order of questions cannot matter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
from numpy.typing import NDArray

from glong.evaluation.baselines import Found, Method, Ranker
from glong.evaluation.methods import PAPER_METHODS
from glong.evaluation.metrics import Answer, first_turns, judge
from glong.evaluation.questions import Question, TurnPlace
from glong.graph import MemoryGraph
from glong.prompting import estimate_tokens, memory_block
from glong.retrieval import MemoryIndex, Query, Scored
from glong.types import Hit, Vectors

__all__ = ["PROMPT_K", "Asking", "Judgement", "ask_dialogue"]

PROMPT_K = 3
"""Memories in the prompt whose tokens are counted: the default of the presets."""
NOT_INDEXED = -1
"""Stands for a gold turn that the memory does not have: no ranking can find it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How to ask and judge.

    Attributes:
        ks: cut-offs.
        user_speaker: the speaker whose turns are also judged alone; empty for none.
        clock: seconds, for the latency.
    """

    ks: tuple[int, ...]
    user_speaker: str
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one method made of one question.

    Attributes:
        question: what was asked.
        method: by whom.
        values: metric -> value; empty for ``full_context``.
        user_values: the same over the user's turns alone; empty where none is gold.
        turns: the first turns of the ranking, best first, as many as the largest cut-off.
        n_missing: gold turns that the memory does not have.
        prompt_tokens: of the memory block, or of the whole dialogue.
        latency_ms: of the ranking at the largest cut-off, without encoding; NaN without one.
    """

    question: Question
    method: str
    values: Mapping[str, float]
    user_values: Mapping[str, float]
    turns: tuple[TurnPlace, ...]
    n_missing: int
    prompt_tokens: int
    latency_ms: float


def ask_dialogue(
    graph: MemoryGraph,
    questions: Sequence[Question],
    vectors: Vectors,
    methods: Mapping[str, Method | None],
    asking: Asking,
) -> list[Judgement]:
    """Every question by every method, in their order.

    Args:
        graph: the memory of the dialogue.
        questions: all of this dialogue.
        vectors: (n_questions, dimension) of their texts.
        methods: by name; ``None`` for the whole dialogue.
        asking: how.
    """
    index = MemoryIndex.of(graph)
    rankers = {name: method and method(index) for name, method in methods.items()}
    memory = _Memory.of(graph, asking.user_speaker)
    judgements = []
    for question, vector in zip(questions, vectors, strict=True):
        query = Query(text=question.text, vector=vector, now_s=question.now_s)
        for name, ranker in rankers.items():
            if ranker is None:
                judgements.append(_full_context(memory, question, name))
            else:
                judgements.append(_judged(memory, question, name, (ranker, query), asking))
    return judgements


@dataclass(frozen=True, slots=True, eq=False)
class _Memory:
    """A graph, where its turns stand, which are the user's, and the tokens of all of them."""

    graph: MemoryGraph
    places: tuple[TurnPlace, ...]
    numbers: Mapping[TurnPlace, int]
    is_user: NDArray[np.bool_]
    n_tokens: int

    @classmethod
    def of(cls, graph: MemoryGraph, user_speaker: str) -> "_Memory":
        indices: list[int] = graph.turn_indices.tolist()
        places = tuple(zip(graph.turn_session_ids, indices, strict=True))
        lines = (f"{s}: {t}" for s, t in zip(graph.turn_speakers, graph.turn_texts, strict=True))
        return cls(
            graph,
            places,
            {place: number for number, place in enumerate(places)},
            np.array([bool(user_speaker) and s == user_speaker for s in graph.turn_speakers], bool),
            estimate_tokens("\n".join(lines)),
        )

    def gold(self, question: Question) -> frozenset[int]:
        """Numbers of the turns that answer; those that are missing count down from -1."""
        missing = NOT_INDEXED
        numbers = set()
        for place in question.gold:
            number = self.numbers.get(place, missing)
            missing -= number == missing
            numbers.add(number)
        return frozenset(numbers)


def _judged(
    memory: _Memory,
    question: Question,
    method: str,
    asked: tuple[Ranker, Query],
    asking: Asking,
) -> Judgement:
    ranker, query = asked
    largest = max(asking.ks)
    began_s = asking.clock()
    found = cache(ranker(query))  # each cut-off is asked once, whatever is judged of it
    found(largest)
    latency_ms = 1000.0 * (asking.clock() - began_s)
    answer = _turns_of(found)
    gold = memory.gold(question)
    user_gold = frozenset(number for number in gold if number >= 0 and memory.is_user[number])
    return Judgement(
        question=question,
        method=method,
        values=judge(answer, gold, asking.ks),
        user_values=judge(answer, user_gold, asking.ks, memory.is_user) if user_gold else {},
        turns=tuple(memory.places[turn] for turn in first_turns(answer, largest)),
        n_missing=sum(number < 0 for number in gold),
        prompt_tokens=_prompt_tokens(memory.graph, found(PROMPT_K), question.now_s, method),
        latency_ms=latency_ms,
    )


def _turns_of(found: Found) -> Answer:
    return lambda n_memories: [scored.turn for scored in found(n_memories)]


def _full_context(memory: _Memory, question: Question, method: str) -> Judgement:
    return Judgement(
        question=question,
        method=method,
        values={},
        user_values={},
        turns=(),
        n_missing=0,
        prompt_tokens=memory.n_tokens,
        latency_ms=float("nan"),
    )


def _prompt_tokens(graph: MemoryGraph, found: Sequence[Scored], now_s: float, method: str) -> int:
    """Tokens of the memory block as an answer would have it; the paper's has no ages."""
    now = _EPOCH if np.isnan(now_s) else _EPOCH + timedelta(seconds=now_s)
    hits = [
        Hit(
            graph.turn(scored.turn),
            graph.turn_session_ids[scored.turn],
            tuple(graph.edge(edge) for edge in scored.edges),
            scored.score,
        )
        for scored in found
    ]
    return estimate_tokens(memory_block(hits, now=now, ages=method not in PAPER_METHODS))
