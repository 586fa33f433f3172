"""The tagger's side of text: turns cut into passages, pointers turned into triplets. No torch.

The network is at its best where a turn needs the turn before it or a relation's name, the patterns
of :mod:`glong.rules` on plain clauses with a verb of their own: :func:`triplets_of` takes both.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from glong.objects import without_ending
from glong.relations import denial_of, is_denial, means_the_same
from glong.rules import of_somebody, stated_relation, subject_words
from glong.types import Session, Triplet
from glong.words import NEGATIONS, Words, from_here, lemma, split_words, word_list

__all__ = [
    "CONTEXT_WORDS",
    "TURN_WORDS",
    "Found",
    "Passage",
    "WordPair",
    "context_words",
    "may_state",
    "pair_of",
    "passages",
    "triplets_of",
]

CONTEXT_WORDS = 32
"""The most words of the turn before: its end, which is nearest."""
TURN_WORDS = 96
"""The most words of a turn that are read at once."""
_ALONE, _SURE = 0.85, 0.7
"""Least probability of an object that no plain clause has, and of a relation that the clause's verb
does not mean: else the clause is believed. Without the second more of PersonaExt's labels are
found, and fewer facts of other sets."""
_ANSWER_WORDS = 20
"""The most words of a turn that may answer without naming anybody."""
_SENTENCE_ENDS = frozenset({".", "!", "?", ";"})
_AGE = re.compile(r"\d{1,3}(?: years?)?(?: old)?")
_ATTRIBUTES = frozenset({"be", "misc_attribute", "physical_attribute"})
_PLACES = frozenset(
    {
        "attend_school", "employed_by_company", "employed_by_general", "live_in_citystatecountry",
        "live_in_general", "place_origin",
    }
)  # fmt: skip
_ASKING = frozenset({"how", "what", "when", "where", "who"})
_UNREAL = frozenset((word, "have") for word in ("could", "might", "should", "would"))
"""As in "I could have been a doctor"."""
_AT = frozenset({"at", "from", "in"})
_THIRD, _YOU = frozenset({"he", "she", "they"}), frozenset({"you", "your", "u"})
_OWNED = frozenset({"have_children", "have_family", "have_pet", "have_sibling", "relationship"})
_NAMES = frozenset({"his name", "her name", "their name"})
_Span = tuple[int, int]


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

    ``subject`` and ``trigger`` are first and last word, or ``None`` for the speaker and for none;
    ``chance`` is the object's probability, ``certainty`` the relation's.
    """

    object: _Span
    relation: str
    is_denied: bool
    subject: _Span | None
    trigger: _Span | None
    chance: float = 1.0
    certainty: float = 1.0


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


def may_state(passage: Passage) -> bool:
    """Whether it names somebody, is a short answer, or has a plain clause: else it is not read.

    Of the words of long histories with an assistant 45 % are lists and advice about nobody, of
    those of dialogues between people 10 %.
    """
    people = word_list("people")
    if any(word in people for word in passage.words.lower[passage.start : passage.end]):
        return True
    is_short = passage.is_answer and len(passage.words) <= _ANSWER_WORDS
    return is_short or bool(_clauses(passage))


def pair_of(passage: Passage) -> WordPair:
    """The words that the network reads."""
    read = passage.words.lower[passage.start : passage.end]
    return WordPair(context_words(passage.before.lower), read)


def context_words(before: Sequence[str]) -> tuple[str, ...]:
    """The end of the turn before, as the network reads questions: "what's" is "what is"."""
    words = before[-CONTEXT_WORDS:]
    return tuple(
        "is" if word == "'s" and asking in _ASKING else word
        for asking, word in zip(("", *words), words, strict=False)
    )


