from datetime import timedelta

from glong.sources import msc
from glong.sources.records import Assumed, Found
from glong.types import Failure, Place

PLACE = Place("msc.jsonl", 1)
LABEL = "I OWN A JEEP"


def episode() -> dict[str, object]:
    turn = {"speaker": "Speaker 1", "text": "Hi", "persona_text": LABEL}
    back = {
        1: {"time_back_at_session_3": "5 days 1 hour ago"},
        2: {"time_back_at_session_3": " 2 hours ago"},
    }
    return {
        "id": "test_0",
        "init_personas": [[LABEL], [LABEL]],
        "personas_before_session_3": [[LABEL]],
        "sessions": [{"session": n, "dialog": [turn]} | back.get(n, {}) for n in range(1, 6)],
    }


def test_sessions_stand_in_order_around_the_nominal_instant() -> None:
    items = list(msc.sessions(episode(), PLACE))
    sessions = [item.session for item in items if isinstance(item, Found)]
    assert [s.session_id for s in sessions] == [f"session_{n}" for n in range(1, 6)]
    starts = [s.started_at for s in sessions]
    assert starts == [
        msc.SESSION_3 - timedelta(days=5, hours=1),
        msc.SESSION_3 - timedelta(hours=2),
        msc.SESSION_3,
        msc.SESSION_3 + msc.GAP,
        msc.SESSION_3 + 2 * msc.GAP,
    ]
    assert Assumed(msc.ASSUMED) in items
    assert msc.SESSION_3.strftime("%Y-%m-%dT%H:%M:%SZ") in msc.ASSUMED
    assert f"{msc.GAP.days} days" in msc.ASSUMED


def test_personas_are_not_read() -> None:
    assert LABEL not in repr(list(msc.sessions(episode(), PLACE)))


def test_a_bad_session_fails_alone() -> None:
    record = episode()
    turns = [{"speaker": "Speaker 1", "text": "Hi"}]
    record["sessions"] = [
        {"session": 1, "dialog": turns},
        {"session": 2, "dialog": turns, "time_back_at_session_3": "long ago"},
        {"session": 6, "dialog": turns},
        {"session": True, "dialog": turns},
        {"session": 3, "dialog": turns},
    ]
    items = list(msc.sessions(record, PLACE))
    assert [(i.kind, i.place.field) for i in items if isinstance(i, Failure)] == [
        ("missing_field", "sessions[0].time_back_at_session_3"),
        ("bad_time", "sessions[1].time_back_at_session_3"),
        ("wrong_type", "sessions[2].session"),
        ("wrong_type", "sessions[3].session"),
    ]
    assert [i.raw_id for i in items if isinstance(i, Found)] == ["session_3"]


def test_an_episode_is_recognised() -> None:
    assert msc.recognise(episode())
    assert not msc.recognise({"sessions": []})
    assert not msc.recognise({"sessions": [{"session_id": "s", "turns": []}]})
