import numpy as np
import pyarrow as pa
import pytest

from glong.errors import StoreError
from glong.store.assembly import assemble_graph, seconds, vectors
from glong.tables import ACCESSES, TIME, explode, manifest_rows
from tests.glong.store.rows import DIMENSION, START, built, built_session, unit_vector


def rows_of(facts: list[tuple[str, str, str]]) -> tuple[pa.Table, dict[str, pa.Table]]:
    table = built(built_session("d", "s1", facts=facts))
    return manifest_rows(table, "b", START), explode(table, "b", DIMENSION)


def test_every_edge_joins_the_entities_it_names() -> None:
    manifest, rows = rows_of([("Mira", "likes", "corn"), ("corn", "grown_by", "Mira")])
    shuffled = {
        name: rows[name].take(list(range(rows[name].num_rows))[::-1])
        for name in ("turns", "entities", "edges")
    }
    graph = assemble_graph(
        manifest,
        shuffled["turns"],
        shuffled["entities"],
        shuffled["edges"],
        ACCESSES.empty_table(),
    )
    for i in range(graph.n_edges):
        assert graph.entity_names[graph.heads[i]] == graph.subjects[i]
        assert graph.entity_names[graph.tails[i]] == graph.objects[i]
        text = f"{graph.subjects[i]} {graph.relations[i]} {graph.objects[i]}"
        assert graph.turn_texts[graph.edge_turn[i]] == text
        assert np.array_equal(graph.edge_vectors[i], unit_vector(text))
    assert graph.relations == ("likes", "grown_by")


def test_an_edge_without_its_entity_is_an_error() -> None:
    manifest, rows = rows_of([("Mira", "likes", "corn")])
    with pytest.raises(StoreError, match="1 edges have a tail_id that is not stored"):
        assemble_graph(
            manifest,
            rows["turns"],
            rows["entities"].slice(0, 1),
            rows["edges"],
            ACCESSES.empty_table(),
        )


def test_seconds_keep_microseconds_and_turn_null_into_nan() -> None:
    times = pa.chunked_array([pa.array([1_500_000, None], pa.int64()).cast(TIME)])
    assert seconds(times)[0] == 1.5
    assert np.isnan(seconds(times)[1])


def test_vectors_of_a_slice_are_those_of_its_rows() -> None:
    _, rows = rows_of([("Mira", "likes", "corn"), ("Mira", "eats", "rye")])
    assert np.array_equal(vectors(rows["edges"].slice(1)), [unit_vector("Mira eats rye")])
