"""Labelled dialogues: the one form of all training data, for the tagger and for language models.

A fact points at words, so that a tagger can learn where it stands; :func:`windows` writes the same
facts as triplets, so that a language model learns to write them. Knows nothing of files or torch.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from glong.types import Triplet, Turn
from glong.words import Span, from_here, split_words

__all__ = [
    "Fact",
    "LabelledDialogue",
    "LabelledTurn",
    "Mention",
    "Window",
    "is_held_out",
    "normal_form",
    "spoken_form",
    "windows",
]


@dataclass(frozen=True, slots=True)
class Mention:
    """Words of a turn: ``span`` over :func:`glong.words.split_words` of its text.

    ``back`` is 0 for the turn that states the fact and 1 for the turn before it.
    """

    span: Span
    back: int = 0


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact that a turn states.

    Attributes:
        subject: where it is named; ``None`` is the speaker.
        relation: a listed name, or the verb in snake_case, with ``not_`` before it where denied.
        object: where it is named.
        trigger: the words of the relation's verb, if they are there.
    """

    subject: Mention | None
    relation: str
    object: Mention
    trigger: Mention | None = None


@dataclass(frozen=True, slots=True)
class LabelledTurn:
    """A turn and what it says.

    Attributes:
        speaker: the name as displayed.
        text: what was said.
        facts: what it states, in order.
        is_complete: every fact is labelled; else those given are some of them.
    """

    speaker: str
    text: str
    facts: tuple[Fact, ...] = ()
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class LabelledDialogue:
    """Consecutive turns of one source."""

    source: str
    turns: tuple[LabelledTurn, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """What a language model reads in one call, and what it should answer."""

    turns: tuple[Turn, ...]
    context: tuple[Turn, ...]
    triplets: tuple[Triplet, ...]


def windows(dialogue: LabelledDialogue, n_turns: int, n_context: int) -> Iterator[Window]:
    """Cut a dialogue into windows of turns as inference does, with their triplets.

    The first person stays "I", as inference leaves it to :mod:`glong.entities`, and what another
    said is turned round: "your sister" is "my sister". A turn of a dialogue whose facts are not all
    labelled would teach silence about the others: its window is left out; so is one that answers
    about a turn which is not shown.

    Args:
        dialogue: labelled turns.
        n_turns: of a window.
        n_context: turns shown before it.
    """
    turns = [Turn(i, turn.speaker, turn.text) for i, turn in enumerate(dialogue.turns)]
    for start in range(0, len(turns), n_turns):
        inside = dialogue.turns[start : start + n_turns]
        if len(dialogue.turns) > 1 and not all(turn.is_complete for turn in inside):
            continue
        if start and not n_context and any(_looks_back(fact) for fact in inside[0].facts):
            continue
        triplets = [t for i in range(start, start + len(inside)) for t in _triplets(dialogue, i)]
        context = tuple(turns[max(0, start - n_context) : start])
        yield Window(tuple(turns[start : start + n_turns]), context, tuple(triplets))


def _looks_back(fact: Fact) -> bool:
    return any(mention is not None and mention.back for mention in (fact.subject, fact.object))


def _triplets(dialogue: LabelledDialogue, index: int) -> Iterator[Triplet]:
    def text(mention: Mention) -> str:
        turn = dialogue.turns[index - mention.back]
        said = split_words(turn.text).span(*mention.span)
        return said if turn.speaker == dialogue.turns[index].speaker else from_here(said)

    for fact in dialogue.turns[index].facts:
        subject = "I" if fact.subject is None else text(fact.subject)
        yield Triplet(subject, fact.relation, text(fact.object), index)


def normal_form(text: str) -> str:
    """Letters and digits in lower case, one space between words: equal for equal utterances."""
    return " ".join(re.findall(r"\w+", text.lower()))


_CONTRACTED = (
    (re.compile(r"\b(?:can ?not|can['\u2019]?t)\b"), "can not"),
    (re.compile(r"\bwon['\u2019]?t\b"), "will not"),
    (re.compile(r" ?\bn ?['\u2019`] ?t\b|(?<=[a-z])n ?['\u2019`] ?t\b"), " not"),
    (re.compile(r"\b(that|what|he|she|there|here)s\b"), r"\1 is"),
    (re.compile(r"\b(you|they)re\b"), r"\1 are"),
    (re.compile(r"\b(do|does|did|is|are|was|were|have|has|had|would|could|should)nt\b"), r"\1 not"),
    (re.compile(r"\bi(?: ?['\u2019] ?)?m\b"), "i am"),
    (re.compile(r"\bi(?: ?['\u2019] ?)?ve\b"), "i have"),
    (re.compile(r" ?['\u2019] ?ve\b"), " have"),
    (re.compile(r" ?['\u2019] ?re\b"), " are"),
    (re.compile(r" ?['\u2019] ?ll\b"), " will"),
    (re.compile(r" ?['\u2019] ?d\b"), " would"),
    (re.compile(r" ?['\u2019] ?s\b"), " is"),
)


def spoken_form(text: str) -> str:
    """The normal form with contractions written out, as PersonaExt has them and others have not.

    "I'm", "im" and "i am" are one; "Tom's" is "tom is" and "I'd" is "i would", whatever they mean.
    """
    said = text.lower()
    for pattern, words in _CONTRACTED:
        said = pattern.sub(words, said)
    return normal_form(said)


def is_held_out(text: str, share: int = 10) -> bool:
    """Whether an utterance of PersonaExt is for evaluation: its hash modulo ``share`` is 0."""
    digest = hashlib.sha256(normal_form(text).encode()).hexdigest()
    return int(digest, 16) % share == 0
