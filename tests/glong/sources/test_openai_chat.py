from datetime import UTC, datetime

import pytest

from glong.sources import openai_chat
from glong.sources.records import Counted, Found
from glong.types import Failure, Place, Session

HI = {"role": "user", "content": "Hi"}
PLACE = Place("logs/chats.jsonl.gz", 7)


def read(record: object) -> Session:
    (found,) = [i for i in openai_chat.sessions(record, PLACE) if isinstance(i, Found)]
    return found.session


def text_of(content: object) -> str:
    return read([{"role": "user", "content": content}]).turns[0].text


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ({}, ("chats-000007", "session_1")),
        ({"id": "c9"}, ("c9", "session_1")),
        ({"conversation_id": "c9", "id": 4, "session_id": "s"}, ("c9", "s")),
        ({"user": "nadia"}, ("nadia", "chats-000007")),
        ({"user": "nadia", "id": "c9"}, ("nadia", "c9")),
        ({"dialogue_id": "d", "user": "nadia", "session_id": "s"}, ("d", "s")),
    ],
)
def test_a_record_is_a_session_of_the_dialogue_that_its_ids_name(
    ids: dict[str, object], expected: tuple[str, str]
) -> None:
    session = read({"messages": [HI], **ids})
    assert (session.dialogue_id, session.session_id) == expected


def test_a_bare_list_of_messages_is_a_dialogue() -> None:
    assert read([HI]).dialogue_id == "chats-000007"


def test_messages_that_nobody_says_are_skipped_counted_and_keep_the_indices() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    messages = [
        {"role": "system", "content": "Be kind."},
        HI,
        call,
        {"role": "tool", "content": "42"},
        {"role": "developer", "content": "x"},
        {"role": "assistant", "content": "42", "tool_calls": []},
    ]
    items = list(openai_chat.sessions({"messages": messages}, PLACE))
    assert items.count(Counted("skipped_messages")) == 4
    assert [(t.index, t.speaker) for t in read(messages).turns] == [(1, "user"), (5, "assistant")]


def test_the_name_of_a_message_is_its_speaker() -> None:
    assert read([HI | {"name": "Nadia"}]).turns[0].speaker == "Nadia"


def test_parts_are_joined_and_what_is_no_text_stays_visible() -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:..."}},
        {"type": "input_text", "text": ""},
        {"type": "input_audio", "input_audio": {}},
        {"type": "refusal", "refusal": "No."},
        {"type": "thought"},
        "bare",
    ]
    assert text_of(parts) == "Look:\n[image]\n[audio]\nNo.\n[thought]\nbare"


@pytest.mark.parametrize(
    ("message", "kind", "field"),
    [
        ({"role": "user", "content": None}, "missing_field", "messages[1].content"),
        ({"role": "user", "content": []}, "empty_turn", "messages[1].content"),
        (
            {"role": "user", "content": [{"text": "x"}]},
            "missing_field",
            "messages[1].content[0].type",
        ),
        ({"role": "user", "content": 5}, "wrong_type", "messages[1].content"),
        ({"role": "bishop", "content": "x"}, "unknown_role", "messages[1].role"),
        ({"role": "assistant", "content": ""}, "empty_turn", "messages[1].content"),
        ({"content": "x"}, "missing_field", "messages[1].role"),
        (HI | {"created_at": "soon"}, "bad_time", "messages[1].created_at"),
    ],
)
def test_a_bad_message_fails_alone(message: object, kind: str, field: str) -> None:
    items = list(openai_chat.sessions({"messages": [HI, message]}, PLACE))
    assert [(i.kind, i.place.field) for i in items if isinstance(i, Failure)] == [(kind, field)]
    assert [len(i.session.turns) for i in items if isinstance(i, Found)] == [1]


def test_the_start_is_epoch_or_rfc3339_or_that_of_the_first_message() -> None:
    start = datetime(2026, 1, 5, 10, tzinfo=UTC)
    for key, value in (
        ("created_at", "2026-01-05T11:00:00+01:00"),
        ("create_time", start.timestamp()),
        ("created", int(start.timestamp())),
    ):
        assert read({"messages": [HI], key: value}).started_at == start
    assert read([HI, HI | {"timestamp": start.timestamp()}]).started_at == start
    assert read([HI]).started_at is None


def test_a_chat_without_a_spoken_message_is_an_empty_session() -> None:
    record = {"messages": [{"role": "system", "content": "Be kind."}]}
    kinds = [i.kind for i in openai_chat.sessions(record, PLACE) if isinstance(i, Failure)]
    assert kinds == ["empty_session"]


def test_chat_logs_are_recognised() -> None:
    chats: list[object] = [{"messages": []}, [HI], HI]
    for record in chats:
        assert openai_chat.recognise(record)
    others: list[object] = [[], [7], {"message": "x"}, "x"]
    for record in others:
        assert not openai_chat.recognise(record)
