"""Small memories and benchmark records, written for these tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glong.evaluation.questions import Question
from glong.graph import MemoryGraph
from glong.models.fake import FakeEncoder
from glong.retrieval import Query

DAY_S = 86_400.0
START_S = 1_683_554_160.0  # 2023-05-08 13:56 UTC
ENCODER = FakeEncoder(16)

Said = tuple[str, str, str]
"""Session, speaker, text."""
Fact = tuple[int, str, str, str]
"""Number of the turn, subject, relation, object."""

TALK: list[Said] = [
    ("session_1", "Mira", "My greyhound Pixel chewed the bookbinder's glue."),
    ("session_1", "Tom", "Poor dog! Is Pixel well?"),
    ("session_1", "Mira", "Yes, the vet in Leipzig saw her."),
    ("session_2", "Tom", "I grill courgettes on the balcony now."),
    ("session_2", "Mira", "With aubergines they are better."),
    ("session_2", "Tom", "I ran a marathon in Leipzig."),
]
FACTS: list[Fact] = [
    (0, "Mira", "has_pet", "Pixel"),
    (0, "Pixel", "chewed", "glue"),
    (2, "Pixel", "was_in", "Leipzig"),
    (3, "Tom", "grills", "courgettes"),
    (5, "Tom", "ran", "marathon"),
    (5, "marathon", "was_in", "Leipzig"),
]


def memory(talk: Sequence[Said] = TALK, facts: Sequence[Fact] = FACTS) -> MemoryGraph:
    """The graph of what was said; each session a day after the one before."""
    names = list(dict.fromkeys(name for _, s, _, o in facts for name in (s, o)))
    sessions = list(dict.fromkeys(session for session, _, _ in talk))
    times = [START_S + DAY_S * sessions.index(session) for session, _, _ in talk]
    counts: dict[str, int] = {}
    indices = []
    for session, _, _ in talk:
        indices.append(counts.get(session, 0))
        counts[session] = indices[-1] + 1
    n = len(facts)
    return MemoryGraph(
        entity_ids=tuple(f"n{i}" for i in range(len(names))),
        entity_names=tuple(names),
        entity_aliases=((),) * len(names),
        entity_vectors=ENCODER.encode(names),
        edge_ids=tuple(f"e{i}" for i in range(n)),
        heads=np.array([names.index(s) for _, s, _, _ in facts], np.int32),
        tails=np.array([names.index(o) for _, _, _, o in facts], np.int32),
        subjects=tuple(s for _, s, _, _ in facts),
        relations=tuple(r for _, _, r, _ in facts),
        objects=tuple(o for _, _, _, o in facts),
        edge_vectors=ENCODER.encode([f"{s} {r} {o}" for _, s, r, o in facts]),
        weights=np.ones(n, np.float32),
        scores=np.ones(n),
        created_s=np.array([times[t] for t, _, _, _ in facts], float),
        accessed_s=np.array([times[t] for t, _, _, _ in facts], float),
        edge_turn=np.array([t for t, _, _, _ in facts], np.int32),
        turn_ids=tuple(f"t{i}" for i in range(len(talk))),
        turn_session_ids=tuple(session for session, _, _ in talk),
        turn_indices=np.array(indices, np.int32),
        turn_speakers=tuple(speaker for _, speaker, _ in talk),
        turn_texts=tuple(text for _, _, text in talk),
        turn_times_s=np.array(times, float),
        turn_vectors=ENCODER.encode([f"{speaker}: {text}" for _, speaker, text in talk]),
    )


def query(text: str) -> Query:
    return Query(text=text, vector=ENCODER.encode([text])[0], now_s=START_S + 9 * DAY_S)


def question(number: int, text: str, *gold: tuple[str, int], **values: Any) -> Question:
    made: dict[str, Any] = {
        "question_id": f"conv-1/{number}",
        "dialogue_id": "conv-1",
        "category": "single_hop",
        "text": text,
        "now_s": START_S + 9 * DAY_S,
        "gold": gold,
    }
    return Question(**(made | values))


QUESTIONS = [
    question(0, "Which pet has Mira?", ("session_1", 0), tuned_on=True),
    question(1, "Who was in Leipzig?", ("session_1", 2), ("session_2", 2), category="multi_hop"),
    question(2, "What does Tom grill?", ("session_2", 0), dialogue_id="conv-2"),
    question(3, "What does Tom sell?", ("session_2", 0), category="adversarial", headline=False),
]


def locomo_sample(sample_id: str, questions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A record of LoCoMo: two sessions of three turns."""
    turns: dict[str, list[dict[str, str]]] = {"session_1": [], "session_2": []}
    for session, speaker, text in TALK:
        number = len(turns[session]) + 1
        dia_id = f"D{session[-1]}:{number}"
        turns[session].append({"speaker": speaker, "dia_id": dia_id, "text": text})
    dates = {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_2_date_time": "1:56 pm on 9 May, 2023",
    }
    return {"sample_id": sample_id, "conversation": {**turns, **dates}, "qa": list(questions)}


def qa(text: str, *evidence: str, category: int = 4) -> dict[str, Any]:
    return {"question": text, "answer": "?", "evidence": list(evidence), "category": category}
