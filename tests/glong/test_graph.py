from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glong.graph import MemoryGraph


def graph(n_entities: int, ends: list[tuple[int, int]]) -> MemoryGraph:
    n = len(ends)
    return MemoryGraph(
        entity_ids=tuple(f"e{i}" for i in range(n_entities)),
        entity_names=tuple(f"name {i}" for i in range(n_entities)),
        entity_aliases=((),) * n_entities,
        entity_vectors=np.ones((n_entities, 1), np.float32),
        edge_ids=tuple(f"x{i}" for i in range(n)),
        heads=np.array([h for h, _ in ends], np.int32),
        tails=np.array([t for _, t in ends], np.int32),
        subjects=("s",) * n,
        relations=tuple(f"r{i}" for i in range(n)),
        objects=("o",) * n,
        edge_vectors=np.ones((n, 1), np.float32),
        weights=np.full(n, 0.5, np.float32),
        scores=np.full(n, 2.0),
        created_s=np.full(n, 60.0),
        accessed_s=np.full(n, np.nan),
        edge_turn=np.zeros(n, np.int32),
        turn_ids=("t0",),
        turn_session_ids=("s1",),
        turn_indices=np.array([7], np.int32),
        turn_speakers=("Mira",),
        turn_texts=("hello",),
        turn_times_s=np.array([60.0]),
        turn_vectors=np.ones((1, 1), np.float32),
    )


@st.composite
def graphs(draw: st.DrawFn) -> MemoryGraph:
    n = draw(st.integers(1, 8))
    node = st.integers(0, n - 1)
    return graph(n, draw(st.lists(st.tuples(node, node), max_size=20)))


@given(graphs())
def test_adjacency_lists_each_edge_once_per_endpoint(g: MemoryGraph) -> None:
    for entity in range(g.n_entities):
        found = g.incident_edges[g.offsets[entity] : g.offsets[entity + 1]].tolist()
        ends = zip(g.heads, g.tails, strict=True)
        assert found == [i for i, pair in enumerate(ends) if entity in pair]


@given(graphs(), st.data())
def test_incident_is_the_union_over_entities_each_edge_once(
    g: MemoryGraph, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(0, g.n_entities - 1), max_size=6))
    ends = zip(g.heads, g.tails, strict=True)
    expected = [i for i, pair in enumerate(ends) if set(pair) & set(chosen)]
    assert g.incident(chosen).tolist() == expected


def test_arrays_are_read_only() -> None:
    g = graph(2, [(0, 1)])
    for array in (g.weights, g.heads, g.incident_edges, g.turn_vectors):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_an_index_outside_is_refused() -> None:
    with pytest.raises(ValueError, match="tails spans 2 to 2; allowed: 0 to 1"):
        graph(2, [(0, 2)])


def test_columns_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="edge columns have lengths"):
        replace(graph(2, [(0, 1)]), relations=())


def test_records_carry_source_and_times() -> None:
    g = graph(2, [(0, 1)])
    edge = g.edge(0)
    assert (edge.session_id, edge.turn_index, edge.weight) == ("s1", 7, 0.5)
    assert edge.created_at == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert edge.accessed_at is None
    assert g.turn(0).text == "hello"


def test_networkx_keeps_parallel_edges_and_attributes() -> None:
    converted = graph(2, [(0, 1), (0, 1), (1, 1)]).to_networkx()
    assert converted.number_of_edges("e0", "e1") == 2
    assert converted.edges["e0", "e1", "x1"] == {
        "relation": "r1",
        "weight": 0.5,
        "created_at": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
        "accessed_at": None,
    }
    assert converted.nodes["e1"]["name"] == "name 1"


def test_a_graph_without_edges_has_no_neighbours() -> None:
    g = graph(3, [])
    assert g.incident([0, 1, 2]).tolist() == []
    assert g.nbytes == sum(a.nbytes for a in (g.entity_vectors, g.offsets, g.turn_vectors)) + 4 + 8
