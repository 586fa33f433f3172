"""The embedded mode, with fake models."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from glong.config import FAKE_MODELS, PROFILES
from glong.errors import ConfigError, NotFoundError, SchemaError, SourceError, StoreNotFoundError
from glong.memory import Added, Memory, hit_of
from glong.models.fake import FakeEncoder, FakeExtractor
from glong.planning import Rebuild
from glong.retrieval import MemoryIndex, Query, Scored, query_text, retrieve
from glong.sources import Reader, sample_dialogues
from glong.store import Store
from glong.types import Extraction, Failure, Place, Session, Triplet, Turn

START = "2026-01-05T10:00:00Z"
NOW = datetime(2026, 2, 1, tzinfo=UTC)
TURNS = [
    {"speaker": "Mira", "text": "I got a greyhound."},
    {"speaker": "Tom", "text": "Nice, I grill corn.", "time": "2026-01-05T10:05:00+01:00"},
]
FACTS = (Triplet("I", "has_pet", "a greyhound", 0), Triplet("I", "grills", "corn", 1))


@pytest.fixture(autouse=True)
def facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the fake extractor finds, said here, so that tests can be read."""

    def extract(self: FakeExtractor, sessions: Sequence[Session]) -> list[Extraction]:
        return [
            Extraction(tuple(f for f in FACTS if f.turn_index < len(s.turns)), n_windows=1)
            for s in sessions
        ]

    monkeypatch.setattr(FakeExtractor, "extract", extract)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(str(tmp_path / "store"), models="fake") as opened:
        yield opened


def add(memory: Memory, turns: Any = TURNS, session_id: str = "s1", **options: Any) -> Added:
    return memory.add_session("d", turns, session_id=session_id, **{"started_at": START} | options)


# Adding


def test_a_session_is_built_and_counted(memory: Memory) -> None:
    assert add(memory) == Added(n_built=1, n_turns=2, n_triplets=2, n_edges=2)
    graph = memory.graph("d")
    assert graph.turn_texts == ("I got a greyhound.", "Nice, I grill corn.")
    assert graph.subjects == ("Mira", "Tom")
    assert memory.store.verify() == []


def test_the_same_session_again_does_nothing(memory: Memory) -> None:
    add(memory)
    version = memory.store.version
    assert add(memory) == Added(n_skipped=1)
    assert add(memory, started_at=datetime(2026, 1, 5, 10, tzinfo=UTC)) == Added(n_skipped=1)
    same_instant = datetime(2026, 1, 5, 12, tzinfo=timezone(timedelta(hours=2)))
    assert add(memory, started_at=same_instant) == Added(n_skipped=1)
    assert memory.store.version == version


def test_other_content_under_one_id_replaces_the_old(memory: Memory) -> None:
    add(memory)
    assert add(memory, TURNS[:1]).n_built == 1
    graph = memory.graph("d")
    assert (graph.n_turns, graph.n_edges) == (1, 1)
    assert memory.store.manifest().num_rows == 1


def test_two_sessions_share_entities(memory: Memory) -> None:
    add(memory)
    add(memory, session_id="s2", started_at="2026-01-06T10:00:00Z")
    graph = memory.graph("d")
    assert (graph.n_entities, graph.n_edges) == (4, 4)


@pytest.mark.parametrize(
    ("turns", "says"),
    [
        ([{"text": "Hi."}], "sessions[0].turns[0].speaker is missing; add it"),
        ([TURNS[0], {"speaker": "Tom", "text": "  "}], "sessions[0].turns[1].text is '  '"),
        ([TURNS[0], {"speaker": "Tom", "text": 5}], "sessions[0].turns[1].text is 5 (int)"),
        ([TURNS[0] | {"time": "soon"}], "sessions[0].turns[0].time is 'soon'"),
        ([None], "sessions[0].turns[0] is None"),
        (["Hello."], "sessions[0].turns[0] is 'Hello.' (str); allowed: an object"),
        ([], "sessions[0].turns is [] (list); allowed: at least one"),
    ],
)
def test_a_bad_turn_names_its_field_and_nothing_is_stored(
    turns: list[Any], says: str, memory: Memory
) -> None:
    with pytest.raises(SourceError) as refused:
        add(memory, turns)
    assert says in str(refused.value)
    assert memory.store.manifest().num_rows == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"started_at": "yesterday"}, "started_at is 'yesterday'"),
        ({"session_id": ""}, "session_id is ''"),
    ],
)
def test_a_bad_heading_names_its_field(options: dict[str, Any], says: str, memory: Memory) -> None:
    with pytest.raises(SourceError, match=says):
        add(memory, **options)


