"""Times as the data sets write them -> ``datetime``.

What carries a zone comes back in UTC, what carries none comes back naive: the caller says so and
takes UTC. Every function raises ``ValueError`` (or ``OverflowError``) whose text says what is
allowed. No locale is asked: month names are English.
"""

import re
from datetime import UTC, datetime, timedelta

__all__ = ["ago", "epoch_or_rfc3339", "locomo", "longmemeval", "rfc3339"]

RFC3339_ALLOWED = "allowed: RFC 3339, such as 2026-01-05T10:00:00Z"
EPOCH_LIMIT_S = 1e11  # the year 5138; milliseconds of any date after 1973 are above it

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_LOCOMO = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)\s*(?P<half>[ap]m)\s+on\s+"
    r"(?P<day>\d{1,2})\s+(?P<month>[a-z]+),?\s+(?P<year>\d{4})",
    re.IGNORECASE,
)
_LONGMEMEVAL = re.compile(r"(\d{4})/(\d\d?)/(\d\d?)\s+(?:\(\w+\)\s+)?(\d\d?):(\d\d)")
_AGO = re.compile(r"(?=\d)(?:(\d+) days?)?\s*(?:(\d+) hours?)?\s+ago")


def rfc3339(value: object) -> datetime:
    """An RFC 3339 string, or a ``datetime`` as Parquet holds it."""
    if isinstance(value, datetime):
        return _in_utc(_plain(value))
    if not isinstance(value, str):
        raise ValueError(RFC3339_ALLOWED)
    try:
        return _in_utc(datetime.fromisoformat(value.strip().upper()))
    except ValueError as error:
        raise ValueError(RFC3339_ALLOWED) from error


def epoch_or_rfc3339(value: object) -> datetime:
    """Seconds since 1970 (whole or not), or what :func:`rfc3339` reads."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return rfc3339(value)
    if not 0 <= value < EPOCH_LIMIT_S:
        raise ValueError("allowed: seconds (not milliseconds) since 1970, or RFC 3339")
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value)


def locomo(value: object) -> datetime:
    """LoCoMo: ``1:56 pm on 8 May, 2023``, without a zone."""
    match = _LOCOMO.fullmatch(value.strip()) if isinstance(value, str) else None
    month = match["month"].lower() if match else ""
    if match is None or month not in _MONTHS or not 1 <= int(match["hour"]) <= 12:
        raise ValueError("allowed: such as '1:56 pm on 8 May, 2023'")
    hour = int(match["hour"]) % 12 + 12 * (match["half"].lower() == "pm")
    year, day, minute = int(match["year"]), int(match["day"]), int(match["minute"])
    return datetime(year, _MONTHS.index(month) + 1, day, hour, minute)


def longmemeval(value: object) -> datetime:
    """LongMemEval: ``2023/05/30 (Tue) 23:42``, without a zone; the weekday is not looked at."""
    match = _LONGMEMEVAL.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("allowed: such as '2023/05/30 (Tue) 23:42'")
    year, month, day, hour, minute = (int(part) for part in match.groups())
    return datetime(year, month, day, hour, minute)


def ago(value: object) -> timedelta:
    """MSC: ``5 days 1 hour ago``."""
    match = _AGO.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("allowed: such as '5 days 1 hour ago'")
    days, hours = (int(part or 0) for part in match.groups())
    return timedelta(days=days, hours=hours)


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo is None else time.astimezone(UTC)


def _plain(time: datetime) -> datetime:
    """The same instant as a plain ``datetime``: Parquet may give a subclass with nanoseconds."""
    return datetime.combine(time.date(), time.time(), tzinfo=time.tzinfo)
