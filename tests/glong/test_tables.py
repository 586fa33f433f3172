"""Records to Arrow and back, and built rows to the rows of each table."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong import ids
from glong.tables import (
    DATA_TABLES,
    EXTRACTED,
    FAILURES,
    IDENTITY,
    MANIFEST,
    PRIMARY_KEY,
    SESSION,
    VARYING_COLUMNS,
    WEIGHED,
    built_schema,
    explode,
    failure_struct,
    manifest_rows,
    nested,
    record_failures_to,
    sessions_from,
    sessions_to,
    split_pending,
    stored_schemas,
    struct_rows,
    triplet_structs,
    triplets_from,
    with_columns,
)
from glong.types import Failure, Place, Session, Triplet, Turn
from tests.glong.store.rows import DIMENSION, START, built, built_session

IDENTITIES = dict.fromkeys((*IDENTITY.names, "content_hash"), "x")
TIMES = st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TURNS = st.lists(st.builds(Turn, st.integers(0, 99), TEXT, TEXT, TIMES), max_size=4)
SESSIONS = st.builds(Session, TEXT, TEXT, TIMES, TURNS.map(tuple))


@given(st.lists(SESSIONS, max_size=5))
@settings(max_examples=50, deadline=None)
def test_sessions_come_back_as_they_went(sessions: list[Session]) -> None:
    rows = [
        (IDENTITIES | {"dialogue_id": s.dialogue_id, "session_id": s.session_id}, s)
        for s in sessions
    ]
    table = sessions_to(rows)
    assert table.schema.equals(SESSION)
    assert sessions_from(table) == sessions


def test_triplets_come_back_as_they_went() -> None:
    triplets = (Triplet("Mira", "has_pet", "猫", 0), Triplet("Tom", "likes", "dogs", 2))
    column = pa.array([triplet_structs(triplets), []], EXTRACTED.field("triplets").type)
    assert triplets_from(pa.table({"triplets": column})) == [triplets, ()]


def test_each_stage_adds_columns_to_those_before() -> None:
    for before, after in ((SESSION, EXTRACTED), (EXTRACTED, WEIGHED)):
        assert after.names[: len(before)] == before.names


def test_stored_tables_carry_the_identity_and_the_id_of_their_write() -> None:
    schemas = stored_schemas(DIMENSION)
    assert list(schemas)[-1] == "sessions", "the manifest is made last"
    for name in DATA_TABLES:
        assert {*IDENTITY.names, "batch_id"} <= set(schemas[name].names)
    for name, key in (("sessions", "session_key"), ("failures", "failure_id")):
        field = schemas[name].field(key)
        assert not field.nullable
        assert field.metadata == {k.encode(): v.encode() for k, v in PRIMARY_KEY.items()}
    columns = {column for schema in schemas.values() for column in schema.names}
    assert set(VARYING_COLUMNS) <= columns


MISHAP = Failure("extract", "bad_json", "No JSON.", "?", Place("f", 3, "x"), 1)
ROWS = (
    built_session("d", "s1"),
    built_session("d", "s2", facts=()),
    built_session("e", "s1", facts=[("Tom", "likes", "tea")], failures=[MISHAP], tenant="acme"),
)


@pytest.mark.parametrize("chunks", [1, 3])
def test_built_sessions_become_rows_of_each_table(chunks: int) -> None:
    table = built(*ROWS)
    if chunks > 1:
        table = pa.concat_tables([table.slice(i, 1) for i in range(3)])
    tables = explode(table, "b7", DIMENSION)
    assert tables.keys() == set(DATA_TABLES)
    sizes = {name: rows.num_rows for name, rows in tables.items()}
    assert sizes == {"turns": 3, "entities": 5, "edges": 3, "failures": 1}
    for name, rows in tables.items():
        assert rows.schema.equals(stored_schemas(DIMENSION)[name])
        assert set(rows.column("batch_id").to_pylist()) == {"b7"}
        want = [
            (row["tenant"], row["dialogue_id"], row["session_id"], row["session_key"])
            for row in ROWS
            for _ in row[name]
        ]
        keys = rows.select(["tenant", "dialogue_id", "session_id", "session_key"]).to_pylist()
        assert [tuple(key.values()) for key in keys] == want
    assert tables["edges"].column("object").to_pylist() == ["corn", "Rex", "tea"]
    vectors = np.stack(tables["turns"].column("vector").to_numpy())
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_nothing_built_gives_empty_tables() -> None:
    tables = explode(built(), "b", DIMENSION)
    assert {rows.num_rows for rows in tables.values()} == {0}
    done, failures = split_pending(built(), "b")
    assert done.num_rows == failures.num_rows == 0


def test_manifest_rows_add_the_write_to_what_was_built() -> None:
    rows = manifest_rows(built(*ROWS), "b7", START)
    assert rows.schema.equals(MANIFEST)
    assert rows.column("session_id").to_pylist() == ["s1", "s2", "s1"]
    assert set(rows.column("batch_id").to_pylist()) == {"b7"}
    assert set(rows.column("built_at").to_pylist()) == {START}


def test_of_pending_sessions_only_the_failures_are_kept() -> None:
    away = built_session("d", "s9", status="pending", failures=[MISHAP])
    done, failures = split_pending(built(ROWS[0], away), "b7")
    assert done.column("session_id").to_pylist() == ["s1"]
    assert failures.schema.equals(FAILURES)
    (row,) = failures.to_pylist()
    assert (row["kind"], row["session_id"], row["batch_id"]) == ("bad_json", "s9", "b7")


def test_failures_of_reading_belong_to_a_tenant_and_no_session() -> None:
    struct = failure_struct(MISHAP, ids.record_failure_id("acme", MISHAP))
    (row,) = record_failures_to([struct], "acme", "b7").to_pylist()
    assert (row["tenant"], row["session_key"], row["batch_id"]) == ("acme", "", "b7")
    assert (row["file"], row["line"], row["field"], row["turn_index"]) == ("f", 3, "x", 1)
    assert record_failures_to([], "acme", "b7").schema.equals(FAILURES)


def test_columns_are_added_in_the_order_of_the_schema() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int32())])
    table = with_columns(pa.table({"a": [1]}), schema, {"c": [3], "b": ["2"]})
    assert table.schema.equals(schema)
    with pytest.raises(KeyError):
        with_columns(pa.table({"a": [1]}), schema, {"c": [3]})


def test_lists_are_cut_by_their_lengths() -> None:
    kind = pa.struct([("n", pa.int64()), ("v", pa.list_(pa.float32(), 2))])
    rows = struct_rows(kind, {"n": [1, 2, 3], "v": np.arange(6.0).reshape(3, 2)})
    lists = nested(rows, [2, 0, 1]).to_pylist()
    assert [[row["n"] for row in one] for one in lists] == [[1, 2], [], [3]]
    assert lists[2][0]["v"] == [4.0, 5.0]
    assert struct_rows(kind, {"n": [], "v": np.zeros((0, 2))}).type == kind


def test_built_rows_have_every_column_of_the_manifest_but_the_writes_own() -> None:
    names = built_schema(DIMENSION).names
    assert set(MANIFEST.names) - set(names) == {"batch_id", "built_at"}
    assert names[-4:] == list(DATA_TABLES)
