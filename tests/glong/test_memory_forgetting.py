"""Forgetting, facts by hand and export in the embedded mode, with fake models."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from glong.errors import ConfigError, ConflictError, NotFoundError, SourceError
from glong.memory import Added, Memory
from glong.models.fake import FakeExtractor
from glong.planning import Rebuild
from glong.store.lease import alone
from glong.types import Extraction, Session, Triplet, Turn

START = datetime(2026, 1, 5, 10, tzinfo=UTC)
LATER = datetime(2026, 3, 1, tzinfo=UTC)
TURNS = (
    Turn(0, "Mira", "I got a greyhound."),
    Turn(1, "Tom", "Nice, I grill corn with Ann."),
    Turn(2, "Mira", "Ann grills too."),
)
FACTS = {
    "I got a greyhound.": Triplet("I", "has_pet", "a greyhound", 0),
    "Nice, I grill corn with Ann.": Triplet("I", "grills_with", "Ann", 0),
    "Ann grills too.": Triplet("Ann", "likes", "grilling", 0),
}
SESSION = Session("d", "s1", START, TURNS)


@pytest.fixture(autouse=True)
def facts(monkeypatch: pytest.MonkeyPatch) -> None:
    def extract(self: FakeExtractor, sessions: Sequence[Session]) -> list[Extraction]:
        return [
            Extraction(
                tuple(
                    Triplet(f.subject, f.relation, f.object, turn.index)
                    for turn in session.turns
                    for f in [FACTS[turn.text]]
                ),
                n_windows=1,
            )
            for session in sessions
        ]

    monkeypatch.setattr(FakeExtractor, "extract", extract)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(str(tmp_path / "store"), models="fake") as opened:
        opened.build([SESSION])
        yield opened


def facts_of(memory: Memory) -> set[tuple[str, str, str]]:
    graph = memory.graph("d")
    return set(zip(graph.subjects, graph.relations, graph.objects, strict=True))


def edge_of(memory: Memory, object_: str) -> str:
    graph = memory.graph("d")
    return graph.edge_ids[graph.objects.index(object_)]


# Forgetting

CASES: list[tuple[dict[str, Any], Added]] = [
    ({}, Added(n_forgotten=1)),
    ({"session_id": "s1"}, Added(n_forgotten=1)),
    (
        {"session_id": "s1", "turn_index": 1},
        Added(n_built=1, n_turns=2, n_triplets=2, n_edges=2, n_forgotten_turns=1),
    ),
    (
        {"entity": "Ann"},
        Added(n_built=1, n_turns=3, n_triplets=3, n_edges=1, n_forgotten_edges=2),
    ),
    (
        {"entity": "Ann", "turns": True},
        Added(n_built=1, n_turns=1, n_triplets=1, n_edges=1, n_forgotten_turns=2),
    ),
]


@pytest.mark.parametrize(("target", "counted"), CASES)
def test_forgotten_stays_forgotten_through_a_rebuild_until_it_is_restored(
    memory: Memory, target: dict[str, Any], counted: Added
) -> None:
    whole = facts_of(memory)
    memory.forget("d", **target)
    n_edges = memory.store.visible("edges").num_rows
    again = memory.build([SESSION])
    assert again == (counted if counted.n_forgotten else Added(n_skipped=1))
    assert memory.build([SESSION], rebuild=Rebuild.ALL) == counted
    assert memory.store.visible("edges").num_rows == n_edges
    assert memory.store.verify() == []
    restored = memory.build([SESSION], restore_forgotten=True)
    assert restored == Added(n_built=1, n_turns=3, n_triplets=3, n_edges=3)
    assert facts_of(memory) == whole
    assert memory.build([SESSION], restore_forgotten=True) == Added(n_skipped=1)
    assert memory.store.verify() == []


def test_a_session_posted_anew_comes_back_and_the_others_stay_away(memory: Memory) -> None:
    other = Session("d", "s2", START, TURNS[:1])
    memory.build([other])
    memory.forget("d")
    posted = [{"speaker": t.speaker, "text": t.text} for t in TURNS]
    options: dict[str, Any] = {"session_id": "s1", "started_at": START}
    assert memory.add_session("d", posted, **options) == Added(n_forgotten=1)
    assert memory.add_session("d", posted, **options, restore_forgotten=True).n_built == 1
    assert memory.add_session("d", posted, **options) == Added(n_skipped=1)
    assert memory.build([other], rebuild=Rebuild.ALL) == Added(n_forgotten=1)
    memory.forget("d", session_id="s1")
    with pytest.raises(NotFoundError):
        memory.graph("d")


def test_a_retrieval_during_a_purge_answers_and_its_use_is_noted_afterwards(memory: Memory) -> None:
    with alone(memory.store.layout):
        assert memory.retrieve("d", "greyhound").hits
    assert memory.store.visible("accesses").num_rows == 0
    memory.retrieve("d", "greyhound")
    assert memory.store.visible("accesses").num_rows >= 2
    with alone(memory.store.layout), pytest.raises(ConflictError):
        memory.forget("d")


# Facts by hand


def test_a_fact_by_hand_has_weight_1_says_who_stated_it_and_survives_a_rebuild(
    memory: Memory,
) -> None:
    edge_id = memory.add_fact("d", "Mira", "has pet", "Rex", time=LATER, stated_by="Tom")
    assert memory.add_fact("d", "mira", "has_pet", "Rex", time=LATER) == edge_id
    memory.build([SESSION], rebuild=Rebuild.ALL)
    graph = memory.graph("d")
    edge = graph.edge(graph.edge_ids.index(edge_id))
    assert (edge.subject, edge.relation, edge.object) == ("Mira", "has_pet", "Rex")
    assert (edge.weight, edge.created_at, edge.session_id) == (1.0, LATER, "by-hand")
    turn = graph.turn(int(graph.edge_turn[graph.edge_ids.index(edge_id)]))
    assert (turn.speaker, turn.text, turn.time) == ("Tom", "Mira has pet Rex", LATER)
    (row,) = [r for r in memory.store.manifest().to_pylist() if r["session_id"] == "by-hand"]
    assert (row["extractor"], row["scorer"], row["status"]) == ("by-hand", "by-hand", "built")
    assert memory.store.verify() == []
    assert memory.retrieve("d", "Which pet is Rex?", k=1).hits[0].object == "Rex"


def test_a_fact_about_a_session_has_its_time_and_is_forgotten_with_it(memory: Memory) -> None:
    memory.add_fact("d", "Mira", "likes", "figs", session_id="s1")
    kept = memory.add_fact("d", "Mira", "likes", "plums", time=LATER)
    graph = memory.graph("d")
    assert graph.edge(graph.edge_ids.index(edge_of(memory, "figs"))).created_at == START
    memory.forget("d", session_id="s1")
    assert memory.graph("d").edge_ids == (kept,)


@pytest.mark.parametrize("time", [None, LATER])
def test_no_fact_is_stated_about_a_session_that_is_not_there(
    memory: Memory, time: datetime | None
) -> None:
    memory.forget("d", session_id="s1")
    memory.build([Session("d", "s2", START, TURNS[:1])])
    for session_id in ("s1", "s9"):
        with pytest.raises(NotFoundError, match=f"no session '{session_id}'"):
            memory.add_fact("d", "Mira", "likes", "figs", time=time, session_id=session_id)
    with pytest.raises(NotFoundError, match="no dialogue 'new'"):
        memory.add_fact("new", "Mira", "likes", "figs", time=time, session_id="s1")
    assert "figs" not in memory.graph("d").objects


def test_a_fact_about_a_session_may_have_a_time_of_its_own(memory: Memory) -> None:
    memory.add_fact("d", "Mira", "likes", "figs", time=LATER, session_id="s1")
    graph = memory.graph("d")
    assert graph.edge(graph.edge_ids.index(edge_of(memory, "figs"))).created_at == LATER


def test_a_fact_makes_a_memory_where_there_is_none_and_can_be_forgotten(memory: Memory) -> None:
    edge_id = memory.add_fact("new", "Mira", "likes", "figs", time=LATER)
    receipt = memory.forget("new", edge_id=edge_id)
    assert receipt.rows == {"turns": 1, "entities": 2, "edges": 1, "sessions": 1}
    assert memory.add_fact("new", "Mira", "likes", "figs", time=LATER)
    assert memory.graph("new").n_edges == 1
    assert memory.store.verify() == []


def test_an_edge_is_corrected_for_good(memory: Memory) -> None:
    corrected = memory.correct("d", edge_of(memory, "a greyhound"), object="a whippet")
    for _ in range(2):
        assert ("Mira", "has_pet", "a whippet") in facts_of(memory)
        assert "a greyhound" not in memory.graph("d").objects
        memory.build([SESSION], rebuild=Rebuild.ALL)
    graph = memory.graph("d")
    edge = graph.edge(graph.edge_ids.index(corrected))
    assert (edge.created_at, edge.session_id) == (START, "by-hand:s1")
    assert graph.n_turns == 4  # the source turn stays
    assert memory.store.verify() == []


def test_a_fact_by_hand_is_corrected_in_its_place(memory: Memory) -> None:
    first = memory.add_fact("d", "Mira", "has pet", "rex", time=LATER)
    other = memory.add_fact("d", "Mira", "likes", "figs", time=LATER)
    second = memory.correct("d", first, object="Rex")
    graph = memory.graph("d")
    assert first not in graph.edge_ids
    assert {second, other} <= set(graph.edge_ids)
    assert graph.objects.count("Rex") == 1
    assert not memory.store.purge_due
    assert memory.store.verify() == []


def test_what_cannot_be_corrected_is_refused(memory: Memory) -> None:
    edge_id = edge_of(memory, "a greyhound")
    with pytest.raises(ConfigError, match="Nothing to correct"):
        memory.correct("d", edge_id)
    with pytest.raises(ConfigError, match="object is ' '"):
        memory.correct("d", edge_id, object=" ")
    with pytest.raises(NotFoundError):
        memory.correct("d", "none", object="x")
    with pytest.raises(NotFoundError):
        memory.correct("none", edge_id, object="x")


def test_two_that_state_facts_at_once_both_succeed(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(wave: Any) -> int:
        monkeypatch.setattr(type(memory.store), "append_wave", append)
        memory.add_fact("d", "Tom", "likes", "peas", time=LATER)
        return append(memory.store, wave)

    append = type(memory.store).append_wave
    monkeypatch.setattr(type(memory.store), "append_wave", lambda self, wave: late(wave))
    memory.add_fact("d", "Tom", "likes", "figs", time=LATER)
    assert {"figs", "peas"} <= set(memory.graph("d").objects)
    assert memory.store.verify() == []


def test_the_session_id_of_facts_by_hand_is_reserved(memory: Memory) -> None:
    with pytest.raises(SourceError, match="reserved"):
        memory.add_session("d", [{"speaker": "A", "text": "Hi."}], session_id="by-hand")


# Export


def test_a_memory_is_exported_as_one_document(memory: Memory, tmp_path: Path) -> None:
    memory.add_fact("d", "Mira", "likes", "figs", time=LATER)
    memory.build([Session("e", "s1", START, TURNS[:1])])
    document = memory.export("d", tmp_path / "d.json")
    assert json.loads((tmp_path / "d.json").read_text()) == document
    assert document["dialogue_id"] == "d"
    assert [s["session_id"] for s in document["sessions"]] == ["s1", "by-hand"]
    assert document["sessions"][0]["started_at"] == "2026-01-05T10:00:00Z"
    assert sorted(turn["text"] for turn in document["turns"])[-1] == "Nice, I grill corn with Ann."
    assert {edge["object"] for edge in document["edges"]} == {
        "a greyhound", "Ann", "grilling", "figs",
    }  # fmt: skip
    assert document["failures"] == []
    assert not any("vector" in edge for edge in document["edges"])
    with pytest.raises(NotFoundError):
        memory.export("none")
