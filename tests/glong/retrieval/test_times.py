"""Time expressions of a query, on 17 May 2024, a Friday, unless a test says otherwise."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.retrieval import times
from glong.retrieval.times import asks_when, says_time, time_spans

NOW = datetime(2024, 5, 17, 15, 30, tzinfo=UTC)


def spans(text: str, now: datetime = NOW) -> list[tuple[str, str]]:
    """Spans as days; those that begin within a day also tell the hour."""
    found = time_spans(text, now.timestamp())
    return [(_day(start), _day(end)) for start, end in found]


def _day(seconds: float) -> str:
    time = datetime.fromtimestamp(seconds, UTC)
    return f"{time:%Y-%m-%d}" if time.hour == time.minute == 0 else f"{time:%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("on 8 May 2023", "2023-05-08", "2023-05-09"),
        ("on May 8th, 2023", "2023-05-08", "2023-05-09"),
        ("on the 8th of may", "2024-05-08", "2024-05-09"),
        ("on june 3", "2023-06-03", "2023-06-04"),  # 3 June 2024 is still to come
        ("What was 2023-05-08 like?", "2023-05-08", "2023-05-09"),
        ("in May 2023", "2023-05-01", "2023-06-01"),
        ("in December 2023", "2023-12-01", "2024-01-01"),
        ("in May", "2024-05-01", "2024-06-01"),
        ("in may", "2024-05-01", "2024-06-01"),
        ("What did she do in january?", "2024-01-01", "2024-02-01"),
        ("since March", "2024-03-01", "2024-04-01"),
        ("What about August", "2023-08-01", "2023-09-01"),
        ("in Sep. 2022", "2022-09-01", "2022-10-01"),
        ("What happened in 2022?", "2022-01-01", "2023-01-01"),
        ("the summer of 2022", "2022-01-01", "2023-01-01"),
        ("29 February", "2024-02-29", "2024-03-01"),
        ("29 February 2023 or 1 March 2023", "2023-03-01", "2023-03-02"),
        ("yesterday", "2024-05-16", "2024-05-17"),
        ("today", "2024-05-17", "2024-05-18"),
        ("tonight", "2024-05-17", "2024-05-18"),
        ("the day before yesterday", "2024-05-15", "2024-05-16"),
        ("two weeks ago", "2024-04-29 12:00", "2024-05-07 12:00"),
        ("3 days ago", "2024-05-13 12:00", "2024-05-15 12:00"),
        ("a year ago", "2022-11-16 12:00", "2023-11-17 12:00"),
        ("last week", "2024-05-06", "2024-05-13"),
        ("this week", "2024-05-13", "2024-05-20"),
        ("last weekend", "2024-05-11", "2024-05-13"),
        ("past week", "2024-05-10", "2024-05-18"),
        ("over the past year", "2023-05-18", "2024-05-18"),
        ("last month", "2024-04-01", "2024-05-01"),
        ("this month", "2024-05-01", "2024-06-01"),
        ("last year", "2023-01-01", "2024-01-01"),
        ("this year", "2024-01-01", "2025-01-01"),
        ("last Friday", "2024-05-10", "2024-05-11"),
        ("this friday", "2024-05-17", "2024-05-18"),
        ("Last Monday", "2024-05-13", "2024-05-14"),
        ("last summer", "2023-06-01", "2023-09-01"),
        ("last spring", "2023-03-01", "2023-06-01"),  # this spring is not over
        ("this spring", "2024-03-01", "2024-06-01"),
        ("last winter", "2023-12-01", "2024-03-01"),
        ("last fall", "2023-09-01", "2023-12-01"),
        ("last May", "2023-05-01", "2023-06-01"),
        ("last december", "2023-12-01", "2024-01-01"),
    ],
)  # fmt: skip
def test_one_expression_is_one_span(text: str, start: str, end: str) -> None:
    assert spans(text) == [(start, end)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What does she like?",
        "May I ask something?",
        "That's all. May we go?",
        "what may have happened",
        "They march on",
        "Is it mar or dec?",
        "Does Jan like tea?",
        "next June",
        "30 February 2023",
        "2023-13-45",
        "32 May 2023",
        "June 0000",
        "31 December 9999",
        "9999-12-31",
        "300 years ago",
        "0" * 50,
        "\u0130\u0130\u0130\u0130 may",
    ],
)
def test_what_is_no_time_gives_nothing(text: str) -> None:
    assert spans(text) == []


def test_several_expressions_give_several_spans() -> None:
    assert spans("in May 2023 or last year") == [
        ("2023-05-01", "2023-06-01"),
        ("2023-01-01", "2024-01-01"),
    ]


def test_a_leap_day_is_sought_as_far_back_as_the_calendar_has_one() -> None:
    assert spans("29 february", datetime(2023, 1, 1, tzinfo=UTC)) == [("2020-02-29", "2020-03-01")]
    assert spans("29 february", datetime(1903, 1, 1, tzinfo=UTC)) == [("1896-02-29", "1896-03-01")]


def test_the_last_of_february_and_january_do_not_break_months() -> None:
    leap = datetime(2024, 2, 29, tzinfo=UTC)
    assert spans("last month, a year ago", leap)[1] == ("2024-01-01", "2024-02-01")
    assert spans("last month", datetime(2024, 1, 31, tzinfo=UTC)) == [("2023-12-01", "2024-01-01")]
    assert spans("last winter", datetime(2024, 1, 5, tzinfo=UTC)) == [("2022-12-01", "2023-03-01")]
    assert spans("this winter", datetime(2024, 1, 5, tzinfo=UTC)) == [("2023-12-01", "2024-03-01")]


def test_a_query_without_a_time_names_none() -> None:
    assert time_spans("yesterday, in May 2023", float("nan")) == []


PIECES = st.sampled_from(
    [
        "may", "May", "MARCH", "in", "last", "this", "past", "next", "29", "february", "31", "0",
        "9999", "2023", "-", "2023-02-29", "ago", "two", "weeks", "999", "years", "day", "before",
        "yesterday", "summer", "winter", "friday", "weekend", "of", "th", ",", ".", "\u0130",
        "\u0661\u0662", "é", "猫", "since", "Dec", "sep",
    ]
)  # fmt: skip
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=10).map(" ".join)), TIMES)
@settings(max_examples=300, deadline=None)
def test_no_text_breaks_it_and_every_span_has_a_length(text: str, now: datetime) -> None:
    assert all(start < end for start, end in time_spans(text, now.timestamp()))
    asks_when(text)
    says_time(text)


@pytest.mark.parametrize("year", [1, 2, 1000, 8999, 9999])
@pytest.mark.parametrize("text", ["yesterday", "today", "last summer", "90 years ago", "in may"])
def test_the_ends_of_the_calendar_break_nothing(text: str, year: int) -> None:
    for now in (datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, 23, 59, tzinfo=UTC)):
        assert len(time_spans(text, now.timestamp())) == (1 if 1000 <= year < 9000 else 0)


@given(st.lists(PIECES, max_size=6), st.sampled_from(["", " ", "-", ", ", "."]), TIMES)
@settings(max_examples=300, deadline=None)
def test_a_text_without_a_hint_has_no_span(pieces: list[str], gap: str, now: datetime) -> None:
    text = gap.join(pieces)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    lower = text.replace("\u0130", "I").lower()
    patterns = [*times._dates(text, lower, now), *times._relative(lower, today)]
    found = time_spans(text, now.timestamp())
    assert found == [(start.timestamp(), end.timestamp()) for start, end in patterns]


@given(TIMES)
@settings(max_examples=100, deadline=None)
def test_what_is_over_ends_before_tomorrow(now: datetime) -> None:
    tomorrow = now.timestamp() + 86_400
    for text in ("yesterday", "last week", "last summer", "last may", "last friday", "last month"):
        ((_, end),) = time_spans(text, now.timestamp())
        assert end <= tomorrow


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("When did she leave?", True),
        ("what year was it", True),
        ("How long ago was that?", True),
        ("How many weeks did it take?", True),
        ("Where is it?", False),
        ("Whenever you like", False),
    ],
)
def test_questions_for_a_time(text: str, asks: bool) -> None:
    assert asks_when(text) is asks


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("I went yesterday", True),
        ("Since 2019 I run", True),
        ("See you on Monday", True),
        ("I may march with them", False),
        ("I have 2190 stamps", False),
    ],
)
def test_turns_that_name_a_time(text: str, says: bool) -> None:
    assert says_time(text) is says