def triplets_of(facts: Sequence[Found], passage: Passage, most: int) -> list[Triplet]:
    """What a passage states: the network's facts, and plain clauses that it left out.

    Of a fact whose object is a clause's too the clause is believed where the network knows no
    relation by name, is unsure of one that the clause's verb does not mean, or takes "his name" for
    somebody. What "he" does is never the speaker's: the clause knows whose, or it is left out.

    Args:
        facts: in any order.
        passage: where they were found.
        most: triplets at most; the network's come first.

    Returns:
        In order of their objects' places.
    """
    n_before = _n_before(passage)
    clauses, others = _clauses(passage), _of_somebody(passage)
    taken: set[_Span] = set()
    found: list[tuple[_Span, Triplet]] = []
    for fact in facts:
        clause = next((span for span in clauses if _overlap(span, fact.object)), None)
        if clause is not None:
            taken.add(clause)
        elif fact.object[0] >= n_before and fact.chance < _ALONE:
            continue
        said = clauses[clause] if clause else None
        triplet = _triplet(fact, passage)
        if triplet and triplet.subject == "I" and any(_overlap(o, fact.object) for o in others):
            triplet = said
        if triplet and said:
            triplet = triplet if _is_believed(fact, triplet, said) else said
        triplet = triplet or said
        if triplet:
            found.append((fact.object, triplet))
    found += [(span, triplet) for span, triplet in clauses.items() if span not in taken]
    return _names_owned([triplet for _, triplet in sorted(found[:most], key=lambda one: one[0])])


def _names_owned(triplets: Sequence[Triplet]) -> list[Triplet]:
    """Give "his name" of "yes, I have a dog, his name is Max" to the dog."""
    found: list[Triplet] = []
    for triplet in triplets:
        is_theirs = triplet.relation == "name" and triplet.subject.lower() in _NAMES
        owned = found[-1] if found and found[-1].relation in _OWNED else None
        found.append(replace(triplet, subject=owned.object) if is_theirs and owned else triplet)
    return found


def _is_believed(fact: Found, read: Triplet, said: Triplet) -> bool:
    """Whether the network's reading stands where a clause says ``said`` of the same words."""
    if not fact.relation or read.subject.lower() in _NAMES:
        return False
    if is_denial(said.relation) and not is_denial(read.relation):
        return False
    return fact.certainty >= _SURE or means_the_same(read.relation, said.relation)


def _overlap(left: _Span, right: _Span) -> bool:
    return max(left[0], right[0]) <= min(left[1], right[1])


def _clauses(passage: Passage) -> dict[_Span, Triplet]:
    """Object of each plain clause, numbered as the network's, -> what the clause states."""
    part = _read(passage)
    n_before = _n_before(passage)
    found = {}
    for clause, subject in subject_words(part):
        said = "I" if subject is None else part.span(*subject)
        first, stop = clause.object
        relation = stated_relation(part, clause)
        triplet = Triplet(said, relation, part.span(first, stop), passage.turn_index)
        found[first + n_before, stop - 1 + n_before] = triplet
    return found


def _of_somebody(passage: Passage) -> list[_Span]:
    """Objects of the clauses about "he", "she" or "they", numbered as the network's."""
    n_before = _n_before(passage)
    return [(first + n_before, stop - 1 + n_before) for first, stop in of_somebody(_read(passage))]


def _read(passage: Passage) -> Words:
    """The words of the turn that are read."""
    start, end, words = passage.start, passage.end, passage.words
    return Words(words.lower[start:end], words.starts[start:end], words.ends[start:end], words.text)


def _n_before(passage: Passage) -> int:
    """Words of ``before`` that the network reads."""
    return min(len(passage.before), CONTEXT_WORDS)


def _triplet(fact: Found, passage: Passage) -> Triplet | None:
    """The fact in words, or ``None`` where it has no relation, is unreal or of nobody known."""
    before = _before_it(fact.object[0], passage)
    if any(pair in _UNREAL for pair in pairwise(before[-5:])) or _asks_of_another(fact, passage):
        return None
    relation = fact.relation or _stated(fact, passage)
    target = _thing(_said(fact.object, passage), relation)
    relation = _fitting(relation, target, before)
    if not relation or (relation == "name" and not _is_named(fact.object[0], passage)):
        return None
    if fact.is_denied and not is_denial(relation):
        relation = denial_of(relation)
    subject = "I" if fact.subject is None else _said(fact.subject, passage)
    return Triplet(subject, relation, target, passage.turn_index)


