from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong import ids
from glong.store import Forgotten
from glong.store.forgotten import Kind, Mark, said
from glong.store.leaving_out import leave_out
from glong.types import Failure
from tests.glong.store.rows import built, built_session, forgotten

DIALOGUE = ids.dialogue_key("default", "d")
KEY = ids.session_key("default", "d", "s1")
NAMES = ("Mira", "Tom", "Rex", "corn")
MISHAP = Failure("extract", "bad_json", "no JSON", "Mira likes corn")
facts = st.lists(
    st.tuples(st.sampled_from(NAMES), st.just("likes"), st.sampled_from(NAMES)), max_size=5
)


def test_without_marks_the_rows_are_the_same_object() -> None:
    rows = built(built_session("d", "s1"))
    assert leave_out(rows, Forgotten()).built is rows
    elsewhere = forgotten("another", Mark(Kind.DIALOGUE, ("another",)))
    assert leave_out(rows, elsewhere).built is rows


@settings(max_examples=25, deadline=None)
@given(st.lists(facts, min_size=1, max_size=4), st.sampled_from(NAMES), st.integers(0, 3))
def test_what_is_left_is_whole_and_leaving_out_again_changes_nothing(
    all_facts: list[Any], name: str, place: int
) -> None:
    rows = built(
        *(
            built_session("d", f"s{i}", facts=some, failures=[MISHAP])
            for i, some in enumerate(all_facts)
        )
    )
    session = ids.session_key("default", "d", f"s{place}")
    marks = forgotten(
        DIALOGUE,
        Mark(Kind.ENTITY, (DIALOGUE, name.lower())),
        Mark(Kind.TURN, (session, said("Tom", "Tom likes Mira"))),
    )
    left = leave_out(rows, marks)
    assert leave_out(left.built, marks).rows == {}
    assert left.rows["turns"] == _n(rows, "turns") - _n(left.built, "turns")
    for row in left.built.to_pylist():
        for table in ("turns", "entities", "edges", "failures"):
            assert len(row[table]) == row[f"n_{table}"]
        turns = {turn["turn_index"] for turn in row["turns"]}
        entities = {entity["entity_id"] for entity in row["entities"]}
        for edge in row["edges"]:
            assert edge["turn_index"] in turns
            assert {edge["head_id"], edge["tail_id"]} <= entities
            assert name not in (edge["subject"], edge["object"])
        assert len(row["failures"]) == (row["session_key"] not in left.changed)
    rest = leave_out(rows.slice(1), marks).built.to_pylist()
    first = rows["session_key"][0].as_py()
    assert rest == [row for row in left.built.to_pylist() if row["session_key"] != first]


def _n(rows: Any, table: str) -> int:
    return sum(rows[f"n_{table}"].to_pylist())


def test_the_largest_score_stays_though_its_edge_is_gone() -> None:
    marks = forgotten(DIALOGUE, Mark(Kind.EDGE, (KEY, "mira", "has_pet", "rex")))
    (row,) = leave_out(built(built_session("d", "s1")), marks).built.to_pylist()
    assert (row["n_edges"], row["max_score"]) == (1, 2.0)
    assert row["edges"][0]["weight"] == pytest.approx(0.5)
    assert {entity["name"] for entity in row["entities"]} == {"Mira", "corn"}


def test_a_turn_of_a_fact_by_hand_goes_with_its_edge() -> None:
    key = ids.session_key("default", "d", "by-hand")
    marks = forgotten(DIALOGUE, Mark(Kind.EDGE, (key, "mira", "likes", "corn")))
    rows = built(built_session("d", "by-hand"), built_session("d", "s1"))
    left = leave_out(rows, marks)
    assert left.built["n_turns"].to_pylist() == [1, 2]
    assert left.changed == (key,)


BEN = Mark(Kind.MENTION, (DIALOGUE, "ben"))


def test_edges_without_their_turn_are_left_out() -> None:
    """Another that replaces a session deletes its turns first."""
    half = built_session("d", "s1") | {"turns": []}
    (row,) = leave_out(built(half), forgotten(DIALOGUE, BEN)).built.to_pylist()
    assert (row["n_turns"], row["n_edges"]) == (0, 0)


def test_of_a_session_that_stays_only_failures_that_tell_a_forgotten_name_go() -> None:
    copied = [
        Failure("extract", "copied_example", "no fact of this session", "Ben | has_pet | Rex"),
        Failure("extract", "copied_example", "'Ben' is of the example", ""),
    ]
    rows = built(built_session("d", "s1", failures=[MISHAP, *copied]))
    left = leave_out(rows, forgotten(DIALOGUE, BEN))
    (row,) = left.built.to_pylist()
    assert [failure["raw"] for failure in row["failures"]] == [MISHAP.raw]
    assert (row["n_failures"], row["n_turns"], row["n_edges"]) == (1, 2, 2)
    assert (left.changed, left.rows) == ((KEY,), {"failures": 2})


def test_a_session_with_fewer_failures_than_it_is_said_to_have_is_counted_anew() -> None:
    lost = built_session("d", "s1", failures=[MISHAP]) | {"failures": []}
    left = leave_out(built(lost), forgotten(DIALOGUE, BEN))
    assert left.changed == (KEY,)
    assert left.built.to_pylist() == built(lost | {"n_failures": 0}).to_pylist()