def test_without_a_start_now_is_taken(memory: Memory) -> None:
    before = datetime.now(UTC)
    add(memory, started_at=None)
    (start,) = memory.store.manifest().column("started_at").to_pylist()
    assert before <= start <= datetime.now(UTC)


def test_without_a_start_the_same_turns_again_do_nothing(memory: Memory) -> None:
    add(memory, started_at=None)
    assert add(memory, started_at=None) == Added(n_skipped=1)
    assert add(memory, TURNS[:1], started_at=None).n_built == 1


# Building


def samples() -> Reader:
    return Reader(str(sample_dialogues()))


def test_a_stream_is_built_in_waves_with_its_failures(memory: Memory) -> None:
    broken = Failure("read", "bad_time", "m", "raw", Place("in.jsonl", 3, "x"))
    added = memory.build([broken, *samples()], wave_size=10)
    assert (added.n_built, added.n_failures) == (36, 1)
    assert memory.store.status().waves == 4
    (row,) = memory.store.visible("failures").to_pylist()
    assert (row["file"], row["line"], row["tenant"]) == ("in.jsonl", 3, "default")
    assert memory.build(samples()) == Added(n_skipped=36)


def test_rebuilding_all_builds_all_again(memory: Memory) -> None:
    memory.build(samples())
    assert memory.build(samples(), rebuild=Rebuild.ALL).n_built == 36
    assert memory.store.verify() == []


