"""A memory too large to be asked exactly, made up so that it is like a real one where it counts.

Sessions have topics, turns share the words and the direction of theirs, and vectors spread over
directions as MiniLM's of LoCoMo do (two thirds of their length squared in 32 directions).
"""

import numpy as np
from numpy.typing import NDArray

from glong.graph import MemoryGraph
from glong.retrieval import Query

_N_TOPICS, _TURNS_PER_SESSION, _SPEAKERS = 60, 25, ("Mira", "Tom")
_RELATIONS = ("likes", "visited", "has_pet", "plans")
_START_S, _DAY_S = 1_683_554_160.0, 86_400.0


def _spread(random: np.random.Generator, n: int) -> NDArray[np.float32]:
    """(n, 384) random vectors of length 1 or so, shorter along later axes."""
    scales = (1 + np.arange(384)) ** -0.5
    scales /= np.linalg.norm(scales)
    return (random.standard_normal((n, 384)) * scales).astype(np.float32)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit


def long_talk(n_turns: int, seed: int = 0) -> MemoryGraph:
    """About a fact a turn: none, one or two."""
    random = np.random.default_rng(seed)
    session = np.arange(n_turns) // _TURNS_PER_SESSION
    topic = random.integers(0, _N_TOPICS, session[-1] + 1)[session]
    drawn = np.minimum(random.zipf(1.4, (n_turns, 12)), 800)
    texts = tuple(
        " ".join(f"t{of}x{word}" if i % 3 else f"c{word}" for i, word in enumerate(row))
        for of, row in zip(topic.tolist(), drawn.tolist(), strict=True)
    )
    turn_vectors = _unit(0.7 * _spread(random, _N_TOPICS)[topic] + _spread(random, n_turns))
    edge_turn = np.repeat(np.arange(n_turns), random.integers(0, 3, n_turns)).astype(np.int32)
    n = len(edge_turn)
    of_speaker = random.random(n) < 0.6
    subjects = [
        _SPEAKERS[turn % 2] if speaks else f"Topic{topic[turn]}"
        for turn, speaks in zip(edge_turn.tolist(), of_speaker.tolist(), strict=True)
    ]
    objects = [texts[turn].split()[i % 12] for i, turn in enumerate(edge_turn.tolist())]
    names = tuple(dict.fromkeys([*subjects, *objects]))
    number = {name: i for i, name in enumerate(names)}
    times_s = _START_S + _DAY_S * session
    return MemoryGraph(
        entity_ids=names,
        entity_names=names,
        entity_aliases=((),) * len(names),
        entity_vectors=_unit(_spread(random, len(names))),
        edge_ids=tuple(map(str, range(n))),
        heads=np.array([number[name] for name in subjects], np.int32),
        tails=np.array([number[name] for name in objects], np.int32),
        subjects=tuple(subjects),
        relations=tuple(_RELATIONS[i % len(_RELATIONS)] for i in range(n)),
        objects=tuple(objects),
        edge_vectors=_unit(turn_vectors[edge_turn] + 0.8 * _spread(random, n)),
        weights=random.uniform(0.1, 1, n).astype(np.float32),
        scores=np.ones(n),
        created_s=times_s[edge_turn],
        accessed_s=times_s[edge_turn],
        edge_turn=edge_turn,
        turn_ids=tuple(map(str, range(n_turns))),
        turn_session_ids=tuple(map(str, session.tolist())),
        turn_indices=(np.arange(n_turns) % _TURNS_PER_SESSION).astype(np.int32),
        turn_speakers=tuple(_SPEAKERS[turn % 2] for turn in range(n_turns)),
        turn_texts=texts,
        turn_times_s=times_s,
        turn_vectors=turn_vectors,
    )


def questions(graph: MemoryGraph, n: int, seed: int = 1) -> list[Query]:
    """Each about three words of a turn, and near its vector."""
    random = np.random.default_rng(seed)
    asked = random.choice(graph.n_turns, n, replace=False)
    vectors = _unit(graph.turn_vectors[asked] + 0.9 * _spread(random, n))
    now_s = float(graph.turn_times_s[-1]) + _DAY_S
    found = []
    for turn, vector in zip(asked.tolist(), vectors, strict=True):
        words = " ".join(random.choice(graph.turn_texts[turn].split(), 3).tolist())
        speaker = graph.turn_speakers[turn]
        text = f"What did {speaker} say about {words}?"
        found.append(Query(text=text, vector=vector, now_s=now_s))
    return found
