"""Where the things that a clause is about begin and end. Pure; words as in :mod:`glong.words`."""

import unicodedata
from collections.abc import Iterator, Sequence

from glong.words import Span, word_list

__all__ = ["MAX_OBJECT", "parts", "trimmed"]

MAX_OBJECT = 8
"""The most words of an object: what is longer is a clause and no thing."""
_OPENING_SIGNS = frozenset("[{<'\u2018\u201c\u00ab")
_BEGINS_NOTHING = word_list("adverbs") | _OPENING_SIGNS | (word_list("determiners") - {"the"})
_ENDS_NOTHING = word_list("tail") | word_list("prepositions") | word_list("determiners")
_NO_THING = _ENDS_NOTHING | word_list("adverbs")
_PRONOUNS = word_list("pronouns") | word_list("fillers") | {"me"}


def parts(lower: Sequence[str], start: int, stop: int) -> Iterator[Span]:
    """Part "cats, dogs and a bird" into three spans."""
    begin = start
    for i in range(start, stop):
        if lower[i] in (",", "and", "or", "&", "-"):
            if i > begin:
                yield begin, i
            begin = i + 1
    if begin < stop:
        yield begin, stop


def trimmed(lower: Sequence[str], start: int, end: int) -> Span | None:
    """The words without articles, adverbs and signs around them; ``None`` if no thing is left."""
    while start < end and lower[start] in _BEGINS_NOTHING:
        start += 1
    while end > start + 1 and (lower[end - 1] in _ENDS_NOTHING or _is_sign(lower[end - 1])):
        end -= 1
    said = lower[start:end]
    is_thing = any(not _is_sign(word) and word not in _NO_THING for word in said)
    is_pronoun = len(said) == 1 and said[0] in _PRONOUNS
    return (start, end) if is_thing and not is_pronoun else None


def _is_sign(word: str) -> bool:
    """Punctuation; an emoji is none."""
    return unicodedata.category(word[0])[0] in "PZC"
