from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glong.sources import times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-05T10:00:00Z", datetime(2026, 1, 5, 10, tzinfo=UTC)),
        ("2026-01-05t10:00:00z", datetime(2026, 1, 5, 10, tzinfo=UTC)),
        ("2026-01-05T01:30:00+05:30", datetime(2026, 1, 4, 20, tzinfo=UTC)),
        ("2026-01-05 10:00:00.25-08:00", datetime(2026, 1, 5, 18, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-01-05T10:00:00", datetime(2026, 1, 5, 10)),
        ("2026-01-05", datetime(2026, 1, 5)),
    ],
)
def test_rfc3339_comes_back_in_utc_and_naive_stays_naive(text: str, expected: datetime) -> None:
    assert times.rfc3339(text) == expected


@given(
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)),
    st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_rfc3339_reads_what_python_writes(time: datetime, zone: timezone) -> None:
    aware = time.replace(tzinfo=zone)
    assert times.rfc3339(aware.isoformat()) == aware
    assert times.rfc3339(aware).tzinfo is UTC
    assert times.rfc3339(time.isoformat()) == time


@pytest.mark.parametrize("value", ["yesterday", "", "2026-13-01T00:00:00Z", 7, None, [], "1e3"])
def test_what_is_no_rfc3339_says_what_is_allowed(value: object) -> None:
    with pytest.raises(ValueError, match="allowed: RFC 3339"):
        times.rfc3339(value)


def test_an_offset_beyond_the_calendar_is_an_error_of_the_value() -> None:
    with pytest.raises(OverflowError):
        times.rfc3339("0001-01-01T00:00:00+05:00")


def test_epoch_seconds_may_be_whole_or_not_but_not_milliseconds() -> None:
    assert times.epoch_or_rfc3339(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert times.epoch_or_rfc3339(1_700_000_000.5).microsecond == 500_000
    assert times.epoch_or_rfc3339("2026-01-05") == datetime(2026, 1, 5)
    for value in (1_700_000_000_000, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="seconds"):
            times.epoch_or_rfc3339(value)
    with pytest.raises(ValueError, match="RFC 3339"):
        times.epoch_or_rfc3339(True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56)),
        ("12:09 am on 13 September, 2023", datetime(2023, 9, 13, 0, 9)),
        ("12:30 PM on 1 January 2022", datetime(2022, 1, 1, 12, 30)),
    ],
)
def test_locomo_times(text: str, expected: datetime) -> None:
    assert times.locomo(text) == expected


@pytest.mark.parametrize(
    "value", ["13:00 pm on 8 May, 2023", "1:00 pm on 31 June, 2023", "1:00 pm on 8 Mai, 2023", 1]
)
def test_what_is_no_locomo_time_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match=r"allowed|day"):
        times.locomo(value)


def test_longmemeval_times_do_not_look_at_the_weekday() -> None:
    expected = datetime(2023, 5, 30, 23, 42)
    assert times.longmemeval("2023/05/30 (Tue) 23:42") == expected
    assert times.longmemeval("2023/05/30 (Mon) 23:42") == expected
    for value in ("2023-05-30 23:42", "2023/05/30", None):
        with pytest.raises(ValueError, match="allowed"):
            times.longmemeval(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 days 1 hour ago", timedelta(days=5, hours=1)),
        (" 10 hours ago", timedelta(hours=10)),
        ("1 day ago", timedelta(days=1)),
    ],
)
def test_ago(text: str, expected: timedelta) -> None:
    assert times.ago(text) == expected


@pytest.mark.parametrize("value", ["ago", "", "two days ago", "3 weeks ago", 5, None])
def test_what_is_no_ago_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match="allowed"):
        times.ago(value)
