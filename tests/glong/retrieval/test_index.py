"""What is computed of a memory once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.graph import MemoryGraph
from glong.retrieval import MemoryIndex
from glong.retrieval.terms import terms
from tests.glong.evaluation.memories import DAY_S, START_S, memory
from tests.glong.retrieval.random_memories import memories

NAN = float("nan")


def said_by(*speakers: str, text: str = "one two") -> MemoryIndex:
    return MemoryIndex.of(memory([("session_1", speaker, text) for speaker in speakers], []))


@given(memories())
@settings(max_examples=60, deadline=None)
def test_neighbours_are_next_to_a_turn_and_never_of_another_session(graph: MemoryGraph) -> None:
    index = MemoryIndex.of(graph)
    ids = graph.turn_session_ids
    for turn in range(graph.n_turns):
        for step, there in zip((-1, 1, -2), index.beside[turn].tolist(), strict=True):
            inside = 0 <= turn + step < graph.n_turns and ids[turn + step] == ids[turn]
            assert there == (turn + step if inside else -1)
        assert ids[turn] == list(dict.fromkeys(ids))[index.session[turn]]
    assert index.n_sessions == len(set(ids))


@given(memories())
@settings(max_examples=60, deadline=None)
def test_edges_stand_with_the_turn_that_states_them(graph: MemoryGraph) -> None:
    index = MemoryIndex.of(graph)
    for turn in range(graph.n_turns):
        expected = [e for e in range(graph.n_edges) if graph.edge_turn[e] == turn]
        assert index.edges_of(turn).tolist() == expected
        weights = graph.weights[expected].tolist()
        assert index.weight[turn] == max(weights, default=0)
        closed = [index.validity.closed_by[e] >= 0 for e in expected]
        assert index.closed[turn] == (bool(closed) and all(closed))
    turns = np.arange(graph.n_turns)[::-1]
    edges, owners = index.edges_of_all(turns)
    assert graph.edge_turn[edges].tolist() == turns[owners].tolist()
    assert sorted(edges.tolist()) == list(range(graph.n_edges))


@given(memories())
@settings(max_examples=40, deadline=None)
def test_a_turn_without_a_time_stands_where_those_before_it_stand(graph: MemoryGraph) -> None:
    index = MemoryIndex.of(graph)
    latest = -np.inf
    for time, said in zip(graph.turn_times_s, index.said_s, strict=True):
        latest = latest if np.isnan(time) else max(latest, time)
        assert said == (latest if np.isnan(time) else time)


@given(memories(), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_best_edge_of_each_turn(graph: MemoryGraph, seed: int) -> None:
    values = np.random.default_rng(seed).uniform(-1, 1, graph.n_edges).astype(np.float32)
    best = MemoryIndex.of(graph).best_edge(values)
    for turn in range(graph.n_turns):
        assert best[turn] == max(values[graph.edge_turn == turn].tolist(), default=0)


def test_one_sided_is_nothing_among_equals_and_one_for_a_monologue() -> None:
    assert said_by("Mira", "Tom").one_sided == 0
    assert said_by("Mira", "Tom", "Ann").one_sided == 0
    assert said_by("Mira", "Mira").one_sided == 1
    assert said_by().one_sided == 0
    assert said_by("Mira", "Tom", text="").one_sided == 0
    # 9 of 10 turns of equal length: (.9 - .5) / (1 - .5)
    assert said_by(*["user"] * 9, "assistant").one_sided == pytest.approx(0.8)


def test_a_word_of_several_speakers_names_none_of_them() -> None:
    named = said_by("Mira Berg", "Tom Berg", "Mira Berg")
    assert sorted(named.speakers) == ["mira", "mira berg", "tom", "tom berg"]
    assert named.speakers["mira"].tolist() == [True, False, True]
    assert sorted(said_by("Speaker 1", "Speaker 2").speakers) == ["speaker 1", "speaker 2"]
    assert sorted(said_by("...", "7", "The Who", "小明").speakers) == ["小明"]


def test_the_form_of_a_turn() -> None:
    talk = ["Why is it so?", "I told us yesterday", "In the US", "ほんと\uff1f", "", "متى\u061f "]
    form = MemoryIndex.of(memory([("s", "Mira", text) for text in talk], [])).form
    assert form["asks"].tolist() == [1, 0, 0, 1, 0, 1]
    assert form["answers"].tolist() == [0, 1, 0, 0, 1, 0]
    assert form["says_time"].tolist() == [0, 1, 0, 0, 0, 0]
    assert form["first_person"] == pytest.approx([0, 5 * 2 / 5, 0, 0, 0, 0])
    assert form["length"][0] == pytest.approx(np.log(5) / 4)


def test_the_answer_to_the_last_question_of_another_session_is_none() -> None:
    graph = memory([("a", "Mira", "Why?"), ("b", "Tom", "Because.")], [])
    assert MemoryIndex.of(graph).form["answers"].tolist() == [0, 0]


def test_the_words_of_a_turn_are_its_date_speaker_text_and_facts() -> None:
    graph = memory(
        [("a", "Mira", "Woof"), ("a", "Tom", "Meow"), ("b", "Tom", "Moo")],
        [(0, "Pixel", "lives_at", "Elm Street")],
    )
    index = MemoryIndex.of(replace(graph, turn_times_s=np.array([START_S, NAN, NAN])))

    def found(collection: int, text: str) -> list[bool]:
        return (index.lexicon.scores(terms(text))[collection] > 0).tolist()

    assert found(0, "8 May 2023") == [True, False, False]
    assert found(0, "street") == [True, False, False]
    assert found(0, "Tom") == [False, True, True]
    assert found(1, "woof") == [True, True, False]
    assert found(1, "moo") == [False, False, True]
    assert found(2, "meow") == [True, False]


def test_a_hub_is_damped() -> None:
    facts = [(0, "Mira", "likes", name) for name in "abcdefghijklmnop"]
    graph = memory([("a", "Mira", "Hi")], facts)
    index = MemoryIndex.of(graph)
    assert index.damping[graph.entity_names.index("Mira")] == pytest.approx(0.5)  # sqrt(4 / 16)
    assert index.damping[graph.entity_names.index("a")] == 1


def test_no_array_can_be_written() -> None:
    index = MemoryIndex.of(memory())
    arrays = [index.session, index.beside, index.around, index.edge_order]
    arrays += [index.edge_starts, index.damping, index.said_s, index.weight, index.closed]
    arrays += [*index.form.values(), *index.speakers.values(), *index.names.values()]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]


def test_an_empty_memory_has_an_index() -> None:
    index = MemoryIndex.of(memory([], []))
    assert index.n_sessions == 0
    assert index.names == {}
    assert len(index.beside) == len(index.around) == len(index.said_s) == 0


def test_a_time_long_ago_has_a_heading() -> None:
    graph = memory([("a", "Mira", "Hi")], [])
    early = replace(graph, turn_times_s=np.array([-60 * 365.25 * DAY_S]))
    assert MemoryIndex.of(early).lexicon.scores(["1910"])[0][0] > 0


def test_turns_are_found_by_the_names_that_they_have() -> None:
    talk = [("a", "Mira", "We met Ann in Oslo"), ("a", "Tom", "In Oslo?"), ("b", "Tom", "no")]
    names = MemoryIndex.of(memory(talk, [])).names
    assert {name: turns.tolist() for name, turns in names.items()} == {"ann": [0], "oslo": [0, 1]}
