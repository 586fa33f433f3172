import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glong.sources import locomo
from glong.sources.records import Found
from glong.types import Failure, Place

PLACE = Place("locomo.json", 1)
LABEL = "LABEL-THAT-MUST-NOT-LEAK"


def turn(dia_id: str, text: str = "Hello", **more: object) -> dict[str, object]:
    return {"speaker": "Ana", "dia_id": dia_id, "text": text, **more}


def sample() -> dict[str, object]:
    picture = {
        "blip_caption": "a red kite",
        "query": LABEL,
        "img_url": [LABEL],
        "re-download": True,
    }
    return {
        "sample_id": "conv-1",
        "qa": [{"question": LABEL, "answer": LABEL, "evidence": ["D1:1"], "category": 1}],
        "observation": {"session_1_observation": {"Ana": [[LABEL, "D1:1"]]}},
        "session_summary": {"session_1_summary": LABEL},
        "event_summary": {"events_session_1": {"Ana": [LABEL]}},
        "conversation": {
            "speaker_a": "Ana",
            "speaker_b": "Bo",
            "session_10": [turn("D10:1", "Ten")],
            "session_10_date_time": "9:05 am on 2 June, 2023",
            "session_2_date_time": "12:00 pm on 1 June, 2023",
            "session_2": [turn("D2:1", "Look!", **picture), turn("D2:2", "", **picture)],
            "session_3_date_time": "a session of this number does not exist",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [turn("D1:1")],
        },
    }


def test_sessions_come_by_number_and_dates_without_a_session_do_not_matter() -> None:
    items = list(locomo.sessions(sample(), PLACE))
    found = [item.session for item in items if isinstance(item, Found)]
    assert [s.session_id for s in found] == ["session_1", "session_2", "session_10"]
    assert {s.dialogue_id for s in found} == {"conv-1"}
    assert found[0].started_at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert not any(isinstance(item, Failure) for item in items)


def test_the_caption_of_a_picture_is_part_of_the_text() -> None:
    (session,) = [
        item.session
        for item in locomo.sessions(sample(), PLACE)
        if isinstance(item, Found) and item.raw_id == "session_2"
    ]
    assert [t.text for t in session.turns] == ["Look! [image: a red kite]", "[image: a red kite]"]


def test_no_label_reaches_a_session() -> None:
    assert LABEL in json.dumps(sample())
    assert LABEL not in repr(list(locomo.sessions(sample(), PLACE)))


def test_a_session_without_a_date_and_a_bad_turn_fail_alone() -> None:
    record = sample()
    conversation = record["conversation"]
    assert isinstance(conversation, dict)
    del conversation["session_1_date_time"]
    conversation["session_10"] = [turn("D10:1", ""), turn("D10:2")]
    items = list(locomo.sessions(record, PLACE))
    assert [(i.kind, i.place.field) for i in items if isinstance(i, Failure)] == [
        ("missing_field", "conversation.session_1_date_time"),
        ("empty_turn", "conversation.session_10[0].text"),
    ]
    assert [t.index for i in items if isinstance(i, Found) for t in i.session.turns] == [0, 1, 1]


def test_a_conversation_without_sessions_is_one_failure() -> None:
    items = list(locomo.sessions({"sample_id": "c", "conversation": {}}, PLACE))
    assert [i.kind for i in items if isinstance(i, Failure)] == ["empty_dialogue"]


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_dia_ids_and_turns_map_both_ways(session: int, index: int) -> None:
    name = f"session_{session}"
    assert locomo.turn_place(locomo.dia_id(name, index)) == (name, index)


def test_dia_ids_may_have_leading_zeros() -> None:
    assert locomo.turn_place("D1:3") == ("session_1", 2)
    assert locomo.turn_place("D30:05") == ("session_30", 4)


@pytest.mark.parametrize("text", ["D", "D:11:26", "D8:6; D9:17", "D1:0", "D0:1", "d1:1", ""])
def test_what_names_no_turn_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: such as 'D1:3'"):
        locomo.turn_place(text)
    with pytest.raises(ValueError, match="allowed"):
        locomo.dia_id("session_x", 1)


def test_a_sample_is_recognised() -> None:
    assert locomo.recognise(sample())
    assert not locomo.recognise({"conversation": [1]})
