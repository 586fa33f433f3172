"""Hits of our own retrieval: their order, their parts, and that asking changes nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.config import HYBRID, HybridConfig
from glong.graph import MemoryGraph
from glong.models.fake import FakeEncoder
from glong.retrieval import MemoryIndex, Query, Scored, query_text, retrieve
from glong.retrieval.hybrid import combined, factors
from glong.retrieval.parts import PARTS
from glong.retrieval.spread import asks_for_several, in_same_session
from glong.validity import holds_at
from tests.glong.evaluation.memories import DAY_S, FACTS, START_S, TALK, memory, query
from tests.glong.retrieval.random_memories import TEXTS, memories, snapshot

HOME = "live_in_citystatecountry"
CONFIGS = st.builds(
    HybridConfig,
    k=st.integers(1, 12),
    n_candidates=st.integers(1, 12),
    **{switch: st.booleans() for switch in (*PARTS, "diversity")},
)


def factor(name: str, one_sided: float) -> float:
    equal, one_side = factors()[name]
    return equal + one_sided * (one_side - equal)


@given(memories(), TEXTS, st.lists(TEXTS, max_size=3), CONFIGS, st.sampled_from([None, 0.5, 9.0]))
@settings(max_examples=80, deadline=None)
def test_hits_of_any_memory(
    graph: MemoryGraph, text: str, recent: list[str], config: HybridConfig, as_of: float | None
) -> None:
    at = None if as_of is None else START_S + as_of * DAY_S
    asked = replace(query(text), recent=tuple(recent), as_of_s=at)
    index = MemoryIndex.of(graph)
    before = snapshot(index, asked)
    hits = retrieve(index, asked, config)
    assert retrieve(index, asked, config) == hits
    assert snapshot(index, asked) == before
    turns = [hit.turn for hit in hits]
    assert len(set(turns)) == len(turns)
    n_known = graph.n_turns if at is None else int((index.said_s <= at).sum())
    if any(getattr(config, switch) for switch in PARTS):
        assert len(hits) == min(config.k, n_known) or config.k <= len(hits) <= n_known
    else:
        assert hits == []
    for hit in hits:
        assert np.isfinite(hit.score)
        total = sum(factor(name, index.one_sided) * value for name, value in hit.parts.items())
        assert hit.score == pytest.approx(total, abs=1e-4)
        assert set(hit.edges) <= set(index.edges_of(hit.turn).tolist())
        if at is not None:
            assert index.said_s[hit.turn] <= at
            assert holds_at(index.validity, at)[list(hit.edges)].all()


def test_the_score_is_the_sum_of_factor_times_part() -> None:
    values = np.array([[1, 0, 2], [0, 1, 3]], np.float32)
    for one_sided in (0.0, 0.25, 1.0):
        words, closed = factor("words", one_sided), factor("closed", one_sided)
        expected = [words, closed, 2 * words + 3 * closed]
        assert combined(values, ("words", "closed"), one_sided) == pytest.approx(expected)


def test_hits_come_best_first_and_ties_in_order_of_the_turns() -> None:
    index = MemoryIndex.of(memory())
    scores = [hit.score for hit in retrieve(index, query("Leipzig"), HYBRID.at_k(6))]
    assert scores == sorted(scores, reverse=True)
    same = MemoryIndex.of(memory([(f"session_{i}", "Ann", "zzz") for i in range(4)], []))
    config = replace(HYBRID.at_k(4), recency=False)
    assert [hit.turn for hit in retrieve(same, query("zzz"), config)] == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(4))
def test_the_order_in_which_facts_are_stored_does_not_matter(seed: int) -> None:
    def found(graph: MemoryGraph) -> list[tuple[int, list[tuple[str, str]], Any]]:
        hits = retrieve(MemoryIndex.of(graph), query("Who was in Leipzig?"), config)
        triplets = [
            [(graph.relations[edge], graph.objects[edge]) for edge in hit.edges] for hit in hits
        ]
        return [
            (hit.turn, edges, pytest.approx(hit.parts, abs=1e-5))
            for hit, edges in zip(hits, triplets, strict=True)
        ]

    config = HybridConfig(k=6, pagerank=True)
    order = np.random.default_rng(seed).permutation(len(FACTS))
    plain = found(memory())
    mixed = found(memory(TALK, [FACTS[i] for i in order]))
    assert [(turn, edges) for turn, edges, _ in mixed] == [
        (turn, edges) for turn, edges, _ in plain
    ]
    assert [dict(parts.expected) for *_, parts in mixed] == [parts for *_, parts in plain]


def test_turns_that_say_the_same_go_behind_the_others() -> None:
    said = [("session_1", "Mira", "My greyhound barked")] * 3
    said += [("session_2", "Tom", "A greyhound?"), ("session_3", "Ann", "zzz")]
    index = MemoryIndex.of(memory(said, []))
    asked = query("greyhound barked")
    turns = [hit.turn for hit in retrieve(index, asked, HYBRID.at_k(3))]
    assert len({said[turn] for turn in turns}) == 3
    everything = retrieve(index, asked, HYBRID.at_k(9))
    assert sorted(hit.turn for hit in everything) == [0, 1, 2, 3, 4]
    assert {hit.turn for hit in everything[3:]} < {0, 1, 2}
    repeated = retrieve(index, asked, replace(HYBRID.at_k(3), diversity=False))
    assert {hit.turn for hit in repeated} == {0, 1, 2}


def test_where_several_are_asked_for_the_next_session_comes_before_the_same_one() -> None:
    said = [("session_1", "Mira", "I saw a doctor about my ear")]
    said += [("session_1", "Tom", word) for word in ("zzz", "yyy", "xxx")]
    said += [("session_1", "Mira", "I saw a doctor about my back")]
    said += [("session_2", "Mira", "I saw a doctor about my knee")]
    index = MemoryIndex.of(memory(said, []))
    counted, config = query("How many times did I see a doctor?"), HYBRID.at_k(3)
    alone = retrieve(index, counted, replace(config, diversity=False))
    assert [hit.turn for hit in alone] == [0, 4, 5]
    hits = retrieve(index, counted, config)
    assert [(hit.turn, hit.parts["again"]) for hit in hits] == [(0, 0), (5, 0), (4, 1)]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    plain = retrieve(index, query("Did I see a doctor?"), config)
    assert [hit.turn for hit in plain] == [0, 4, 5]
    assert all("again" not in hit.parts for hit in plain)


def test_a_turn_that_says_the_same_does_not_count_for_its_session() -> None:
    said = [("session_1", "Mira", "I saw a doctor about my ear")] * 3
    said += [("session_1", "Mira", "I saw a doctor about my back")]
    index = MemoryIndex.of(memory(said, []))
    hits = retrieve(index, query("How many times did I see a doctor?"), HYBRID.at_k(2))
    assert [hit.parts["again"] for hit in hits] == [0, 1]


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("How many doctors did I visit?", True),
        ("What is the total weight of my orders?", True),
        ("In which order did I visit the museums?", True),
        ("How old am I?", False),
        ("Where did I order lunch?", True),  # cannot be told apart by its words
        ("What did I read in order to relax?", False),
        ("List all the museums.", True),
        ("What did I do after all?", False),
        ("When did Mira move?", False),
    ],
)
def test_a_query_that_counts_adds_up_or_orders_asks_for_several(text: str, several: bool) -> None:
    assert asks_for_several(text) is several


def test_choosing_apart_is_a_greedy_choice_by_score_less_what_the_session_has() -> None:
    score = np.array([3.0, 2.9, 2.5, 0.1], np.float32)
    again, order = in_same_session(score, np.array([7, 7, 8, 7]), 3)
    assert order.tolist() == [0, 2, 1, 3]
    assert again.tolist() == [0, 1, 0, 2]


def test_a_hit_shows_its_nearest_triplets() -> None:
    facts = [(0, "Mira", "likes", f"thing{i}") for i in range(7)]
    graph = memory([("session_1", "Mira", "I like things")], facts)
    (hit,) = retrieve(MemoryIndex.of(graph), query("Mira likes thing4"), HYBRID)
    nearest = np.argsort(-(graph.edge_vectors @ query("Mira likes thing4").vector), kind="stable")
    assert list(hit.edges) == nearest[:5].tolist()
    assert hit.edges[0] == 4


def moved() -> MemoryIndex:
    """Mira lives in Bergen, then, two days later, in Oslo."""
    said = [
        ("session_1", "Mira", "I live in Bergen"),
        ("session_2", "Tom", "Nice"),
        ("session_3", "Mira", "I moved to Oslo"),
    ]
    return MemoryIndex.of(memory(said, [(0, "Mira", HOME, "Bergen"), (2, "Mira", HOME, "Oslo")]))


@pytest.mark.parametrize(
    ("days", "facts", "n_hits"),
    [(-1, set(), 0), (0, {0}, 1), (1, {0}, 2), (2, {1}, 3), (9, {1}, 3), (None, {0, 1}, 3)],
)
def test_as_of_shows_what_held_then(days: float | None, facts: set[int], n_hits: int) -> None:
    at = None if days is None else START_S + days * DAY_S
    hits = retrieve(moved(), replace(query("Where does Mira live?"), as_of_s=at), HYBRID)
    assert len(hits) == n_hits
    assert {edge for hit in hits for edge in hit.edges} == facts


def test_what_is_closed_counts_less_unless_it_held_then() -> None:
    asked = query("Where does Mira live?")
    closed = {hit.turn: hit.parts["closed"] for hit in retrieve(moved(), asked, HYBRID)}
    assert closed == {0: 1, 1: 0, 2: 0}
    then = replace(asked, as_of_s=START_S + DAY_S)
    assert {hit.parts["closed"] for hit in retrieve(moved(), then, HYBRID)} == {0}
    assert factors()["closed"][0] < 0
    assert factors()["closed"][1] < 0


def test_recent_turns_say_what_a_pronoun_means() -> None:
    encoder = FakeEncoder(256)
    said = [
        ("session_1", "Mira", "The oven was wrong for that cake"),
        ("session_2", "Tom", "My old Volvo had a broken gearbox"),
        ("session_3", "Mira", "Aubergines are better than courgettes"),
    ]
    graph = memory(said, [])
    vectors = encoder.encode([f"{speaker}: {text}" for _, speaker, text in said])
    index = MemoryIndex.of(
        replace(
            graph,
            turn_vectors=vectors,
            entity_vectors=np.zeros((0, 256), np.float32),
            edge_vectors=np.zeros((0, 256), np.float32),
        )
    )

    def best(*recent: str) -> list[Scored]:
        text = "What was wrong with it?"
        vector = encoder.encode([query_text(text, recent)])[0]
        asked = Query(text=text, vector=vector, now_s=START_S + 9 * DAY_S, recent=recent)
        return retrieve(index, asked, HYBRID)

    assert best()[0].turn == 0
    hits = best("Tom: I drove the Volvo to Bergen.", "Mira: Your old Volvo? The gearbox too?")
    assert hits[0].turn == 1
    assert hits[0].parts["words"] > 0


@pytest.mark.parametrize("text", ["", "?", "猫", "when"])
@pytest.mark.parametrize("n", [0, 1])
def test_a_memory_of_no_turn_or_one(n: int, text: str) -> None:
    index = MemoryIndex.of(memory([("session_1", "Mira", "Hi")] * n, []))
    hits = retrieve(index, query(text), HYBRID.at_k(5))
    assert [hit.turn for hit in hits] == list(range(n))
    assert all(hit.edges == () for hit in hits)


def test_a_query_in_another_language_finds_its_turn() -> None:
    said = [
        ("session_1", "小明", "我的猫叫小白"),
        ("session_2", "小红", "今天下雨了"),
        ("session_3", "Мария", "Я люблю зелёный чай"),
        ("session_4", "Zoë", "Mein Café in Zürich 🐕"),
    ]
    index = MemoryIndex.of(memory(said, []))
    config = replace(HYBRID.at_k(1), dense_turns=False, form=False, recency=False)
    for text, turn in (
        ("猫?", 0),
        ("小明的猫叫什么", 0),
        ("зелёный чай", 2),
        ("Zu\u0308rich 🐕", 3),
    ):
        assert [hit.turn for hit in retrieve(index, query(text), config)] == [turn]


def test_factors_are_shared_and_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        factors()["words"] = (0.0, 0.0)  # type: ignore[index]
