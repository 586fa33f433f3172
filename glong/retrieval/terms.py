"""Text -> search terms, for any language. Knows nothing of memories.

Words are runs of letters and digits; English ones lose their endings and the commonest are left
out. Scripts without spaces give pairs of neighbouring characters (so does Korean, which glues its
particles to words) and single Chinese characters, emoji count as words.
"""

import re
import unicodedata
from functools import cache, lru_cache
from typing import Any

from glong.words import word_list

__all__ = ["is_unspaced", "proper_names", "terms"]

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
_TERM = re.compile(rf"[{_UNSPACED}]+|{_LETTER}+(?:['\u2019]{_LETTER}+)*|{_EMOJI}")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_IS_HAN = re.compile(rf"[{_HAN}]")
_NAME = re.compile(r"(?<!^)(?<!\n)(?<![.!?\n] )\b[^\W\d_]\w+")


def terms(text: str) -> tuple[str, ...]:
    """Search terms in order, repeats kept."""
    found: list[str] = []
    for run in _TERM.findall(unicodedata.normalize("NFKC", text).lower()):
        if _IS_UNSPACED.match(run):
            found += [run[i : i + 2] for i in range(len(run) - 1)] + _IS_HAN.findall(run) or [run]
        else:
            found += _word(run.replace("\u2019", "'"))
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
    words = _NAME.findall(unicodedata.normalize("NFC", text))
    return frozenset(word.lower() for word in words if word[0].isupper())
