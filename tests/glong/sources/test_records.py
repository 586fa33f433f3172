import json
from datetime import UTC, datetime
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.sources import (
    conversation_chronicles,
    locomo,
    longmemeval,
    msc,
    native,
    openai_chat,
    records,
)
from glong.sources.records import (
    MAX_RAW_CHARS,
    MAX_TURN_CHARS,
    Assumed,
    BadItem,
    Counted,
    Field,
    Found,
    Heading,
    assemble,
    each,
    failure,
)
from glong.types import Failure, Place, Turn

PLACE = Place("chat.jsonl", 7)


def field(value: object) -> Field:
    return Field(value, PLACE)


def test_a_missing_field_names_its_path_line_and_record() -> None:
    with pytest.raises(BadItem) as caught:
        field({"sessions": [{"turns": [{"speaker": "Mira"}]}]})["sessions"].items()[0][
            "turns"
        ].items()[0]["text"]
    found = caught.value.failure
    assert (found.stage, found.kind) == ("read", "missing_field")
    assert found.place == Place("chat.jsonl", 7, "sessions[0].turns[0].text")
    assert json.loads(found.raw) == {"speaker": "Mira"}


def test_null_counts_as_absent() -> None:
    assert field({"a": None}).get("a") is None
    assert field({"a": None, "b": 0}).first("a", "b") == Field(0, Place("chat.jsonl", 7, "b"))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (7, "wrong_type"),
        ("", "empty_turn"),
        (" \n\t", "empty_turn"),
        ("x" * (MAX_TURN_CHARS + 1), "turn_too_long"),
        ("half an emoji \ud83d", "invalid_text"),
    ],
)
def test_speech_that_cannot_be_used_says_why(value: object, kind: str) -> None:
    with pytest.raises(BadItem) as caught:
        field(value).speech()
    assert caught.value.failure.kind == kind
    assert "allowed: " in caught.value.failure.message


def test_speech_is_kept_to_the_letter() -> None:
    text = " a\x00b\u00a0\U0001f600 \n"
    assert field(text).speech() == text
    assert field("x" * MAX_TURN_CHARS).speech() == "x" * MAX_TURN_CHARS


def test_identifiers_may_be_whole_numbers_but_not_booleans() -> None:
    assert field(42).identifier() == "42"
    others: list[object] = [True, 1.5, "  ", [], "x" * 1001]
    for value in others:
        with pytest.raises(BadItem):
            field(value).identifier()


def test_failures_are_bounded_and_always_encode() -> None:
    deep: object = "\udc80"
    for _ in range(3000):
        deep = [deep]
    for raw in (deep, {"text": "\ud800" * 5000}, "\udfff" * 5000, {"when": datetime(2026, 1, 1)}):
        made = failure("k", Place("f\udcff.json", 1, "k\ud800"), "m\ud800", raw)
        texts = [made.raw, made.message, made.place.file, made.place.field]
        assert len(made.raw) <= MAX_RAW_CHARS
        assert "".join(texts).encode("utf-8")
        field(raw).bad("kind", "advice").failure.message.encode("utf-8")


def test_a_bad_turn_drops_itself_only_and_leaves_a_gap() -> None:
    turns = [
        {"speaker": "Mira", "text": "Hi"},
        {"speaker": "Tom"},
        {"speaker": "Tom", "text": "Hello"},
    ]
    bad, found = assemble(Heading("d", "s"), field(turns))
    assert isinstance(bad, Failure)
    assert bad.place.field == "[1].text"
    assert isinstance(found, Found)
    assert found.session.turns == (Turn(0, "Mira", "Hi"), Turn(2, "Tom", "Hello"))


def test_a_session_without_a_usable_turn_is_a_failure() -> None:
    cases: list[list[object]] = [[], [{"speaker": "Tom"}]]
    for turns in cases:
        read = partial(assemble, turns=field(turns))
        items = list(each([Heading("d", "s")], read))
        assert [item.kind for item in items if isinstance(item, Failure)][-1] == "empty_session"
        assert not any(isinstance(item, Found) for item in items)


def test_times_without_a_zone_are_taken_as_utc_and_it_is_said() -> None:
    heading = Heading("d", "s", datetime(2026, 1, 5, 10))
    said, found = assemble(heading, field([{"speaker": "Mira", "text": "Hi"}]))
    assert said == Assumed(records.NO_ZONE)
    assert isinstance(found, Found)
    assert found.session.started_at == datetime(2026, 1, 5, 10, tzinfo=UTC)


def test_messages_that_are_no_turns_are_counted() -> None:
    items = assemble(
        Heading("d", "s"), field([1, 2]), lambda _, i: Turn(i, "a", "b") if i else None
    )
    assert next(items) == Counted("skipped_messages")


SOURCES = (conversation_chronicles, locomo, longmemeval, msc, native, openai_chat)
KEYS = (
    "dialogue_id", "sessions", "session_id", "started_at", "turns", "speaker", "text", "time",
    "messages", "role", "content", "id", "sample_id", "conversation", "session_1",
    "session_1_date_time", "blip_caption", "question_id", "haystack_sessions", "haystack_dates",
    "haystack_session_ids", "session", "dialog", "speakers", "session_5",
    "time_back_at_session_3", "history_fragments_sessions_1_to_4", "name", "user", "type",
    "created_at",
)  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.sampled_from(["user", "Mira", "2026-01-05T10:00:00Z", "1:56 pm on 8 May, 2023", "\ud800"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=25,
)
SEEDS = {
    "dialogue_id": "d",
    "sample_id": "d",
    "question_id": "d",
    "id": "d",
    "haystack_dates": ["2023/05/30 (Tue) 23:42"],
    "haystack_session_ids": ["answer_1"],
    "speakers": ["Mira"],
}


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), VALUES)
def test_no_source_raises_or_loses_a_record_whatever_it_is_given(
    record: dict[str, object], other: object
) -> None:
    for source in SOURCES:
        for value in (record, other, [other], SEEDS | record):
            source.recognise(value)
            items = list(source.sessions(value, PLACE))
            assert items
            for item in items:
                if isinstance(item, Found):
                    assert item.session.turns
                    times = [item.session.started_at, *(t.time for t in item.session.turns)]
                    assert all(time is None or time.tzinfo is UTC for time in times)
                    indices = [turn.index for turn in item.session.turns]
                    assert indices == sorted(set(indices))
                    "".join(t.speaker + t.text for t in item.session.turns).encode("utf-8")
                elif isinstance(item, Failure):
                    assert item.place.line == 7
                    assert item.message
