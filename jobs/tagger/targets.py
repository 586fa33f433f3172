"""Labelled dialogues -> what the network reads, and which words it should point at."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from glong.models.tagger_input import Pieces, as_pieces
from glong.models.tagger_net import MAX_WIDTH
from glong.models.tagger_text import CONTEXT_WORDS, TURN_WORDS, WordPair, context_words
from glong.relations import DENIAL, is_denial, relations
from glong.training.examples import Fact, LabelledDialogue, LabelledTurn, Mention
from glong.words import split_words

__all__ = ["OPEN", "UNKNOWN", "Example", "Target", "examples", "relation_classes"]

OPEN = ""
"""The class of every relation that has no name: its verb is pointed at."""
UNKNOWN = -100
"""A place that no label gives; the loss leaves it out."""
_LEAST = 8
"""Labels that a relation needs to be a class."""


@dataclass(frozen=True, slots=True)
class Target:
    """One fact as numbers; words are numbered through the turn before and the turn.

    Attributes:
        first: first word of the object.
        last: last word of the object.
        relation: class.
        is_denied: 1 if it says that this is not so.
        subject: first and last word, plus 1; 0 is the speaker.
        trigger: first and last word, plus 1, or ``UNKNOWN`` twice.
    """

    first: int
    last: int
    relation: int
    is_denied: int
    subject: tuple[int, int]
    trigger: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Example:
    """One turn with the turn before it."""

    pieces: Pieces
    targets: tuple[Target, ...]
    is_complete: bool


def relation_classes(dialogues: Iterable[LabelledDialogue]) -> tuple[str, ...]:
    """The open class, then every listed relation with enough labels, in the list's order."""
    counts = Counter(f.relation for d in dialogues for turn in d.turns for f in turn.facts)
    return (OPEN, *(name for name in relations() if counts[name] >= _LEAST))


def examples(
    dialogues: Iterable[LabelledDialogue], classes: Sequence[str], tokenizer: Any
) -> list[Example]:
    """Every turn as an example; turns of which nothing is known are left out."""
    numbers = {name: i for i, name in enumerate(classes)}
    pairs, targets, complete = [], [], []
    for dialogue in dialogues:
        for before, turn in zip((None, *dialogue.turns), dialogue.turns, strict=False):
            if not turn.is_complete and not turn.facts:
                continue
            pair, offsets = _pair(before, turn)
            found = [t for fact in turn.facts if (t := _target(fact, pair, offsets, numbers))]
            pairs.append(pair)
            targets.append(tuple(dict.fromkeys(found)))
            complete.append(turn.is_complete and len(found) == len(turn.facts))
    pieces = as_pieces(tokenizer, pairs)
    rows = zip(pieces, targets, complete, strict=True)
    return [Example(*row) for row in rows if row[1] or row[2]]


def _pair(before: LabelledTurn | None, turn: LabelledTurn) -> tuple[WordPair, tuple[int, int]]:
    """What is read, and what to add to a word's number in the turn and in the turn before it."""
    earlier = split_words(before.text).lower if before else ()
    cut = max(0, len(earlier) - CONTEXT_WORDS)
    pair = WordPair(context_words(earlier), split_words(turn.text).lower[:TURN_WORDS])
    return pair, (pair.n_before, -cut)


def _target(
    fact: Fact, pair: WordPair, offsets: tuple[int, int], numbers: dict[str, int]
) -> Target | None:
    """The fact as numbers, or ``None`` where the network cannot say it."""
    n_words = (len(pair.before) + len(pair.turn), pair.n_before)

    def place(mention: Mention) -> tuple[int, int] | None:
        first, end = (i + offsets[mention.back] for i in mention.span)
        inside = first >= 0 and end <= n_words[mention.back]
        return (first, end - 1) if inside else None

    target = place(fact.object)
    subject = (-1, -1) if fact.subject is None else place(fact.subject)
    trigger = place(fact.trigger) if fact.trigger else (UNKNOWN - 1, UNKNOWN - 1)
    relation = numbers.get(fact.relation, 0)
    if target is None or subject is None or trigger is None:
        return None
    if target[1] - target[0] >= MAX_WIDTH or (relation == 0 and fact.trigger is None):
        return None
    is_denied = fact.relation.startswith(DENIAL) or is_denial(fact.relation)
    return Target(
        *target, relation, int(is_denied), (subject[0] + 1, subject[1] + 1),
        (trigger[0] + 1, trigger[1] + 1),
    )  # fmt: skip
