"""The recipes of METHOD section 5, by hand and on the real data."""

import math
from pathlib import Path

import numpy as np
import pytest

from glong.evaluation.baselines import (
    BASELINE_SETTINGS,
    BM25,
    STOP_WORDS,
    BaselineSettings,
    bm25,
    by_score,
    dense,
    neighbour_sum,
    stem,
    tokens,
    turn_key,
    turns_hybrid,
)
from glong.evaluation.metrics import judge
from glong.evaluation.questions import load_benchmark
from glong.retrieval import MemoryIndex, Query
from glong.sources import Reader
from glong.types import Session
from tests.glong.evaluation.memories import ENCODER, TALK, memory, query

LOCOMO = BASELINE_SETTINGS["locomo"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("grilling", "grill"), ("grilled", "grill"), ("parties", "party"), ("dishes", "dish"),
        ("dogs", "dog"), ("quickly", "quick"), ("is", "is"), ("red", "red"), ("sing", "sing"),
    ],
)  # fmt: skip
def test_stems(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_tokens_are_lower_case_without_stop_words() -> None:
    assert tokens("What did Mira's DOGS eat in 2023?") == ["mira'", "dog", "eat", "2023"]
    assert 90 <= len(STOP_WORDS) <= 130


def test_bm25_by_hand() -> None:
    scores = BM25(["red barn", "red red hair and barn owl", "blue sky"]).scores("red owl")
    average = (2 + 5 + 2) / 3

    def part(n_containing: int, frequency: int, length: int) -> float:
        idf = math.log(1 + (3 - n_containing + 0.5) / (n_containing + 0.5))
        norm = 1.5 * (1 - 0.75 + 0.75 * length / average)
        return idf * frequency * 2.5 / (frequency + norm)

    assert scores == pytest.approx([part(2, 1, 2), part(2, 2, 5) + part(1, 1, 5), 0.0])


def test_bm25_of_nothing_and_of_unknown_words() -> None:
    assert BM25([]).scores("red").shape == (0,)
    assert BM25(["", "the"]).scores("red the").tolist() == [0, 0]


def test_ties_go_to_the_earlier_turn() -> None:
    found = by_score(np.array([0.0, 2.0, 1.0, 2.0]))
    assert [scored.turn for scored in found(9)] == [1, 3, 2, 0]
    assert len(found(2)) == 2


def test_a_key_has_the_date_where_it_is_wanted() -> None:
    graph = memory()
    assert turn_key(graph, 3, dated=True) == f"9 May 2023 Tom: {TALK[3][2]}"
    assert turn_key(graph, 3, dated=False) == f"Tom: {TALK[3][2]}"


def test_neighbours_count_within_their_session_only() -> None:
    scores = np.array([1.0, 0.0, 0.0, 10.0, 0.0, 0.0])
    assert neighbour_sum(memory(), scores, 0.5).tolist() == [1, 0.5, 0, 10, 5, 0]


def test_bm25_finds_the_words_and_dense_the_cosine() -> None:
    index = MemoryIndex.of(memory())
    asked = query("Who grilled courgettes on a balcony?")
    assert bm25(LOCOMO)(index)(asked)(1)[0].turn == 3
    cosines = index.graph.turn_vectors @ asked.vector
    ranked = dense(index)(asked)(6)
    assert [scored.turn for scored in ranked] == np.argsort(-cosines, kind="stable").tolist()


def test_turns_hybrid_is_the_sum_of_its_parts() -> None:
    index = MemoryIndex.of(memory())
    asked = query("Which dog chewed glue?")
    words = np.zeros(6)
    for scored in bm25(LOCOMO)(index)(asked)(6):
        words[scored.turn] = scored.score
    cosines = (index.graph.turn_vectors @ asked.vector).astype(float)
    expected = neighbour_sum(index.graph, words / words.max() + 0.5 * cosines, 0.4)
    for scored in turns_hybrid(LOCOMO)(index)(asked)(6):
        assert scored.score == pytest.approx(expected[scored.turn])


def test_turns_hybrid_without_a_known_word_is_dense() -> None:
    index = MemoryIndex.of(memory())
    settings = BaselineSettings(dated=False, dense_share=1.0, neighbour_share=0.0)
    asked = query("Zucchini?")
    found = [method(index)(asked)(6) for method in (turns_hybrid(settings), dense)]
    assert [s.turn for s in found[0]] == [s.turn for s in found[1]]


@pytest.mark.data
@pytest.mark.slow
def test_bm25_on_real_locomo_agrees_with_the_published_row(data_dir: Path) -> None:
    path = str(data_dir / "locomo" / "locomo10.json.gz")
    talks: dict[str, list[Session]] = {}
    for item in Reader(path, "locomo"):
        assert isinstance(item, Session)
        talks.setdefault(item.dialogue_id, []).append(item)
    rankers, places = {}, {}
    for name, sessions in talks.items():
        said = [(s.session_id, t.speaker, t.text) for s in sessions for t in s.turns]
        days = {s.session_id: s.started_at.timestamp() for s in sessions if s.started_at}
        graph = memory(said, [])
        object.__setattr__(graph, "turn_times_s", np.array([days[s] for s, _, _ in said]))
        rankers[name] = bm25(LOCOMO)(MemoryIndex.of(graph))
        numbers = zip(graph.turn_session_ids, graph.turn_indices.tolist(), strict=True)
        places[name] = {place: number for number, place in enumerate(numbers)}
    rows = []
    for asked in load_benchmark("locomo", path).questions:
        if asked.headline:
            found = rankers[asked.dialogue_id](
                Query(text=asked.text, vector=ENCODER.encode([""])[0], now_s=asked.now_s)
            )
            gold = frozenset(places[asked.dialogue_id][place] for place in asked.gold)
            rows.append(judge(lambda n, f=found: [s.turn for s in f(n)], gold, (3, 5, 10, 20)))
    measured = [np.mean([row[f"recall_mean@{k}"] for row in rows]) for k in (3, 5, 10, 20)]
    assert len(rows) == 1_536
    assert measured == pytest.approx([0.472, 0.538, 0.613, 0.676], abs=0.02)
