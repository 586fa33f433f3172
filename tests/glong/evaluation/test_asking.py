"""Asking one memory: order, tokens, what is missing, and that nothing is changed."""

from collections.abc import Sequence
from dataclasses import fields
from itertools import count, permutations

import numpy as np
import pytest

from glong.evaluation.asking import Asking, Judgement, ask_dialogue
from glong.evaluation.methods import ABLATION, DEFAULT_METHODS, FULL_CONTEXT, methods_by_name
from glong.evaluation.questions import Question
from glong.graph import MemoryGraph
from tests.glong.evaluation.memories import ENCODER, FACTS, QUESTIONS, TALK, memory, question

OWN = [QUESTIONS[0], QUESTIONS[1], QUESTIONS[3]]


def ask(
    questions: Sequence[Question] = OWN,
    methods: Sequence[str] = DEFAULT_METHODS,
    *,
    graph: MemoryGraph | None = None,
    user_speaker: str = "",
) -> list[Judgement]:
    ticks = count()
    asking = Asking(
        ks=(1, 3),
        user_speaker=user_speaker,
        clock=lambda: float(next(ticks)),
    )
    vectors = ENCODER.encode([q.text for q in questions])
    chosen = methods_by_name(tuple(methods), "locomo")
    return ask_dialogue(graph or memory(), questions, vectors, chosen, asking)


def test_every_question_is_answered_by_every_method_in_order() -> None:
    found = ask()
    pairs = [(judgement.question, judgement.method) for judgement in found]
    assert pairs == [(q, method) for q in OWN for method in DEFAULT_METHODS]
    assert all(judgement.latency_ms == 1000 for judgement in found if judgement.values)


def test_the_order_of_questions_cannot_matter() -> None:
    first = {(j.question.question_id, j.method): j.values for j in ask()}
    for order in permutations(OWN):
        assert {(j.question.question_id, j.method): j.values for j in ask(order)} == first


def test_asking_changes_nothing_in_the_memory() -> None:
    graph, before = memory(), memory()
    ask(methods=(*DEFAULT_METHODS, *ABLATION), graph=graph)
    for f in fields(graph):
        left, right = getattr(graph, f.name), getattr(before, f.name)
        same = np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right
        assert same, f.name


def test_a_gold_turn_that_is_not_indexed_counts_as_not_found() -> None:
    missing = question(7, "Which pet?", ("session_1", 0), ("session_9", 0), ("session_9", 1))
    (judgement,) = ask([missing], ["dense"])
    (whole,) = ask([question(7, "Which pet?", ("session_1", 0))], ["dense"])
    assert judgement.n_missing == 2
    assert judgement.values["recall_mean@3"] == pytest.approx(whole.values["recall_mean@3"] / 3)
    assert judgement.values["recall_all@3"] == 0


def test_user_turns_are_judged_alone() -> None:
    talk = [(s, "user" if i % 2 == 0 else "assistant", t) for i, (s, _, t) in enumerate(TALK)]
    both, none = ask(
        [
            question(0, "Which dog?", ("session_1", 0), ("session_1", 1)),
            question(1, "Which dog?", ("session_1", 1)),
        ],
        ["bm25"],
        graph=memory(talk, FACTS),
        user_speaker="user",
    )
    assert both.user_values["recall_all@3"] == 1.0  # all three user turns are within three
    assert none.user_values == {}


def test_the_whole_dialogue_has_more_tokens_than_what_is_retrieved() -> None:
    talk = [(f"{session}_{i}", speaker, text) for i in range(5) for session, speaker, text in TALK]
    found = ask(OWN[:1], graph=memory(talk, FACTS))
    tokens = {judgement.method: judgement.prompt_tokens for judgement in found}
    assert tokens[FULL_CONTEXT] == max(tokens.values())
    assert 0 < tokens["paper"] < tokens["bm25"] < tokens[FULL_CONTEXT]
