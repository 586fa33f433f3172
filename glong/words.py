"""Words of a turn with their places in its text, and English word forms.

Contractions are split as treebanks do ("don't" is "do" and "n't", "I'm" is "I" and "'m"), so that a
negation is a word of its own. Any script is kept; only the word forms know English.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

__all__ = ["NEGATIONS", "Span", "Words", "from_here", "lemma", "split_words", "word_list"]

Span = tuple[int, int]
"""First word and the word after the last."""
NEGATIONS = frozenset({"not", "n't", "never", "no", "nt", "cannot", "nor", "without", "none"})

_WORD = re.compile(
    r"\w+?(?=n['\u2019]t\b)|n['\u2019]t\b|['\u2019](?:m|ve|ll|re|d|s)\b|\w+(?:[-.&]\w+)*|[^\w\s]",
    re.IGNORECASE,
)


@cache
def _english() -> dict[str, Any]:
    return tomllib.loads(files("glong").joinpath("english.toml").read_text(encoding="utf-8"))


@cache
def word_list(name: str) -> frozenset[str]:
    """One of the word lists of ``english.toml``."""
    return frozenset(_english()[name].split())


_IRREGULAR: dict[str, str] = {
    form: base for base, forms in _english()["irregular"].items() for form in forms.split()
}
_DROPPED_E, _KEPT_STEMS = word_list("dropped_e"), word_list("kept_stems")
_KEPT_ENDINGS = ("ss", "us", "is", "ous")
_VOWELS = "aeiouy"


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, lower case, and where each stands in it.

    Attributes:
        lower: each word in lower case, apostrophes plain.
        starts: index of each word's first character.
        ends: index after each word's last character.
        text: the text itself.
    """

    lower: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    text: str

    def __len__(self) -> int:
        return len(self.lower)

    def span(self, start: int, end: int) -> str:
        """The text from word ``start`` up to word ``end``, as it was written."""
        return " ".join(self.text[self.starts[start] : self.ends[end - 1]].split())


def split_words(text: str) -> Words:
    """The words of a text; white space parts them and is left out."""
    found = list(_WORD.finditer(text))
    lower = tuple(match.group().lower().replace("\u2019", "'") for match in found)
    starts = tuple(match.start() for match in found)
    return Words(lower, starts, tuple(match.end() for match in found), text)


def from_here(said: str) -> str:
    """Another's words from where the present speaker stands: "your sister" is "my sister"."""
    first, _, rest = said.partition(" ")
    turned = {"your": "my", "you": "I", "my": "your", "i": "you"}.get(first.lower())
    return " ".join(filter(None, (turned, rest))) if turned else said


@lru_cache(maxsize=65_536)
def lemma(word: str) -> str:
    """The base form of an English word, by a table and a few rules of spelling.

    ``working`` -> ``work``, ``hopped`` -> ``hop``, ``loves`` -> ``love``; never raises, and a word
    that no rule knows is its own base.
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith(_KEPT_ENDINGS) or len(word) < 4:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes", "oes")):
        return word[:-2]
    if word.endswith("s"):
        return word[:-1]
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        is_verb = len(stem) >= 2 and any(vowel in stem for vowel in _VOWELS)
        if stem != word and is_verb and not word.endswith("eed"):
            return _stem(stem)
    return word


def _stem(stem: str) -> str:
    """What is left before -ing or -ed, with its last letter mended."""
    if stem.endswith("i"):
        return stem[:-1] + "y"
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz":
        return stem[:-1]
    ends_in_e = stem.endswith(
        ("v", "c", "u", "iz", "az", "ez", "oz", "at", "rs", "as", "us", "os", "it", "ok")
    )
    short = len(stem) == 3 and stem[0] not in _VOWELS and stem[1] in _VOWELS and stem[2] in "kmpst"
    one_e = stem in _DROPPED_E
    return stem + "e" if one_e or (ends_in_e and stem not in _KEPT_STEMS and not short) else stem
