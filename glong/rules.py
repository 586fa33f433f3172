"""An extractor without a model: the clauses of :mod:`glong.clauses` as triplets.

The baseline that a trained extractor has to beat, and a fallback that needs no weights. It keeps a
clause's own verb as relation and resolves "he" and "she" within a turn only.
"""

from collections.abc import Iterator, Sequence

from glong.clauses import Clause, clauses, relation_words
from glong.ids import text_hash
from glong.relations import denial_of, relations
from glong.types import Extraction, Session, Triplet, Turn
from glong.words import Span, Words, lemma, split_words, word_list

__all__ = [
    "RULES",
    "RuleExtractor",
    "of_somebody",
    "says_something",
    "stated_relation",
    "subject_words",
]

RULES = "rules-6"
"""Version of the patterns: the fingerprint."""
_SPEAKER = frozenset({"i", "we", "im", "ive"})
_THIRD = frozenset({"he", "she", "they"})
_THEIR = frozenset({"his", "her", "their"})
_GOT = frozenset({"adopt", "get", "have", "meet", "own"})
"""Verbs whose object "his name is" may name."""


class RuleExtractor:
    """An :class:`glong.protocols.Extractor`; the same sentence always gives the same triplets."""

    @property
    def fingerprint(self) -> str:
        """Identity of the patterns."""
        return text_hash("extractor", RULES)

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        """The facts of each session's plain clauses; never fails."""
        return [
            Extraction(
                tuple(dict.fromkeys(t for turn in session.turns for t in _triplets(turn))),
                n_windows=len(session.turns),
            )
            for session in sessions
        ]


def _triplets(turn: Turn) -> Iterator[Triplet]:
    words = split_words(turn.text)
    for clause, subject in subject_words(words):
        said = "I" if subject is None else words.span(*subject)
        target = words.span(*clause.object)
        yield Triplet(said, stated_relation(words, clause), target, turn.index)


def subject_words(words: Words) -> Iterator[tuple[Clause, tuple[int, int] | None]]:
    """Clauses that say something, each with its subject's words; ``None`` is the speaker.

    A pronoun takes the last subject named before it in the text, "his name is" the last thing that
    somebody got; without one the clause is left out, and so are clauses about "you".
    """
    someone: Span | None = None
    something: Span | None = None
    for clause in clauses(words):
        first = words.lower[clause.subject[0]]
        if first in _SPEAKER:
            subject = None
        elif first in _THIRD:
            if someone is None or (first != "they" and _are_several(words, someone)):
                continue
            subject = someone
        elif first in _THEIR and words.lower[clause.subject[1] - 1] == "name":
            subject = max(filter(None, (someone, something)), default=None)  # the later one
            if subject is None:
                continue
        else:
            subject = clause.subject
            if _is_someone(words, subject):
                someone = subject
        if first not in ("you", "your") and says_something(words, clause):
            is_own = subject is not None and _own_thing(words, clause) and first not in _THEIR
            if relation_words(words, clause) in _GOT and not clause.is_denied:
                something = clause.object
            yield clause, None if is_own else subject


def of_somebody(words: Words) -> list[Span]:
    """Objects of the clauses about "he", "she" or "they": what they say is not of the speaker."""
    return [c.object for c in clauses(words) if words.lower[c.subject[0]] in _THIRD]


def _is_someone(words: Words, subject: Span) -> bool:
    """Whether "she" or "they" may stand for it later: not for "you", nor for "my name"."""
    first, last = words.lower[subject[0]], words.lower[subject[1] - 1]
    return first not in ("you", "your") and last != "name"


def _are_several(words: Words, subject: Span) -> bool:
    """Whether it is "my parents", "our kids": no "she"."""
    last = words.lower[subject[1] - 1]
    return subject[1] - subject[0] > 1 and last.endswith("s") and lemma(last) != last


def says_something(words: Words, clause: Clause) -> bool:
    """Whether it is neither question nor opinion nor about nothing in particular."""
    verb = relation_words(words, clause)
    target = words.lower[clause.object[0] : clause.object[1]]
    opinions = word_list("opinion_verbs")
    if clause.in_question or verb.split("_")[0] in opinions or lemma(target[0]) in opinions:
        return False
    return not all(word in word_list("vague_objects") for word in target)


def stated_relation(words: Words, clause: Clause) -> str:
    """The clause's relation: its verb, or ``name`` and ``favorite_...`` of "my name is ..."."""
    relation = _own_thing(words, clause) or relation_words(words, clause)
    return denial_of(relation) if clause.is_denied else relation


def _own_thing(words: Words, clause: Clause) -> str:
    """The relation of "my name is" and "my favorite color is", whose subject is the speaker.

    Also of "his name is", whose subject was named before.
    """
    possessed = words.lower[clause.subject[0] : clause.subject[1]]
    if relation_words(words, clause) != "be":
        return ""
    if possessed[0] in _THEIR and possessed[1:] == ("name",):
        return "name"
    if possessed[0] not in ("my", "our"):
        return ""
    if possessed[1] in ("favorite", "favourite", "fav") and len(possessed) > 2:
        kind = f"favorite_{lemma(possessed[-1])}"
        return kind if kind in relations() else "favorite"
    return "name" if possessed[1:] == ("name",) else ""
