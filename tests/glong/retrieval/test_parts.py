"""What is known of each turn, part by part, and what each switch lets in."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.config import HYBRID, HybridConfig
from glong.graph import MemoryGraph
from glong.retrieval import MemoryIndex, Query
from glong.retrieval.hybrid import factors
from glong.retrieval.parts import PARTS, candidates
from tests.glong.evaluation.memories import DAY_S, START_S, memory, query
from tests.glong.retrieval.random_memories import TEXTS, memories

ALL = replace(HYBRID, pagerank=True)
SWITCHES = tuple(PARTS)


def asked(text: str, **values: Any) -> Query:
    return replace(query(text), **values)


def parts_of(
    graph: MemoryGraph, text: str, config: HybridConfig = ALL, **values: Any
) -> dict[str, list[float]]:
    found = candidates(MemoryIndex.of(graph), asked(text, **values), config)
    return {name: part.tolist() for name, part in found.parts.items()}


def talk(*texts: str, speakers: tuple[str, ...] = ("Mira", "Tom")) -> list[tuple[str, str, str]]:
    return [("session_1", speakers[i % len(speakers)], text) for i, text in enumerate(texts)]


@pytest.mark.parametrize("switch", SWITCHES)
@given(memories(), TEXTS)
@settings(max_examples=8, deadline=None)
def test_a_switch_leaves_out_its_parts_and_changes_no_other(
    switch: str, graph: MemoryGraph, text: str
) -> None:
    index = MemoryIndex.of(graph)
    whole = candidates(index, query(text), ALL)
    without = candidates(index, query(text), replace(ALL, **{switch: False}))
    assert set(whole.parts) - set(without.parts) == set(PARTS[switch])
    assert without.turns.tolist() == whole.turns.tolist()
    for name, values in without.parts.items():
        np.testing.assert_array_equal(values, whole.parts[name])


def test_every_part_has_a_switch_and_a_factor() -> None:
    names = [name for parts in PARTS.values() for name in parts]
    assert len(names) == len(set(names))
    assert {*names, "again"} == set(factors())  # that one depends on the other hits
    assert all(isinstance(getattr(HYBRID, switch), bool) for switch in PARTS)


@given(memories(), TEXTS, st.lists(TEXTS, max_size=3))
@settings(max_examples=60, deadline=None)
def test_every_part_is_finite_for_any_memory(
    graph: MemoryGraph, text: str, recent: list[str]
) -> None:
    found = candidates(MemoryIndex.of(graph), asked(text, recent=tuple(recent)), ALL)
    assert found.turns.tolist() == list(range(graph.n_turns))
    for values in found.parts.values():
        assert values.shape == (graph.n_turns,)
        assert np.isfinite(values).all()


def filler(n: int) -> list[tuple[str, str, str]]:
    """Sessions of three turns that share no word with a query."""
    return [(f"session_{i // 3}", "Ann", f"zzz{i}") for i in range(n)]


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({"lexical": True}, [4]),
        ({"lexical": True, "neighbours": True}, [3, 4, 5]),
        ({"dense_turns": True}, [7]),
        ({"dense_triplets": True}, [8]),
        ({"dense_triplets": True, "k": 10}, list(range(10))),
    ],
)
def test_candidates_are_the_best_of_what_is_switched_on(
    switches: dict[str, Any], expected: list[int]
) -> None:
    said = filler(10)
    said[4] = ("session_1", "Ann", "greyhound")
    graph = memory(said, [(8, "Ann", "likes", "dogs")])
    axes = np.eye(16, dtype=np.float32)
    vectors = axes[np.ones(10, int)]
    vectors[7] = 0.4 * axes[0] + 0.84**0.5 * axes[1]  # half of .4 is less than a quarter of 1
    graph = replace(graph, turn_vectors=vectors, edge_vectors=axes[:1])
    off = dict.fromkeys(("lexical", "dense_turns", "dense_triplets", "neighbours"), False)
    config = HybridConfig(**{"k": 1, "n_candidates": 1} | off | switches)
    found = candidates(MemoryIndex.of(graph), asked("greyhound", vector=axes[0]), config)
    assert found.turns.tolist() == expected


@pytest.mark.parametrize(
    ("text", "switch", "expected"),
    [("What did Oslo bring?", "names", 5), ("What was yesterday?", "times", 30)],
)
def test_a_name_or_a_time_leads_to_turns_that_no_word_does(
    text: str, switch: str, expected: int
) -> None:
    said = filler(60)
    said[5] = ("session_1", "Ann", "I was in Oslo where so much more happened")
    days = np.full(60, -200.0)
    days[30] = 0
    midnight = START_S - START_S % DAY_S
    graph = replace(memory(said, []), turn_times_s=midnight + DAY_S * days)
    off = dict.fromkeys(("dense_turns", "dense_triplets", "neighbours"), False)
    config = replace(HYBRID, k=1, n_candidates=8, **off)
    likelier = " ".join(f"zzz{i}" for i in range(40, 48))
    for on, more in ((True, {expected}), (False, set())):
        some = replace(config, **{switch: on})
        wanted = asked(f"{text} {likelier}", now_s=midnight + 1.5 * DAY_S)
        found = candidates(MemoryIndex.of(graph), wanted, some)
        assert set(found.turns.tolist()) == {*range(40, 48), *more}


def test_of_many_turns_of_a_time_the_best_are_added() -> None:
    graph = replace(memory(filler(60), []), turn_times_s=np.full(60, START_S))
    config = replace(HYBRID, k=1, n_candidates=8, neighbours=False)
    found = candidates(MemoryIndex.of(graph), asked("What was on 8 May 2023?"), config)
    assert 8 <= len(found.turns) <= 10


def test_more_hits_than_candidates_are_asked_for_are_candidates_too() -> None:
    config = HybridConfig(k=50, n_candidates=5)
    found = candidates(MemoryIndex.of(memory(filler(60), [])), query("zzz1"), config)
    assert len(found.turns) >= 50


def test_words_are_scaled_to_the_best_and_recent_words_count_less() -> None:
    graph = memory(talk("a greyhound barked", "courgettes", "nothing here"), [])
    recent = ("What about courgettes?",)
    long = parts_of(graph, "greyhound kennel leash bowl", recent=recent)
    assert long["words"] == pytest.approx([1, 0.3, 0])
    two = parts_of(graph, "the greyhound's kennel", recent=recent)
    assert two["words"] == pytest.approx([1, 0.5, 0])
    assert parts_of(graph, "what was that?", recent=recent)["words"] == pytest.approx([0, 1, 0])
    assert parts_of(graph, "greyhound")["words"] == pytest.approx([1, 0, 0])
    only_last = parts_of(graph, "greyhound", recent=("courgettes", "b", "c"))
    assert only_last["words"] == pytest.approx([1, 0, 0])


def test_cosines_of_a_turn_of_its_surroundings_and_of_its_best_triplet() -> None:
    graph = memory(
        talk("a", "b", "c"), [(0, "x", "r", "y"), (0, "x", "r", "z"), (2, "x", "r", "w")]
    )
    axes = np.eye(16, dtype=np.float32)
    graph = replace(graph, turn_vectors=axes[:3], edge_vectors=axes[[0, 1, 2]])
    vector = (0.6 * axes[0] + 0.8 * axes[1]).astype(np.float32)
    parts = parts_of(graph, "q", vector=vector)
    assert parts["turn"] == pytest.approx([0.6, 0.8, 0])
    # a + b/2 has length sqrt(1.25), a/2 + b + c/2 has sqrt(1.5)
    around = [(0.6 + 0.4) / 1.25**0.5, (0.8 + 0.3) / 1.5**0.5, 0.4 / 1.25**0.5]
    assert parts["around"] == pytest.approx(around, abs=1e-6)
    assert parts["triplet"] == pytest.approx([0.8, 0, 0], abs=1e-6)


def test_what_the_turns_beside_a_candidate_score() -> None:
    graph = memory([*talk("zzz", "greyhound?", "yyy"), ("session_2", "Mira", "xxx")], [])
    graph = replace(graph, turn_vectors=np.zeros_like(graph.turn_vectors))
    parts = parts_of(graph, "greyhound")
    assert parts["after"] == pytest.approx([1, 0, 0, 0])
    assert parts["before"] == pytest.approx([0, 0, 1, 0])
    assert parts["before_that"] == [0, 0, 0, 0]
    assert parts["asks_for"] == [0, 0, 0, 0]
    assert parts_of(graph, "yyy")["asks_for"] == pytest.approx([0, 1, 0, 0])
    assert parts_of(graph, "yyy")["before_that"] == [0, 0, 0, 0]
    assert parts_of(graph, "zzz")["before_that"] == pytest.approx([0, 0, 1, 0])


@pytest.mark.parametrize(
    ("speakers", "text", "expected"),
    [
        (("Mira", "Tom"), "What does Mira like?", [1, 0]),
        (("Mira", "Tom"), "what is MIRA\u2019s dog called", [1, 0]),
        (("Mira", "Tom"), "(Tom), or Mira: who?", [1, 1]),
        (("Mira", "Tom"), "Tommy and Mirabel", [0, 0]),
        (("Speaker 1", "Speaker 2"), "What did Speaker 2 say on 1 May?", [0, 1]),
        (("Mira Berg", "Tom Berg"), "Does Berg like tea? Does Mira?", [1, 0]),
        (("小明", "小紅"), "小紅喜歡什麼\uff1f", [0, 1]),
        (("민수", "지영"), "민수가 뭐 먹었어?", [1, 0]),
        (("Мария", "Иван"), "Что любит Мария?", [1, 0]),
        (("मीरा", "राम"), "मीरा कहाँ है।", [1, 0]),
        (("Zoe\u0308", "Tom"), "Is Zo\u00eb well?", [1, 0]),
        (("...", "Tom"), "Hm ... ?", [0, 0]),
    ],
)
def test_a_speaker_that_the_query_names(
    speakers: tuple[str, ...], text: str, expected: list[float]
) -> None:
    graph = memory(talk("a", "b", speakers=speakers), [])
    assert parts_of(graph, text)["speaker"] == expected


def test_names_that_query_and_turn_share_but_for_speakers() -> None:
    graph = memory(talk("I met Ann Lee in Oslo", "We saw Ann", "Nobody saw Mira"), [])
    assert parts_of(graph, "Did Mira see Ann Lee?")["name"] == [2, 1, 0]
    assert parts_of(graph, "did she?")["name"] == [0, 0, 0]


def test_the_time_that_the_query_names_fades_with_the_distance() -> None:
    days = np.array([0, 1, 15, -3, np.nan])  # of 8 May 2023
    midnight = START_S - START_S % DAY_S
    graph = replace(memory(talk(*"abcde"), []), turn_times_s=midnight + DAY_S * days)
    date = parts_of(graph, "What was on 8 May 2023?")["date"]
    assert date == pytest.approx([1, 1, np.exp(-1), np.exp(-1), 0])
    assert parts_of(graph, "What was?")["date"] == [0] * 5
    assert parts_of(graph, "yesterday", now_s=float("nan"))["date"] == [0] * 5


def test_a_turn_that_says_a_time_counts_where_the_query_asks_for_one() -> None:
    graph = memory(talk("I went there last week", "It was nice"), [])
    assert parts_of(graph, "When did she go?")["says_time"] == [1, 0]
    assert parts_of(graph, "Where did she go?")["says_time"] == [0, 0]


@pytest.mark.parametrize(
    ("text", "own"),
    [("Where's my dog?", True), ("I've what?", True), ("Was it in the US?", False), ("He?", False)],
)
def test_own_words_count_where_one_asks_for_oneself(text: str, own: bool) -> None:
    parts = parts_of(memory(talk("I fed my dog", "Good dog"), []), text)
    assert parts["first_person"] == pytest.approx([2, 0])
    assert parts["own_words"] == (parts["first_person"] if own else [0, 0])


def test_the_best_turns_lead_over_their_entities_to_others() -> None:
    facts = [(0, "Pixel", "was_in", "Leipzig"), (6, "Tom", "ran_in", "Leipzig"), (7, "x", "r", "y")]
    graph = memory(talk("greyhound", *("zzz",) * 7), facts)
    zero = replace(graph, turn_vectors=np.zeros_like(graph.turn_vectors))
    assert parts_of(zero, "greyhound")["linked"] == pytest.approx([0] * 6 + [1, 0])
    # with 16 facts of Leipzig each of them gets sqrt(4 / 16) squared
    more = [(6, "Leipzig", "has", f"e{i}") for i in range(14)]
    crowded = memory(talk("greyhound", *("zzz",) * 7), facts + more)
    crowded = replace(crowded, turn_vectors=np.zeros_like(crowded.turn_vectors))
    assert parts_of(crowded, "greyhound")["linked"] == pytest.approx([0] * 6 + [0.25, 0])


def test_importance_and_age() -> None:
    graph = memory(talk("a", "b", "c"), [(0, "x", "r", "y"), (0, "x", "r", "z")])
    times = START_S + DAY_S * np.array([0, 180, np.nan])
    weights = np.array([0.25, 0.75], np.float32)
    graph = replace(graph, weights=weights, turn_times_s=times)
    parts = parts_of(graph, "q", now_s=START_S + 180 * DAY_S)
    assert parts["weight"] == [0.75, 0, 0]
    assert parts["recency"] == pytest.approx([np.exp(-1), 1, 0])
    in_future = parts_of(graph, "q", now_s=START_S)
    assert in_future["recency"] == [1, 1, 0]
    assert parts_of(graph, "q", now_s=float("nan"))["recency"] == [0, 0, 0]


def test_a_turn_all_of_whose_facts_were_closed_by_then() -> None:
    said = [("session_1", "Mira", "a"), ("session_1", "Mira", "b"), ("session_2", "Mira", "c")]
    home = "live_in_citystatecountry"
    facts = [
        (0, "Mira", home, "Bergen"),
        (1, "Tom", home, "Bergen"),
        (1, "Tom", "likes", "rain"),
        (2, "Mira", home, "Oslo"),
        (2, "Tom", home, "Oslo"),
    ]
    graph = memory(said, facts)
    assert parts_of(graph, "q")["closed"] == [1, 0, 0]
    assert parts_of(graph, "q", as_of_s=START_S)["closed"] == [0, 0]
    assert parts_of(graph, "q", as_of_s=START_S + 2 * DAY_S)["closed"] == [1, 0, 0]


def test_turns_after_the_time_asked_for_are_no_candidates_and_lend_nothing() -> None:
    graph = memory(talk("zzz", "greyhound", "yyy", "xxx"), [])
    days = np.array([0, 2, np.nan, 0])  # the third has no time: it was said after the second
    graph = replace(graph, turn_times_s=START_S + DAY_S * days)
    found = candidates(MemoryIndex.of(graph), asked("greyhound", as_of_s=START_S + DAY_S), ALL)
    assert found.turns.tolist() == [0, 3]
    assert found.parts["after"].tolist() == found.parts["before"].tolist() == [0, 0]
    none = candidates(MemoryIndex.of(graph), asked("greyhound", as_of_s=0.0), ALL)
    assert none.turns.tolist() == []


@given(memories(), TEXTS, st.sampled_from([-1.0, 0.0, 0.5, 1.0, 9.0]))
@settings(max_examples=60, deadline=None)
def test_no_candidate_is_later_than_the_time_asked_for(
    graph: MemoryGraph, text: str, days: float
) -> None:
    index, at = MemoryIndex.of(graph), START_S + days * DAY_S
    found = candidates(index, asked(text, as_of_s=at), ALL)
    assert found.turns.tolist() == np.flatnonzero(index.said_s <= at).tolist()
    assert not (graph.turn_times_s[found.turns] > at).any()
