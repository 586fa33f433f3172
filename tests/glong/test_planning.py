"""What has to be built."""

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from glong import ids
from glong.build import Fingerprints
from glong.planning import KNOWN_COLUMNS, Planner, Rebuild, known_sessions
from glong.store import Forgotten, by_hand_id
from glong.store.forgotten import Kind, Mark, said
from glong.types import Failure, Session, Turn
from tests.glong.store.rows import forgotten

NOTHING = Forgotten()

NOW = Fingerprints("e1", "s1", "v1")
START = datetime(2026, 1, 5, 10, tzinfo=UTC)


def session(session_id: str, text: str = "Hello.") -> Session:
    return Session("d", session_id, START, (Turn(0, "Mira", text),))


def manifest_row(of: Session, status: str = "built", extractor: str = "e1") -> dict[str, str]:
    key = ids.session_key("t", of.dialogue_id, of.session_id)
    values = (key, ids.content_hash(of), status, extractor, "s1", "v1")
    return dict(zip(KNOWN_COLUMNS, values, strict=True))


def planner(
    rebuild: Rebuild = Rebuild.NONE, marks: Forgotten = NOTHING, restore: bool = False
) -> Planner:
    rows = [
        manifest_row(session("done")),
        manifest_row(session("stale"), extractor="e0"),
        manifest_row(session("broken"), status="failed"),
        manifest_row(session("changed", "Old text.")),
    ]
    known = known_sessions(pa.Table.from_pylist(rows), NOW)
    return Planner("t", known, marks, rebuild, restore)


def wants(plan: Planner, one: Session) -> bool:
    """Whether it is to be built."""
    return plan.screen(one) is not None


SESSIONS = [session(name) for name in ("new", "done", "stale", "broken", "changed")]


@pytest.mark.parametrize(
    ("rebuild", "expected"),
    [
        (Rebuild.NONE, ["new", "changed"]),
        (Rebuild.STALE, ["new", "stale", "changed"]),
        (Rebuild.FAILED, ["new", "broken", "changed"]),
        (Rebuild.ALL, ["new", "done", "stale", "broken", "changed"]),
    ],
)
def test_what_is_built_again_is_what_was_asked_for(rebuild: Rebuild, expected: list[str]) -> None:
    plan = planner(rebuild)
    assert [s.session_id for s in SESSIONS if wants(plan, s)] == expected
    assert plan.counts["seen"] == len(SESSIONS)
    assert plan.counts["pending"] + plan.counts["skipped"] == len(SESSIONS)


def test_what_is_stale_is_counted_so_that_the_user_is_told() -> None:
    plan = planner()
    for one in SESSIONS:
        wants(plan, one)
    assert plan.counts["stale"] == 1


DIALOGUE = ids.dialogue_key("t", "d")
NEW = ids.session_key("t", "d", "new")


@pytest.mark.parametrize(
    "mark",
    [Mark(Kind.DIALOGUE, (DIALOGUE,)), Mark(Kind.SESSION, (NEW,))],
    ids=["dialogue", "session"],
)
def test_what_was_forgotten_stays_forgotten_even_when_all_is_rebuilt(mark: Mark) -> None:
    plan = planner(Rebuild.ALL, forgotten(DIALOGUE, mark))
    assert not wants(plan, session("new"))
    assert plan.counts == {"seen": 1, "forgotten": 1}
    assert wants(planner(Rebuild.NONE, forgotten(DIALOGUE, mark), restore=True), session("new"))


def test_a_forgotten_turn_is_left_out_before_anything_looks_at_the_session() -> None:
    two = Session("d", "new", START, (Turn(0, "Mira", "Hello."), Turn(1, "Mira", "A secret.")))
    plan = planner(marks=forgotten(DIALOGUE, Mark(Kind.TURN, (NEW, said("Mira", "a  SECRET.")))))
    assert plan.screen(two) == Session("d", "new", START, two.turns[:1])
    assert plan.counts == {"seen": 1, "pending": 1, "forgotten_turns": 1}
    known = known_sessions(
        pa.Table.from_pylist([manifest_row(replace(two, turns=two.turns[:1]))]), NOW
    )
    assert not wants(Planner("t", known, plan.forgotten), two)


def test_a_session_of_which_an_edge_was_forgotten_is_built_again_only_to_restore_it() -> None:
    done = ids.session_key("t", "d", "done")
    marks = forgotten(DIALOGUE, Mark(Kind.EDGE, (done, "mira", "likes", "corn")))
    assert not wants(planner(marks=marks), session("done"))
    assert wants(planner(marks=marks, restore=True), session("done"))


def test_a_reserved_session_id_is_a_failure() -> None:
    for reserved in (by_hand_id(), by_hand_id("s1")):
        refused = planner().screen(session(reserved))
        assert isinstance(refused, Failure)
        assert refused.kind == "reserved_session_id"
    assert isinstance(planner().screen(session("by-hand-made")), Session)


def test_another_tenants_manifest_says_nothing() -> None:
    other = Planner("u", planner().known)
    assert wants(other, session("done"))


@pytest.mark.parametrize(
    "changed",
    [
        Session("d", "done", START, (Turn(0, "Mira", "Hello!"),)),
        Session("d", "done", START, (Turn(0, "Tom", "Hello."),)),
        Session("d", "done", START, (Turn(1, "Mira", "Hello."),)),
        Session("d", "done", None, (Turn(0, "Mira", "Hello."),)),
        Session("d", "done", START, (Turn(0, "Mira", "Hello.", START),)),
    ],
)
def test_any_change_of_content_makes_a_session_pending(changed: Session) -> None:
    assert wants(planner(), changed)


def test_of_two_sessions_with_one_id_the_first_goes_on() -> None:
    plan = planner()
    first, other = session("new"), session("new", "Something else.")
    assert plan.screen(first) is first
    assert plan.screen(first) is None
    conflict = plan.screen(other)
    assert isinstance(conflict, Failure)
    assert conflict.kind == "conflicting_session"
    assert "Session 'new' of dialogue 'd'" in conflict.message
    assert plan.counts == {"seen": 3, "pending": 1, "duplicates": 1, "conflicts": 1}


def test_what_is_skipped_counts_as_the_first_too() -> None:
    plan = planner()
    assert plan.screen(session("done")) is None
    assert isinstance(plan.screen(session("done", "Something else.")), Failure)


def test_failures_of_reading_go_on() -> None:
    failure = Failure("read", "bad_time", "m")
    assert planner().screen(failure) is failure
