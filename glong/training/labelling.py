"""Facts of plain sentences, their relations' names, and where a turn states them.

Three steps, each pure: :func:`plain_facts` reads clauses; :func:`named` gives a fact its listed
relation, by the probabilities of a teacher that has learnt PersonaExt's labels; :func:`project`
finds in a raw turn what annotators' sentences say of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from glong.relations import denial_of, relations
from glong.rules import stated_relation, subject_words
from glong.training.examples import Fact, Mention
from glong.words import Span, Words, lemma, split_words, word_list

__all__ = ["denied", "find_words", "may_be_named", "merged", "named", "plain_facts", "project"]

_CANDIDATES_SHARE = 0.35
"""Least probability that the teacher gives to the listed relations which the verb may mean."""
_MAX_WINDOW = 10
"""Words between the first and the last word of a projected object."""


def plain_facts(text: str) -> list[Fact]:
    """What the clauses of a text state, with the verb as relation; questions are left out."""
    words = split_words(text)
    facts = []
    for clause, subject in subject_words(words):
        mention = None if subject is None else Mention(subject)
        relation = stated_relation(words, clause)
        is_listed = relation.startswith("favorite") or relation == "name"
        trigger = clause.subject if is_listed else clause.verb
        facts.append(Fact(mention, relation, Mention(clause.object), Mention(trigger)))
    return facts


def denied(fact: Fact) -> Fact:
    """The same fact, denied."""
    return replace(fact, relation=denial_of(fact.relation))


def may_be_named(fact: Fact) -> bool:
    """Whether the fact's verb may stand for a listed relation, so that asking is worth it."""
    return bool(_candidates(fact.relation))


def _candidates(relation: str) -> tuple[str, ...]:
    """Listed relations that a verb, denied or not, may stand for."""
    return _meanings().get(relation, ())


@cache
def _meanings() -> Mapping[str, tuple[str, ...]]:
    """Verb -> the listed relations that it may stand for."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, relation in relations().items():
        for verb in (name, *sorted(relation.synonyms)):
            found[verb].append(name)
    return {verb: tuple(names) for verb, names in found.items()}


def named(fact: Fact, probabilities: Mapping[str, float]) -> Fact:
    """The fact with a listed relation, if its verb may mean one that the teacher believes in.

    Args:
        fact: relation as its verb.
        probabilities: of each listed relation the teacher knows, for this sentence and object.
    """
    scores = {name: probabilities.get(name, 0.0) for name in _candidates(fact.relation)}
    if not scores or sum(scores.values()) < _CANDIDATES_SHARE:
        return fact
    return replace(fact, relation=max(scores, key=lambda name: scores[name]))


def project(facts: Iterable[tuple[str, Fact]], turn: str) -> tuple[list[Fact], bool]:
    """Find in a turn the facts of annotators' sentences about it.

    Args:
        facts: sentence and one of its facts each.
        turn: what was said.

    Returns:
        The facts with places in the turn, and whether every one was found.
    """
    words = split_words(turn)
    bases = [lemma(word) for word in words.lower]
    found: list[Fact] = []
    n_lost = 0
    for sentence, fact in facts:
        placed = _placed(split_words(sentence), fact, bases)
        if placed is None:
            n_lost += 1
        else:
            found.append(placed)
    return found, not n_lost


def _placed(sentence: Words, fact: Fact, bases: Sequence[str]) -> Fact | None:
    target = find_words(sentence, fact.object.span, bases)
    if target is None:
        return None
    subject = fact.subject
    if subject is not None:
        span = find_words(sentence, subject.span, bases)
        if span is None:
            return None
        subject = Mention(span)
    verb = find_words(sentence, fact.trigger.span, bases) if fact.trigger else None
    if verb is None and fact.relation not in relations():
        return None  # an open relation has no name but the words that state it
    return Fact(subject, fact.relation, Mention(target), Mention(verb) if verb else None)


def find_words(sentence: Words, span: Span, bases: Sequence[str]) -> Span | None:
    """The shortest run of a turn's words that holds every content word of a span.

    Args:
        sentence: where the span is.
        span: of its words.
        bases: base forms of the turn's words.
    """
    every = [lemma(word) for word in sentence.lower[span[0] : span[1]] if word[0].isalnum()]
    light = word_list("light_words")
    wanted = {word for word in every if word not in light} or set(every)
    if not wanted:
        return None
    best: Span | None = None
    for start, word in enumerate(bases):
        if word not in wanted:
            continue
        missing = set(wanted)
        for end in range(start, min(len(bases), start + _MAX_WINDOW)):
            if bases[end] in (".", "!", "?"):
                break
            missing.discard(bases[end])
            if not missing:
                if best is None or end + 1 - start < best[1] - best[0]:
                    best = (start, end + 1)
                break
    return best


def merged(first: Sequence[Fact], second: Iterable[Fact]) -> list[Fact]:
    """Both, without what the second says again about the same words."""

    def overlaps(left: Mention, right: Mention) -> bool:
        return left.back == right.back and max(left.span[0], right.span[0]) < min(
            left.span[1], right.span[1]
        )

    kept = list(first)
    kept += [f for f in second if not any(overlaps(f.object, one.object) for one in first)]
    return sorted(kept, key=lambda fact: fact.object.span)
