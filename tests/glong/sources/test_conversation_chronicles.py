from collections.abc import Sequence

from glong.sources import conversation_chronicles
from glong.sources.records import Assumed, Found
from glong.types import Failure, Place, Session

PLACE = Place("cc.jsonl", 1)


def episode(*fragments: Sequence[object], session_5: object = None) -> dict[str, object]:
    return {
        "id": "episode-1",
        "speakers": ["Neighbor A", "Dr: B"],
        "session_5": session_5 or [{"speaker": "Dr: B", "text": "Bye"}],
        "history_fragments_sessions_1_to_4": list(fragments),
    }


def found(record: object) -> list[Session]:
    items = conversation_chronicles.sessions(record, PLACE)
    return [item.session for item in items if isinstance(item, Found)]


def test_fragments_come_before_session_5_without_times_and_with_ids_that_sort() -> None:
    fragments = [["Neighbor A: Hi", "Dr: B: Hello: you"] for _ in range(11)]
    items = list(conversation_chronicles.sessions(episode(*fragments), PLACE))
    sessions = [item.session for item in items if isinstance(item, Found)]
    ids = [s.session_id for s in sessions]
    assert ids == [*(f"history_{n:02d}" for n in range(1, 12)), "session_5"] == sorted(ids)
    assert {s.started_at for s in sessions} == {None}
    spoken = [(t.speaker, t.text) for t in sessions[0].turns]
    assert spoken == [("Neighbor A", "Hi"), ("Dr: B", "Hello: you")]
    assert Assumed(conversation_chronicles.ASSUMED) in items


def test_a_speaker_may_stand_alone_on_the_line_before() -> None:
    session, _ = found(episode(["Neighbor A:", "Hi", "Dr: B: Hello"]))
    assert [(t.index, t.speaker) for t in session.turns] == [(1, "Neighbor A"), (2, "Dr: B")]


def test_a_line_that_names_nobody_fails_alone() -> None:
    fragment: list[object] = ["Neighbor A: Hi", "and more", 7, "Dr: B:", "Dr: B: Hello"]
    items = list(conversation_chronicles.sessions(episode(fragment), PLACE))
    assert [(i.kind, i.place.field[-3:]) for i in items if isinstance(i, Failure)] == [
        ("unknown_speaker", "[1]"),
        ("wrong_type", "[2]"),
        ("empty_turn", "[3]"),
    ]
    assert [t.index for t in found(episode(fragment))[0].turns] == [0, 4]


def test_an_episode_without_history_has_session_5_alone() -> None:
    assert [s.session_id for s in found(episode())] == ["session_5"]


def test_a_bad_session_5_leaves_the_history() -> None:
    record = episode(["Neighbor A: Hi"], session_5=[{"speaker": "Dr: B"}])
    assert [s.session_id for s in found(record)] == ["history_01"]


def test_an_episode_is_recognised() -> None:
    assert conversation_chronicles.recognise(episode())
    assert not conversation_chronicles.recognise({"session_5": []})