def test_what_other_models_made_is_rebuilt_when_asked(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(memory)
    monkeypatch.setattr(FakeExtractor, "fingerprint", "another")
    sessions = [session(TURNS)]
    assert memory.build(sessions).n_skipped == 1
    assert memory.build(sessions, rebuild=Rebuild.STALE).n_built == 1


def session(turns: list[dict[str, str]], session_id: str = "s1") -> Session:
    times = [None, datetime(2026, 1, 5, 9, 5, tzinfo=UTC)]
    made = (Turn(i, t["speaker"], t["text"], times[i]) for i, t in enumerate(turns))
    return Session("d", session_id, datetime(2026, 1, 5, 10, tzinfo=UTC), tuple(made))


@pytest.mark.parametrize("wave_size", [1, 16])
def test_of_two_sessions_with_one_id_the_first_is_kept(wave_size: int, memory: Memory) -> None:
    stream = [session(TURNS), session(TURNS), session(TURNS[:1]), session(TURNS, "s2")]
    added = memory.build(stream, wave_size=wave_size)
    assert (added.n_built, added.n_skipped, added.n_failures) == (2, 1, 1)
    assert memory.graph("d").n_turns == 4
    (failure,) = memory.store.visible("failures").to_pylist()
    assert failure["kind"] == "conflicting_session"


def test_a_passing_cause_leaves_a_session_for_the_next_call(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Failure("extract", "unavailable", "503", turn_index=0, transient=True)
    with monkeypatch.context() as down:
        down.setattr(
            FakeExtractor, "extract", lambda self, found: [Extraction((), (away,))] * len(found)
        )
        assert add(memory) == Added(n_pending=1, n_failures=1)
    with pytest.raises(NotFoundError):
        memory.graph("d")
    assert add(memory).n_built == 1
    assert memory.store.visible("failures").num_rows == 0


# Asking


def test_hits_come_with_parts_source_turn_and_time(memory: Memory) -> None:
    add(memory)
    result = memory.retrieve("d", "greyhound", k=1, now=NOW, profile="paper")
    (hit,) = result.hits
    assert (hit.subject, hit.relation, hit.object) == ("Mira", "has_pet", "a greyhound")
    assert (hit.turn.speaker, hit.turn.text) == ("Mira", "I got a greyhound.")
    assert hit.edge is not None
    assert hit.turn.time == hit.edge.created_at == datetime(2026, 1, 5, 10, tzinfo=UTC)
    assert hit.parts.keys() == {"similarity", "weight", "recency"}
    parts = hit.parts
    assert hit.score == pytest.approx(
        0.5 * parts["similarity"] + 0.3 * parts["weight"] + 0.2 * parts["recency"], abs=1e-6
    )
    assert result.store_version == memory.store.version


def test_the_time_of_a_turn_is_its_own_where_it_has_one(memory: Memory) -> None:
    add(memory)
    hits = memory.retrieve("d", "Tom grills corn", k=2, now=NOW, profile="paper").hits
    times = {hit.subject: hit.turn.time for hit in hits}
    assert times["Tom"] == datetime(2026, 1, 5, 9, 5, tzinfo=UTC)


@pytest.mark.parametrize("profile", PROFILES)
def test_retrieving_is_the_pure_function_on_the_stored_graph(memory: Memory, profile: str) -> None:
    memory.build(samples())
    graph = memory.graph("mira-and-tom")
    query = Query(
        text="Where does Mira live?",
        vector=FakeEncoder(384).encode(["Where does Mira live?"])[0],
        now_s=NOW.timestamp(),
    )
    index = MemoryIndex.of(graph)
    expected = retrieve(index, query, PROFILES[profile].at_k(4))
    found = memory.retrieve("mira-and-tom", query.text, k=4, now=NOW, profile=profile).hits
    assert list(found) == [hit_of(graph, scored, index.validity) for scored in expected]


def test_a_fact_that_a_later_one_closed_says_so(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived = Triplet("I", "live_in", "Bergen", 0)
    moved = Triplet("I", "live_in", "Oslo", 0)
    monkeypatch.setattr("tests.glong.test_memory.FACTS", (lived,))
    add(memory, TURNS[:1])
    monkeypatch.setattr("tests.glong.test_memory.FACTS", (moved,))
    add(memory, TURNS[:1], session_id="s2", started_at="2026-01-09T10:00:00Z")
    hits = memory.retrieve("d", "Where does Mira live?", k=2, now=NOW, profile="paper").hits
    found = {hit.object: hit.edges[0] for hit in hits}
    bergen, oslo = found["Bergen"], found["Oslo"]
    assert (bergen.valid_to, bergen.closed_by) == (oslo.created_at, oslo.edge_id)
    assert (oslo.valid_to, oslo.closed_by) == (None, "")
    facts = memory.history("d", "mira", "live_in")
    assert [fact.object for fact in facts] == ["Bergen", "Oslo"]
    assert facts[0].closed_by == oslo.edge_id
    with pytest.raises(NotFoundError, match="no entity 'Tomas'"):
        memory.history("d", "Tomas")


def test_a_question_may_leave_no_trace(memory: Memory) -> None:
    add(memory)
    assert memory.retrieve("d", "greyhound", profile="paper", touch=False).hits
    assert memory.store.visible("accesses").num_rows == 0


def test_what_was_retrieved_is_remembered_as_accessed_then(memory: Memory) -> None:
    add(memory)
    (hit,) = memory.retrieve("d", "greyhound", k=1, now=NOW, profile="paper").hits
    graph = memory.graph("d")
    accessed = dict(zip(graph.edge_ids, graph.accessed_s, strict=True))
    assert accessed.pop(hit.edge.edge_id) == NOW.timestamp()
    assert list(accessed.values()) == [graph.created_s[graph.edge_ids.index(*accessed)]]
    (again,) = memory.retrieve("d", "greyhound", k=1, now=NOW, profile="paper").hits
    assert again.parts["recency"] == 1.0


def test_without_a_time_now_is_taken(memory: Memory) -> None:
    add(memory)
    before = datetime.now(UTC).timestamp()
    memory.retrieve("d", "greyhound", k=1, profile="paper")
    assert before <= memory.graph("d").accessed_s.max() <= datetime.now(UTC).timestamp()


def test_of_a_memory_without_facts_only_turns_are_hits(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.glong.test_memory.FACTS", ())
    assert add(memory).n_edges == 0
    assert memory.retrieve("d", "I grill corn", profile="paper").hits == ()
    hits = memory.retrieve("d", "Nice, I grill corn.", profile="hybrid").hits
    assert hits
    assert all(hit.edges == () and hit.edge is None for hit in hits)
    assert all((hit.subject, hit.relation) == (hit.turn.speaker, "said") for hit in hits)
    assert all((hit.object, hit.session_id) == (hit.turn.text, "s1") for hit in hits)
    assert memory.store.visible("accesses").num_rows == 0


def test_the_recent_turns_and_the_time_reach_the_query(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Query] = []

    def retrieve_none(index: MemoryIndex, query: Query, config: object) -> list[Scored]:
        asked.append(query)
        return []

    monkeypatch.setattr("glong.memory.retrieve", retrieve_none)
    add(memory)
    recent = ["Hello.", "I got a dog."]
    memory.retrieve("d", "Is it big?", recent=recent, now=NOW, as_of=NOW - timedelta(days=1))
    (query,) = asked
    assert (query.text, query.recent) == ("Is it big?", tuple(recent))
    assert (query.now_s, query.as_of_s) == (NOW.timestamp(), NOW.timestamp() - 86_400)
    (expected,) = FakeEncoder(384).encode([query_text("Is it big?", tuple(recent))])
    assert query.vector.tolist() == expected.tolist()


def test_an_unknown_dialogue_is_an_error(memory: Memory) -> None:
    add(memory)
    with pytest.raises(NotFoundError, match="has no dialogue 'e'"):
        memory.retrieve("e", "Hello?")


def test_tenants_do_not_see_each_other(memory: Memory) -> None:
    add(memory)
    with (
        Memory.open(memory.store.uri, tenant="other", models="fake") as other,
        pytest.raises(NotFoundError, match="Tenant 'other' has no dialogue 'd'"),
    ):
        other.graph("d")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 0}, "retrieval.k is 0; allowed: 1 or more"),
        ({"profile": "best"}, "profile is 'best'; allowed: hybrid, paper"),
        ({"now": datetime(2026, 2, 1)}, "now is .*without a zone"),
        ({"as_of": datetime(2026, 2, 1)}, "as_of is .*without a zone"),
    ],
)
def test_wrong_settings_of_a_question_are_refused(
    options: dict[str, Any], says: str, memory: Memory
) -> None:
    add(memory)
    with pytest.raises(ConfigError, match=says):
        memory.retrieve("d", "greyhound", **options)
    assert memory.store.visible("accesses").num_rows == 0


# Opening


def test_a_store_of_other_models_is_refused(memory: Memory) -> None:
    small = FakeEncoder(8)
    other = type(FAKE_MODELS)(
        name="other",
        extractor=FAKE_MODELS.extractor,
        scorer=FAKE_MODELS.scorer,
        encoder=type(FAKE_MODELS.encoder)(backend="fake", dimension=8),
    )
    with pytest.raises(SchemaError, match=small.fingerprint):
        Memory.open(memory.store.uri, models=other)


def test_a_store_is_made_unless_it_has_to_be_there(tmp_path: Path) -> None:
    uri = str(tmp_path / "new")
    with pytest.raises(StoreNotFoundError, match="There is no store at"):
        Memory.open(uri, models="fake", create=False)
    assert not Path(uri).exists()
    Memory.open(uri, models="fake")
    assert Store.open(uri).manifest().num_rows == 0
