"""Time expressions of a query -> spans of time. Pure: what "last week" means depends on ``now_s``.

English; an expression that is not known gives nothing. Spans are half-open, in UTC.
"""

import re
from collections.abc import Iterator
from datetime import MAXYEAR, UTC, datetime, timedelta

__all__ = ["asks_when", "says_time", "time_spans"]

Span = tuple[float, float]

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASONS = {"winter": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9}
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10,
}  # fmt: skip
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_WORDS_TOO = ("may", "march")
_month = "|".join((*_MONTHS, *(m[:3] for m in _MONTHS if m != "may")))
_DATE = re.compile(
    r"\b(?P<preposition>(?:in|since|during|until) )?"
    r"(?:(?P<day>\d{1,2})(?:st|nd|rd|th)?(?: of)? )?"
    rf"(?<!last )(?<!past )(?<!this )(?<!next )\b(?P<month>{_month})\b\.?"
    r"(?: (?P<day_after>\d{1,2})(?:st|nd|rd|th)?\b(?!\d))?(?:,? (?P<year>\d{4}))?"
)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_YEAR = re.compile(r"\b(?:in|of|during|since|year) (19\d\d|20\d\d)\b")
_AGO = re.compile(rf"\b(\d{{1,3}}|{'|'.join(_NUMBERS)}) (day|week|month|year)s? ago\b")
_LAST = re.compile(
    rf"\b(last|past|this) (week|weekend|month|year|{'|'.join((*_DAYS, *_SEASONS, *_MONTHS))})\b"
)
_NEAR = re.compile(r"\b(yesterday|today|tonight|day before yesterday)\b")
_WHEN = re.compile(
    r"\b(when|what (?:date|day|month|year|time)|which (?:date|day|month|year)|how long ago"
    r"|how many (?:days|weeks|months|years))\b",
    re.IGNORECASE,
)


def asks_when(text: str) -> bool:
    """Whether the query asks for a time."""
    return bool(_WHEN.search(text))


_WORD = re.compile(r"\w+")
_TIME_WORDS = frozenset(
    ("yesterday", "today", "tonight", "tomorrow", "ago", "last", "next", "weekend", "recently")
).union(_DAYS, set(_MONTHS) - set(_WORDS_TOO))
_MONTH_WORDS = frozenset((*_MONTHS, *(month[:3] for month in _MONTHS)))
_RELATIVE_WORDS = frozenset(("yesterday", "today", "tonight", "ago", "last", "past", "this"))
"""Every span has one of these words, or a digit where it has none."""
_DIGIT = re.compile(r"\d")
_A_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


def says_time(text: str) -> bool:
    """Whether a turn names a time."""
    words = _WORD.findall(text.lower())
    return not _TIME_WORDS.isdisjoint(words) or bool(_A_YEAR.search(text))


_FIRST_S, _LAST_S = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (1000, 9000))


def time_spans(text: str, now_s: float) -> list[Span]:
    """Spans of time that a query names.

    Args:
        text: the query.
        now_s: its time, seconds since 1970 UTC.

    Returns:
        (start, end) in seconds, in order of the text's patterns; none where ``now_s`` is not known,
        or so near an end of the calendar that what is said may lie beyond.
    """
    if not _FIRST_S <= now_s < _LAST_S:  # nor if it is NaN
        return []
    now = datetime.fromtimestamp(now_s, UTC)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    lower = text.replace("\u0130", "I").lower()  # the one letter that is longer in lower case
    # Most queries have none of this, and the patterns take 20 times as long to find nothing.
    words, has_digit = set(_WORD.findall(lower)), bool(_DIGIT.search(lower))
    spans: list[tuple[datetime, datetime]] = []
    if has_digit or not _MONTH_WORDS.isdisjoint(words):
        spans += _dates(text, lower, now)
    if not _RELATIVE_WORDS.isdisjoint(words):
        spans += _relative(lower, today)
    return [(start.timestamp(), end.timestamp()) for start, end in spans]


