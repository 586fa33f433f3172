from datetime import UTC, datetime, timedelta, timezone

from glong.sources import native
from glong.sources.records import NO_ZONE, Assumed, Found
from glong.types import Failure, Place, Session, Turn

PLACE = Place("chat.jsonl", 3)
TURN = {"speaker": "Mira", "text": "I grill."}


def dialogue(*sessions: object) -> dict[str, object]:
    return {"dialogue_id": "mira", "sessions": list(sessions)}


def session(name: object = "s1", start: object = "2026-01-05T10:00:00Z") -> dict[str, object]:
    return {"session_id": name, "started_at": start, "turns": [TURN]}


def failures(record: object) -> list[tuple[str, str]]:
    items = native.sessions(record, PLACE)
    return [(item.kind, item.place.field) for item in items if isinstance(item, Failure)]


def test_a_dialogue_becomes_its_sessions() -> None:
    turns = [TURN | {"time": "2026-01-05T11:00:30+01:00"}, {"speaker": " Tom ", "text": "Nice"}]
    found = list(native.sessions(dialogue(session() | {"turns": turns}, session("s2")), PLACE))
    start = datetime(2026, 1, 5, 10, tzinfo=UTC)
    first = (Turn(0, "Mira", "I grill.", start.replace(second=30)), Turn(1, "Tom", "Nice"))
    assert found == [
        Found(Session("mira", "s1", start, first), "s1"),
        Found(Session("mira", "s2", start, (Turn(0, "Mira", "I grill."),)), "s2"),
    ]


def test_ids_may_be_numbers_and_times_timestamps_as_parquet_has_them() -> None:
    start = datetime(2026, 1, 5, 10, tzinfo=timezone(timedelta(hours=2)))
    record = dialogue(session(7, start)) | {"dialogue_id": 42}
    (found,) = native.sessions(record, PLACE)
    assert isinstance(found, Found)
    assert (found.session.dialogue_id, found.session.session_id) == ("42", "7")
    assert found.session.started_at == start
    assert found.session.started_at.tzinfo is UTC


def test_a_time_without_a_zone_is_taken_as_utc_and_it_is_said() -> None:
    assert Assumed(NO_ZONE) in list(native.sessions(dialogue(session(start="2026-01-05")), PLACE))
    turn_time = dialogue(session() | {"turns": [TURN | {"time": "2026-01-05T10:00:00"}]})
    assert Assumed(NO_ZONE) in list(native.sessions(turn_time, PLACE))


def test_a_bad_session_fails_alone() -> None:
    no_start = {"session_id": "s", "turns": [TURN]}
    record = dialogue(no_start, session(start="soon"), session(name=None), 7, session("ok"))
    assert failures(record) == [
        ("missing_field", "sessions[0].started_at"),
        ("bad_time", "sessions[1].started_at"),
        ("missing_field", "sessions[2].session_id"),
        ("wrong_type", "sessions[3]"),
    ]
    assert [
        i.session.session_id for i in native.sessions(record, PLACE) if isinstance(i, Found)
    ] == ["ok"]


def test_a_bad_turn_fails_alone() -> None:
    turns = [TURN, {"speaker": "Tom"}, TURN | {"time": "soon"}, TURN | {"speaker": ""}, "Hi"]
    record = dialogue(session() | {"turns": turns})
    assert failures(record) == [
        ("missing_field", "sessions[0].turns[1].text"),
        ("bad_time", "sessions[0].turns[2].time"),
        ("missing_field", "sessions[0].turns[3].speaker"),
        ("wrong_type", "sessions[0].turns[4]"),
    ]


def test_a_dialogue_without_id_or_sessions_is_one_failure() -> None:
    assert failures({"sessions": [session()]}) == [("missing_field", "dialogue_id")]
    assert failures({"dialogue_id": "d"}) == [("missing_field", "sessions")]
    assert failures(dialogue()) == [("empty_dialogue", "sessions")]
    assert failures([1]) == [("wrong_type", "")]
    assert failures(dialogue(session() | {"turns": []})) == [("empty_session", "sessions[0].turns")]


def test_a_native_record_is_recognised() -> None:
    assert native.recognise(dialogue())
    assert not native.recognise({"id": "x", "sessions": []})