def _said(span: _Span, passage: Passage) -> str:
    """The words of a pointer, from where the turn's speaker stands."""
    first, last = span
    n_before = _n_before(passage)
    if first >= n_before:
        shift = passage.start - n_before
        return passage.words.span(first + shift, last + shift + 1)
    skipped = len(passage.before) - n_before
    said = passage.before.span(first + skipped, min(last, n_before - 1) + skipped + 1)
    return from_here(said) if passage.is_answer else said


def _stated(fact: Found, passage: Passage) -> str:
    """The relation that a fact's verb gives it; empty without a verb."""
    if fact.trigger is None:
        return ""
    if fact.trigger != fact.object:
        return _open_relation(_said(fact.trigger, passage))
    if fact.object[1] >= _n_before(passage):
        return ""  # "I leave" has no object
    return "can" if "can" in passage.before.lower else "do"  # "Do you smoke?"


def _thing(target: str, relation: str) -> str:
    """An object without the "in" before a place and the "any more" that ends a clause."""
    words = split_words(target)
    start = int(relation in _PLACES and len(words) > 1 and words.lower[0] in _AT)
    end = without_ending(words.lower, start, len(words))
    return words.span(start, end) if end > start else target


def _asks_of_another(fact: Found, passage: Passage) -> bool:
    """Whether the turn before asks about "she": a "yes" says it of her, whoever that is."""
    if fact.subject is not None or fact.object[1] >= _n_before(passage):
        return False
    said = passage.before.lower[-CONTEXT_WORDS:][: fact.object[0]]
    begun = max((i for i, word in enumerate(said) if word in _SENTENCE_ENDS), default=-1) + 1
    return bool(_THIRD.intersection(said[begun:])) and _YOU.isdisjoint(said[begun:])


def _before_it(first: int, passage: Passage) -> Sequence[str]:
    """Words of the sentence up to an object's, after those of the turn that it answers."""
    place = max(0, first - _n_before(passage)) + passage.start
    said = passage.words.lower[passage.start : place]
    begun = max((i for i, word in enumerate(said) if word in _SENTENCE_ENDS), default=-1) + 1
    return (*passage.before.lower, *said[begun:]) if passage.is_answer else said[begun:]


def _fitting(relation: str, target: str, said: Sequence[str]) -> str:
    """The relation, or the one that its object and the words before it show.

    PersonaExt names no profession of another, so "my mother is a nurse" was learnt as a wish and
    as a marriage, and an age as an attribute.
    """
    if said and "wish" in said and not relation.startswith("want"):
        return "want"
    if relation in _ATTRIBUTES and _AGE.fullmatch(target.lower()):
        return "has_age"
    if relation == "marital_status" and word_list("marital").isdisjoint(split_words(target).lower):
        return "be"
    if relation == "want_job" and word_list("wishes").isdisjoint(said):
        return "has_profession"
    return relation


def _is_named(first: int, passage: Passage) -> bool:
    """Whether the word before says that a name follows, or the turn before asked for one.

    "Tom!" calls another.
    """
    place = first - _n_before(passage) + passage.start
    if place < passage.start:
        return True  # "Are you Tom?", and the answer is about these words
    if passage.is_answer and not word_list("ask_for_names").isdisjoint(passage.before.lower):
        return True
    while place > passage.start and passage.words.lower[place - 1] in word_list("adverbs"):
        place -= 1
    return place > passage.start and passage.words.lower[place - 1] in word_list("before_a_name")


def _open_relation(trigger: str) -> str:
    """The verb's words in snake_case, its first in base form, without what is no part of it.

    Left out are adverbs, articles, negations, and the "you" of "are you afraid of dogs".
    """
    left_out = NEGATIONS | word_list("adverbs") | word_list("determiners") | word_list("pronouns")
    said = [word for word in split_words(trigger).lower if word not in left_out]
    parts = [word if i else lemma(word) for i, word in enumerate(said)]
    return "_".join([word for word in parts if word.isalpha()][:4])
