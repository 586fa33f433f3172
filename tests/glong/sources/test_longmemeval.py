import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from glong.sources import longmemeval
from glong.sources.records import Found
from glong.types import Failure, Place, Session

PLACE = Place("lme.jsonl", 1)


def question(raw_ids: list[str]) -> dict[str, object]:
    evidence = [
        {"role": "user", "content": "I ran 5 km in 25:50.", "has_answer": True},
        {"role": "assistant", "content": "Great!", "has_answer": False},
    ]
    chatter = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    return {
        "question_id": "q1_abs",
        "question": "How fast?",
        "answer": "25:50",
        "question_date": "2023/05/30 (Tue) 23:42",
        "answer_session_ids": ["answer_7"],
        "haystack_session_ids": raw_ids,
        "haystack_dates": [f"2023/05/{20 + i} (Sat) 07:47" for i in range(len(raw_ids))],
        "haystack_sessions": [evidence if r == "answer_7" else chatter for r in raw_ids],
    }


def found(record: object) -> list[Session]:
    return [i.session for i in longmemeval.sessions(record, PLACE) if isinstance(i, Found)]


def test_sessions_are_named_by_their_position() -> None:
    sessions = found(question(["b", "answer_7", "a"]))
    assert [s.session_id for s in sessions] == ["session_001", "session_002", "session_003"]
    assert {s.dialogue_id for s in sessions} == {"q1_abs"}
    assert sessions[0].started_at == datetime(2023, 5, 20, 7, 47, tzinfo=UTC)
    assert [t.speaker for t in sessions[1].turns] == ["user", "assistant"]


def strip_labels(record: object, rename: Callable[[str], str]) -> object:
    """The same haystack under other raw ids and without anything that tells the evidence."""
    bare = copy.deepcopy(record)
    assert isinstance(bare, dict)
    for label in ("answer", "answer_session_ids", "question", "question_date"):
        del bare[label]
    bare["haystack_session_ids"] = [rename(raw_id) for raw_id in bare["haystack_session_ids"]]
    for session in bare["haystack_sessions"]:
        for turn in session:
            turn.pop("has_answer", None)
    return bare


@given(st.permutations(["b", "answer_7", "a", "c"]), st.permutations(["b", "answer_7", "a", "c"]))
def test_renamed_ids_and_stripped_labels_give_the_same_sessions(
    order: list[str], names: list[str]
) -> None:
    record = question(order)
    renamed = dict(zip(order, names, strict=True))
    assert found(record) == found(strip_labels(record, lambda raw_id: renamed[raw_id]))
    assert found(record) == found(strip_labels(record, lambda raw_id: f"x{order.index(raw_id)}"))


def test_no_label_reaches_a_session() -> None:
    record = question(["b", "answer_7", "a"])
    assert "answer_" in json.dumps(record)
    text = repr(found(record))
    assert "answer_" not in text
    assert "has_answer" not in text


def test_the_raw_id_is_what_tells_a_session_that_comes_twice() -> None:
    items = list(longmemeval.sessions(question(["b", "b"]), PLACE))
    assert [i.raw_id for i in items if isinstance(i, Found)] == ["b", "b"]


def test_a_bad_date_role_or_turn_fails_alone() -> None:
    record = question(["a", "b", "c"])
    record["haystack_dates"] = ["2023/05/20 (Sat) 07:47", "soon", "2023/05/20 (Sat) 07:47"]
    record["haystack_sessions"] = [
        [{"role": "user", "content": ""}, {"role": "bishop", "content": "x"}],
        [{"role": "user", "content": "x"}],
        [{"role": "user", "content": ""}, {"role": "user", "content": "x"}],
    ]
    items = list(longmemeval.sessions(record, PLACE))
    assert [(i.kind, i.place.field) for i in items if isinstance(i, Failure)] == [
        ("empty_turn", "haystack_sessions[0][0].content"),
        ("unknown_role", "haystack_sessions[0][1].role"),
        ("empty_session", "haystack_sessions[0]"),
        ("bad_time", "haystack_dates[1]"),
        ("empty_turn", "haystack_sessions[2][0].content"),
    ]
    (session,) = found(record)
    assert (session.session_id, session.turns[0].index) == ("session_003", 1)


def test_lists_of_unequal_length_are_one_failure() -> None:
    record = question(["a", "b"]) | {"haystack_dates": []}
    items = list(longmemeval.sessions(record, PLACE))
    assert [i.kind for i in items if isinstance(i, Failure)] == ["unequal_lists"]
    assert "2 sessions, 0 dates, 2 ids" in repr(items)


def test_a_question_is_recognised() -> None:
    assert longmemeval.recognise(question(["a"]))
    assert not longmemeval.recognise({"question_id": "q"})
