"""Text -> search terms, for any language. Knows nothing of memories.

Words are runs of letters and digits; English ones lose their endings and the commonest are left
out. Scripts without spaces give pairs of neighbouring characters (so does Korean, which glues its
particles to words) and single Chinese characters, emoji count as words.
"""

import re
import unicodedata
from functools import cache, lru_cache
from itertools import chain, product
from typing import Any

from glong.words import word_list

__all__ = ["count_first_person", "is_unspaced", "proper_names", "terms"]

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    rf"\u3040-\u30fa\u30fc-\u30ff\uac00-\ud7a3{_HAN}"  # kana, Hangul
)
_LETTER = (
    rf"(?:(?![{_UNSPACED}])[^\W_]"
    # vowel signs too
    r"|[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff])"
)
_EMOJI = "[\u2600-\u27bf\U0001f300-\U0001faff]|[\U0001f1e6-\U0001f1ff]{2}"  # a flag is two letters
_TERM = re.compile(rf"[{_UNSPACED}]+|{_LETTER}+(?:'{_LETTER}+)*|{_EMOJI}")
_ASCII_TERM = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_IS_HAN = re.compile(rf"[{_HAN}]")
_NAME = re.compile(r"\b[^\W\d_]\w+")
_ASCII_NAME = re.compile(r"\b[A-Z]\w+")
_STOPS = (". ", "! ", "? ", "\n ")
_WORD = re.compile(r"\w+")
_FIRST_PERSON = frozenset(
    form
    for word in ("i", "my", "me", "mine", "we", "our")
    for form in map("".join, product(*zip(word, word.upper(), strict=True)))
) | {"us", "Us"}  # not the US


def terms(text: str) -> tuple[str, ...]:
    """Search terms in order, repeats kept."""
    plain = text.replace("\u2019", "'")
    if plain.isascii():  # the same by a simpler pattern
        return tuple(chain.from_iterable(map(_word, _ASCII_TERM.findall(plain.lower()))))
    found: list[str] = []
    for run in _TERM.findall(unicodedata.normalize("NFKC", plain).lower()):
        if _IS_UNSPACED.match(run):
            found += [run[i : i + 2] for i in range(len(run) - 1)] + _IS_HAN.findall(run) or [run]
        else:
            found += _word(run)
    return tuple(found)


def is_unspaced(word: str) -> bool:
    """Whether a word begins in a script that does not part words, or glues particles to them."""
    return bool(_IS_UNSPACED.match(word))


@lru_cache(maxsize=65_536)
def _word(word: str) -> tuple[str, ...]:
    """The word's stem, or nothing for a stop word."""
    if word in word_list("stop_words"):
        return ()
    stem: str = _stemmer().stemWord(word.removesuffix("'s"))
    return (stem,)


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


def proper_names(text: str) -> frozenset[str]:
    """Words with a capital letter that begin no sentence, in lower case."""
    text = unicodedata.normalize("NFC", text)
    found = (_ASCII_NAME if text.isascii() else _NAME).finditer(text)
    return frozenset(
        match.group().lower()
        for match in found
        if text[match.start()].isupper() and not _begins_sentence(text, match.start())
    )


def _begins_sentence(text: str, start: int) -> bool:
    return start == 0 or text[start - 1] == "\n" or text[max(0, start - 2) : start] in _STOPS


def count_first_person(text: str) -> int:
    """Words in which the speaker speaks of himself: I, my, us and so on."""
    return sum(map(_FIRST_PERSON.__contains__, _WORD.findall(text)))
