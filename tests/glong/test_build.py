"""Sessions to rows."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from glong import ids
from glong.build import Models, build_rows, embed_rows, extract_rows, prepare, weigh_rows
from glong.errors import ModelError
from glong.models.fake import FakeEncoder, FakeExtractor, FakeScorer
from glong.tables import built_schema, explode, manifest_rows, split_pending
from glong.types import Extraction, Failure, Session, Triplet, Turn

START = datetime(2026, 1, 5, 10, tzinfo=UTC)
LATER = datetime(2026, 1, 5, 10, 5, tzinfo=UTC)
SESSION = Session(
    "d",
    "s",
    START,
    (
        Turn(0, "Mira", "I got a greyhound."),
        Turn(2, "Tom", "I like dogs.", LATER),
    ),
)
DIMENSION = 8


class Fixed:
    """An extractor with one answer for every session."""

    fingerprint = "fixed"

    def __init__(self, extraction: Extraction) -> None:
        self.extraction = extraction

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        return [self.extraction for _ in sessions]


def models(extraction: Extraction | None = None) -> Models:
    extractor = FakeExtractor() if extraction is None else Fixed(extraction)
    return Models(extractor, FakeScorer(), FakeEncoder(dimension=DIMENSION))


TRIPLETS = (
    Triplet("I", "has pet", "a greyhound", 0),
    Triplet("Mira", "has_pet", "Greyhound", 0),
    Triplet("I", "likes", "dogs", 2),
    Triplet("I", "likes", "...", 2),
)


def built(extraction: Extraction) -> dict[str, list[dict[str, object]]]:
    rows = build_rows("t", [SESSION], models(extraction))
    assert rows.schema.equals(built_schema(DIMENSION))
    tables = {name: table.to_pylist() for name, table in explode(rows, "b", DIMENSION).items()}
    return tables | {"sessions": manifest_rows(rows, "b", START).to_pylist()}


def test_rows_of_a_session_name_people_and_point_to_their_turns() -> None:
    tables = built(Extraction(triplets=TRIPLETS, n_windows=1))
    (manifest,) = tables["sessions"]
    assert {k: manifest[k] for k in ("n_turns", "n_triplets", "n_edges", "n_entities")} == {
        "n_turns": 2,
        "n_triplets": 4,
        "n_edges": 2,
        "n_entities": 4,
    }
    assert manifest["status"] == "built"
    facts = [(e["subject"], e["relation"], e["object"], e["turn_index"]) for e in tables["edges"]]
    assert facts == [("Mira", "has_pet", "a greyhound", 0), ("Tom", "likes", "dogs", 2)]
    assert [e["created_at"] for e in tables["edges"]] == [START, LATER]
    turns = {t["turn_id"]: t for t in tables["turns"]}
    assert [turns[e["turn_id"]]["turn_index"] for e in tables["edges"]] == [0, 2]
    names = {e["entity_id"]: e["name"] for e in tables["entities"]}
    assert [names[e["head_id"]] for e in tables["edges"]] == ["Mira", "Tom"]
    assert {row["batch_id"] for name in ("turns", "edges") for row in tables[name]} == {"b"}
    assert {row["session_key"] for row in tables["edges"]} == {ids.session_key("t", "d", "s")}


def test_weights_are_scores_over_the_sessions_maximum() -> None:
    tables = built(Extraction(triplets=TRIPLETS, n_windows=1))
    (manifest,) = tables["sessions"]
    weights = [edge["weight"] for edge in tables["edges"]]
    scores = [edge["score"] for edge in tables["edges"]]
    assert max(weights) == 1.0
    assert max(scores) == manifest["max_score"]
    np.testing.assert_allclose(weights, np.array(scores) / max(scores), rtol=1e-6)


def test_a_triplet_without_a_name_is_a_stored_failure() -> None:
    tables = built(Extraction(triplets=TRIPLETS, n_windows=1))
    assert [(f["stage"], f["kind"], f["turn_index"]) for f in tables["failures"]] == [
        ("extract", "empty_name", 2)
    ]
    assert tables["sessions"][0]["n_failures"] == 1


def test_no_triplets_is_a_normal_result() -> None:
    tables = built(Extraction(n_windows=1))
    assert tables["sessions"][0]["status"] == "built"
    assert tables["sessions"][0]["max_score"] is None
    assert len(tables["turns"]) == 2
    assert tables["edges"] == tables["failures"] == []


UNREADABLE = Failure("extract", "unparsable_output", "No JSON.", raw="?", turn_index=0)


def test_a_session_that_nothing_could_read_is_failed_and_keeps_its_turns() -> None:
    tables = built(Extraction(failures=(UNREADABLE,), n_windows=1))
    assert tables["sessions"][0]["status"] == "failed"
    assert len(tables["turns"]) == 2
    assert [f["kind"] for f in tables["failures"]] == ["unparsable_output"]


def test_one_unread_window_of_two_leaves_the_session_built() -> None:
    tables = built(Extraction(failures=(UNREADABLE,), n_windows=2))
    assert tables["sessions"][0]["status"] == "built"


def test_of_a_session_with_a_passing_cause_only_the_failure_is_stored() -> None:
    passing = Failure("extract", "unavailable", "503", turn_index=0, transient=True)
    rows = build_rows("t", [SESSION], models(Extraction(TRIPLETS, (passing,), n_windows=2)))
    done, failures = split_pending(rows, "b")
    assert done.num_rows == 0
    assert failures.column("kind").to_pylist() == ["unavailable", "empty_name"]
    assert set(failures.column("session_key").to_pylist()) == {ids.session_key("t", "d", "s")}


@pytest.mark.parametrize("bad", [[0.0, 1.0], [float("nan"), 1.0], [1.0], [-1.0, 2.0]])
def test_scores_that_cannot_be_are_an_error_not_a_row(bad: list[float]) -> None:
    class Broken:
        fingerprint = "broken"

        def weigh(self, sessions: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
            return [np.array(bad) for _ in sessions]

    rows = extract_rows(prepare("t", [SESSION]), Fixed(Extraction(TRIPLETS, n_windows=1)))
    with pytest.raises(ModelError, match="allowed: one finite number above 0 each"):
        weigh_rows(rows, Broken())


NAMES = st.sampled_from(["Mira", "Tom", "Ana", "猫", "Zoë"])
TURNS = st.lists(st.tuples(NAMES, st.text(min_size=1, max_size=40)), min_size=1, max_size=6)


@given(st.lists(TURNS, min_size=1, max_size=12), st.data())
@settings(max_examples=40, deadline=None)
def test_rows_do_not_depend_on_the_batch_or_its_order(
    contents: list[list[tuple[str, str]]], data: st.DataObject
) -> None:
    sessions = [
        Session("d", f"s{n}", START, tuple(Turn(i, *turn) for i, turn in enumerate(turns)))
        for n, turns in enumerate(contents)
    ]
    whole = build_rows("t", sessions, models())
    order = data.draw(st.permutations(range(len(sessions))))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sessions)), max_size=3)))
    shuffled = [sessions[i] for i in order]
    bounds = [0, *cuts, len(sessions)]
    parts = [build_rows("t", shuffled[a:b], models()) for a, b in pairwise(bounds) if b > a]
    keys = [("session_key", "ascending")]
    assert pa.concat_tables(parts).sort_by(keys).equals(whole.sort_by(keys))


def test_an_empty_batch_goes_through_every_step() -> None:
    three = models()
    rows = weigh_rows(extract_rows(prepare("t", []), three.extractor), three.scorer)
    assert embed_rows(rows, three.encoder).num_rows == 0
