"""Where the things that a clause is about begin and end. Pure; words as in :mod:`glong.words`."""

import unicodedata
from collections.abc import Iterator, Sequence

from glong.words import Span, word_list

__all__ = ["ENDINGS", "MAX_OBJECT", "parts", "trimmed", "without_ending"]

MAX_OBJECT = 8
"""The most words of an object: what is longer is a clause and no thing."""
ENDINGS = frozenset({("any", "longer"), ("any", "more"), ("at", "all"), ("right", "now")})
"""End a clause behind its object."""
_OPENING_SIGNS = frozenset("[{<'\u2018\u201c\u00ab")
_BEGINS_NOTHING = word_list("adverbs") | _OPENING_SIGNS | (word_list("determiners") - {"the"})
_ENDS_NOTHING = word_list("tail") | word_list("prepositions") | word_list("determiners")
_NO_THING = _ENDS_NOTHING | word_list("adverbs")
_PREPOSITIONS = word_list("prepositions")
_CLOSING = frozenset({"and", "or", "&"})
_JOINS = _CLOSING | {",", "-"}
_FEW = 3
"""The most words of a part of a list that has no "and" and does not begin like a thing."""
_BEGIN_A_THING = word_list("determiners") | word_list("possessives") | word_list("amounts") | {"no"}
_WHEN = word_list("when")
_ASIDE = ("by", "the", "way")
_RECEIVERS = frozenset({"her", "him", "it", "me", "myself", "them", "us", "you"})
_PRONOUNS = word_list("pronouns") | word_list("fillers") | {"me"}


def parts(lower: Sequence[str], start: int, stop: int) -> Iterator[Span]:
    """Part "cats, dogs and a bird" into three spans.

    What stands behind a comma alone is a thing more where the list goes on to an "and", is of few
    words, or begins like a thing: not "every day of the week" after "I swim", nor "at the lido".
    """
    found = list(_parted(lower, start, stop))
    closes = max((n for n, (_, sign) in enumerate(found) if sign in _CLOSING), default=0)
    has_thing = False
    for n, ((begin, end), sign) in enumerate(found):
        at = lower[begin]
        is_beside = at in _PREPOSITIONS and (has_thing or lower[begin:end] == _ASIDE)
        is_thing = at in _BEGIN_A_THING or (end - begin <= _FEW and not _WHEN & {*lower[begin:end]})
        if not n or sign in _CLOSING or n < closes or (is_thing and not is_beside):
            has_thing = has_thing or trimmed(lower, begin, end) is not None
            yield begin, end


def _parted(lower: Sequence[str], start: int, stop: int) -> Iterator[tuple[Span, str]]:
    """The words between the signs of a list, each with the sign before it; ", and" is "and"."""
    begin, sign = start, ""
    for i in range(start, stop + 1):
        if i < stop and lower[i] not in _JOINS:
            continue
        if i > begin:
            yield (begin, i), sign
            sign = ""
        if i < stop and sign not in _CLOSING:
            sign = lower[i]
        begin = i + 1


def trimmed(lower: Sequence[str], start: int, end: int) -> Span | None:
    """The words without articles, adverbs and signs around them; ``None`` if no thing is left."""
    end = without_ending(lower, start, end)
    while start < end and lower[start] in _BEGINS_NOTHING:
        start += 1
    while end > start + 1 and (lower[end - 1] in _ENDS_NOTHING or _is_sign(lower[end - 1])):
        end -= 1
    if end - start > 1 and lower[start] in _RECEIVERS:
        if lower[start + 1] in _PREPOSITIONS:
            return None  # "adopted him in March"
        if lower[start + 1] in _BEGIN_A_THING:
            return trimmed(lower, start + 1, end)  # "baked her a cake"
    said = lower[start:end]
    is_thing = any(not _is_sign(word) and word not in _NO_THING for word in said)
    is_pronoun = len(said) == 1 and said[0] in _PRONOUNS
    return (start, end) if is_thing and not is_pronoun else None


def without_ending(lower: Sequence[str], start: int, end: int) -> int:
    """The end of a span without a final "any more", "at all" or "right now"."""
    return end - 2 if end - start >= 2 and tuple(lower[end - 2 : end]) in ENDINGS else end


def _is_sign(word: str) -> bool:
    """Punctuation; an emoji is none."""
    return unicodedata.category(word[0])[0] in "PZC"
