"""Names: normalised for identity, resolved to speakers, every spelling kept.

An entity's id is a hash of its normalised name, so what is normalised alike is one node. First
person ("I", "my sister") is resolved to the turn's speaker, second person to the other one where
there is exactly one, and spellings of a speaker ("SPEAKER1", "Speaker 1") to the name as displayed.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from glong.types import Failure, Session, Triplet

__all__ = ["Names", "normalise", "normalise_relation", "resolve", "resolve_triplets"]

_FIRST_PERSON = frozenset({"i", "me", "myself", "im", "i'm", "mine"})
_FIRST_POSSESSIVE = frozenset({"my", "our"})
_SECOND_PERSON = frozenset({"you", "yourself", "u"})
_SECOND_POSSESSIVE = frozenset({"your", "ur"})
_ARTICLES = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_SPACES = re.compile(r"\s+")
_MEANINGFUL_SIGNS = frozenset("#%&@*")


def _tidy(name: str) -> str:
    """Composed Unicode, one space between words, typographic apostrophes made plain."""
    name = unicodedata.normalize("NFKC", name).replace("\u2019", "'")
    return _SPACES.sub(" ", name).strip()


def normalise(name: str) -> str:
    """The form that decides identity: case folded, no article, no punctuation at either end.

    Signs that tell names apart stay ("C#" is not "C++"); an empty string means: not a name.
    """
    core = _strip_punctuation(_tidy(name).casefold())
    return _strip_punctuation(_ARTICLES.sub("", core))


def _strip_punctuation(name: str) -> str:
    def is_edge(sign: str) -> bool:
        return sign not in _MEANINGFUL_SIGNS and unicodedata.category(sign)[0] in "PZC"

    start, end = 0, len(name)
    while start < end and is_edge(name[start]):
        start += 1
    while end > start and is_edge(name[end - 1]):
        end -= 1
    return name[start:end]


def normalise_relation(relation: str) -> str:
    """snake_case: letters and digits of any script, one underscore between words."""
    return re.sub(r"[\W_]+", "_", _tidy(relation).casefold()).strip("_")


def _compact(name: str) -> str:
    return re.sub(r"[\W_]+", "", normalise(name))


def _as_speaker(name: str, speakers: Sequence[str]) -> str | None:
    """The speaker that this spelling means: same letters, or the first name of exactly one."""
    compact = _compact(name)
    for speaker in speakers:
        if compact and compact == _compact(speaker):
            return speaker
    same_first = [s for s in speakers if " " in s.strip() and _compact(s.split()[0]) == compact]
    return (
        same_first[0] if len(same_first) == 1 and not same_first[0].split()[-1].isdigit() else None
    )


def resolve(name: str, speaker: str, speakers: Sequence[str]) -> str:
    """The display name that a surface form means when ``speaker`` says it.

    Args:
        name: as extracted, such as "I", "my sister", "SPEAKER1", "the red barn".
        speaker: who says it.
        speakers: everyone who speaks in the session, in order of appearance.
    """
    tidy = _tidy(name)
    if not tidy:
        return ""
    others = [s for s in speakers if s != speaker]
    addressee = others[0] if len(others) == 1 else None
    first, _, rest = tidy.partition(" ")
    first = first.casefold()
    whole = normalise(tidy)
    if whole in _FIRST_PERSON:
        return speaker
    if whole in _SECOND_PERSON and addressee:
        return addressee
    if rest and first in _FIRST_POSSESSIVE:
        return f"{speaker}'s {rest}"
    if rest and first in _SECOND_POSSESSIVE and addressee:
        return f"{addressee}'s {rest}"
    return _as_speaker(tidy, speakers) or tidy


def resolve_triplets(
    session: Session, triplets: Iterable[Triplet]
) -> tuple[tuple[Triplet, ...], tuple[Failure, ...]]:
    """Resolve names and relations, drop what says the same thing twice in one turn.

    Returns:
        The triplets with display names, in order, and a ``Failure`` of kind ``empty_name`` for each
        one whose subject, relation or object has no letters left.
    """
    speaker_of = {turn.index: turn.speaker for turn in session.turns}
    speakers = tuple(dict.fromkeys(speaker_of.values()))
    kept: dict[tuple[int, str, str, str], Triplet] = {}
    failures = []
    for triplet in triplets:
        speaker = speaker_of[triplet.turn_index]
        resolved = replace(
            triplet,
            subject=resolve(triplet.subject, speaker, speakers),
            relation=normalise_relation(triplet.relation),
            object=resolve(triplet.object, speaker, speakers),
        )
        key = (normalise(resolved.subject), resolved.relation, normalise(resolved.object))
        if all(key):
            kept.setdefault((triplet.turn_index, *key), resolved)
        else:
            failures.append(_empty_name(triplet))
    return tuple(kept.values()), tuple(failures)


def _empty_name(triplet: Triplet) -> Failure:
    raw = repr((triplet.subject, triplet.relation, triplet.object))
    return Failure(
        stage="extract",
        kind="empty_name",
        message="A triplet's subject, relation or object has no letter or digit; it is left out.",
        raw=raw[:2000],
        turn_index=triplet.turn_index,
    )


@dataclass(frozen=True, slots=True)
class Names:
    """The entities of one session: normalised name -> display name and other spellings."""

    display: dict[str, str]
    aliases: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, triplets: Iterable[Triplet]) -> "Names":
        """Collect subjects and objects in order; the first spelling is the display name."""
        spellings: dict[str, dict[str, None]] = {}
        for triplet in triplets:
            for name in (triplet.subject, triplet.object):
                spellings.setdefault(normalise(name), {})[name] = None
        display = {key: next(iter(names)) for key, names in spellings.items()}
        aliases = {key: tuple(names)[1:] for key, names in spellings.items()}
        return cls(display, aliases)
