"""Text -> search terms, for any language. Knows nothing of memories.

Words are runs of letters and digits; English ones lose their endings and the commonest are left
out. Scripts without spaces give pairs of neighbouring characters, emoji count as words.
"""

import re
import unicodedata
from functools import cache, lru_cache
from typing import Any

from glong.words import word_list

__all__ = ["proper_names", "terms"]

_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ffff"
_LETTER = (
    rf"(?:(?![{_UNSPACED}])[^\W_]"
    r"|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff])"  # vowel signs too
)
_EMOJI = "[\u2600-\u27bf\U0001f300-\U0001faff]"
_TERM = re.compile(rf"[{_UNSPACED}]+|{_LETTER}+(?:['\u2019]{_LETTER}+)*|{_EMOJI}")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_NAME = re.compile(r"(?<!^)(?<![.!?\n] )\b[^\W\d_a-z]\w+", re.ASCII)


@lru_cache(maxsize=65_536)
def terms(text: str) -> tuple[str, ...]:
    """Search terms in order, repeats kept."""
    found: list[str] = []
    for run in _TERM.findall(unicodedata.normalize("NFKC", text).lower()):
        if _IS_UNSPACED.match(run):
            found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
        else:
            found += _word(run.replace("\u2019", "'"))
    return tuple(found)


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
    return frozenset(word.lower() for word in _NAME.findall(text))
