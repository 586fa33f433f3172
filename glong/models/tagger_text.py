"""The tagger's side of text: turns cut into passages, pointers turned into triplets. No torch."""

from collections.abc import Iterator
from dataclasses import dataclass

from glong.relations import denial_of, is_denial
from glong.types import Session, Triplet
from glong.words import NEGATIONS, Words, lemma, split_words, word_list

__all__ = [
    "CONTEXT_WORDS",
    "TURN_WORDS",
    "Found",
    "Passage",
    "WordPair",
    "pair_of",
    "passages",
    "triplet_of",
]

CONTEXT_WORDS = 32
"""The most words of the turn before: its end, which is nearest."""
TURN_WORDS = 96
"""The most words of a turn that are read at once."""
_SENTENCE_ENDS = frozenset({".", "!", "?", ";"})


@dataclass(frozen=True, slots=True)
class WordPair:
    """What one pass reads: words of the turn before (may be none), and of the turn."""

    before: tuple[str, ...]
    turn: tuple[str, ...]

    @property
    def n_before(self) -> int:
        """Words of the turn before: the turn's words are numbered from there."""
        return len(self.before)


@dataclass(frozen=True, slots=True)
class Passage:
    """What one pass reads: up to ``TURN_WORDS`` words of a turn, after the end of what came before.

    Attributes:
        turn_index: the turn.
        before: words of the turn before, or of the same turn's part before.
        words: the words themselves; ``start`` to ``end`` of them are read.
        start: first word.
        end: word after the last.
        is_answer: ``before`` was said by somebody else.
    """

    turn_index: int
    before: Words
    words: Words
    start: int
    end: int
    is_answer: bool


@dataclass(frozen=True, slots=True)
class Found:
    """One fact as the network points at it; words are numbered through ``before`` and the passage.

    ``subject`` and ``trigger`` are first and last word, or ``None`` for the speaker and for none.
    """

    object: tuple[int, int]
    relation: str
    is_denied: bool
    subject: tuple[int, int] | None
    trigger: tuple[int, int] | None


def passages(session: Session) -> Iterator[Passage]:
    """Cut a session's turns: at the last sentence end that leaves a part of at most 96 words."""
    before, speaker = split_words(""), ""
    for turn in session.turns:
        words = split_words(turn.text)
        start = 0
        while start < len(words):
            end = min(len(words), start + TURN_WORDS)
            if end < len(words):
                ends = [i for i in range(start, end) if words.lower[i] in _SENTENCE_ENDS]
                end = ends[-1] + 1 if ends else end
            earlier = _part(words, start) if start else before
            yield Passage(
                turn.index, earlier, words, start, end, not start and speaker != turn.speaker
            )
            start = end
        before, speaker = words, turn.speaker


def _part(words: Words, end: int) -> Words:
    return Words(words.lower[:end], words.starts[:end], words.ends[:end], words.text)


def pair_of(passage: Passage) -> WordPair:
    """The words that the network reads."""
    read = passage.words.lower[passage.start : passage.end]
    return WordPair(passage.before.lower[-CONTEXT_WORDS:], read)


def triplet_of(fact: Found, passage: Passage) -> Triplet | None:
    """The fact in words, or ``None`` where the open class has no verb to name it."""
    n_before = min(len(passage.before), CONTEXT_WORDS)
    skipped = len(passage.before) - n_before

    def text(span: tuple[int, int]) -> str:
        first, last = span
        if first >= n_before:
            shift = passage.start - n_before
            return passage.words.span(first + shift, last + shift + 1)
        said = passage.before.span(first + skipped, min(last, n_before - 1) + skipped + 1)
        return _from_here(said) if passage.is_answer else said

    relation = fact.relation or (_open_relation(text(fact.trigger)) if fact.trigger else "")
    if not relation:
        return None
    if fact.is_denied and not is_denial(relation):
        relation = denial_of(relation)
    subject = "I" if fact.subject is None else text(fact.subject)
    return Triplet(subject, relation, text(fact.object), passage.turn_index)


def _from_here(said: str) -> str:
    """Another's words from where the present speaker stands: "your sister" is "my sister"."""
    first, _, rest = said.partition(" ")
    turned = {"your": "my", "you": "I", "my": "your", "i": "you"}.get(first.lower())
    return " ".join(filter(None, (turned, rest))) if turned else said


def _open_relation(trigger: str) -> str:
    """The verb's words in snake_case, its first in base form, without adverbs and negations."""
    left_out = NEGATIONS | word_list("adverbs")
    said = [word for word in split_words(trigger).lower if word not in left_out]
    parts = [word if i else lemma(word) for i, word in enumerate(said)]
    return "_".join([word for word in parts if word.isalpha()][:4])