def _dates(text: str, lower: str, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    taken = False
    for match in _DATE.finditer(lower):
        if _is_month(match, text):
            taken = True
            yield from _date(match, now)
    for year, month, day in _ISO.findall(lower):
        start = _made(int(year), int(month), int(day))
        if start:
            yield start, start + timedelta(days=1)
    if not taken:
        for year in _YEAR.findall(lower):
            yield datetime(int(year), 1, 1, tzinfo=UTC), datetime(int(year) + 1, 1, 1, tzinfo=UTC)


def _is_month(match: re.Match[str], text: str) -> bool:
    """Whether a month is meant: "may" and "march" are words too, "Jan" is also a name."""
    if match["preposition"] or match["day"] or match["day_after"] or match["year"]:
        return True
    if match["month"] not in _WORDS_TOO:
        return match["month"] in _MONTHS
    start = match.start("month")
    begins_sentence = text[max(0, start - 3) : start].strip()[-1:] in ("", ".", "!", "?")
    return text[start].isupper() and not begins_sentence


def _date(match: re.Match[str], now: datetime) -> Iterator[tuple[datetime, datetime]]:
    month = next(i for i, name in enumerate(_MONTHS, 1) if name.startswith(match["month"][:3]))
    day = match["day"] or match["day_after"]
    # Without a year the latest; 29 February may be eight years back.
    years = [int(match["year"])] if match["year"] else range(now.year, now.year - 9, -1)
    for year in years:
        start = _made(year, month, int(day) if day else 1)
        if start and (match["year"] or start <= now):
            yield start, start + timedelta(days=1) if day else _next_month(start)
            return


def _made(year: int, month: int, day: int) -> datetime | None:
    """The day, or ``None`` where the calendar has none such, or none after it."""
    if year >= MAXYEAR:
        return None
    try:
        return datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None


def _next_month(start: datetime) -> datetime:
    return (start.replace(day=1) + timedelta(days=32)).replace(day=1)


def _relative(lower: str, today: datetime) -> Iterator[tuple[datetime, datetime]]:
    day = timedelta(days=1)
    for word in _NEAR.findall(lower):
        n_back = {"yesterday": 1, "day before yesterday": 2}.get(word, 0)
        yield today - n_back * day, today - (n_back - 1) * day
    for count, unit in _AGO.findall(lower):
        n_days = (_NUMBERS.get(count) or int(count)) * _UNIT_DAYS[unit]
        slack = _UNIT_DAYS[unit] * 0.5
        if n_days < 40_000:  # longer than any memory
            middle = today - n_days * day
            yield middle - slack * day, middle + (slack + 1) * day
    for which, unit in _LAST.findall(lower):
        yield from _last(which, unit, today)


def _last(which: str, unit: str, today: datetime) -> Iterator[tuple[datetime, datetime]]:
    day = timedelta(days=1)
    this = which == "this"
    if which == "past" and unit in _UNIT_DAYS:
        yield today - _UNIT_DAYS[unit] * day, today + day
    elif unit in _DAYS:
        n_back = (today.weekday() - _DAYS.index(unit)) % 7 or (0 if this else 7)
        yield today - n_back * day, today - (n_back - 1) * day
    elif unit in ("week", "weekend"):
        monday = today - today.weekday() * day
        start = monday if this else monday - 7 * day
        yield (start if unit == "week" else start + 5 * day), start + 7 * day
    elif unit == "month":
        first = today.replace(day=1)
        start = first if this else (first - day).replace(day=1)
        yield start, _next_month(start)
    elif unit == "year":
        year = today.year - (not this)
        yield datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    else:
        yield _part_of_year(unit, this, today)


def _part_of_year(unit: str, this: bool, today: datetime) -> tuple[datetime, datetime]:
    """The latest season or month that is over, or, of ``this`` one, that has begun."""
    month = _SEASONS.get(unit) or _MONTHS.index(unit) + 1
    n_months = 3 if unit in _SEASONS else 1
    start = datetime(today.year + 1, month, 1, tzinfo=UTC)
    while True:
        start = start.replace(year=start.year - 1)
        end = (start + timedelta(days=31 * n_months)).replace(day=1)
        if (start if this else end) <= today:
            return start, end
