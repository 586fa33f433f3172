"""All training data in one form, of one variant, without what evaluations read.

``default``: PersonaExt, MSC valid and Synthetic-Persona-Chat valid, whose licences allow commercial
use or are not stated (PersonaExt). Labels of raw turns need a teacher, which a first training on
PersonaExt alone gives: see ``jobs/train_tagger.py``. ``research`` adds DialogRE train and dev,
whose licence allows non-commercial research only.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from glong.relations import relations
from glong.rules import RULES
from glong.training.compose import compose
from glong.training.corpora import (
    ArgumentPair,
    PersonaPair,
    PersonaTurn,
    dialogre_dialogues,
    evaluation_utterances,
    msc_dialogues,
    persona_pairs,
    synthetic_dialogues,
)
from glong.training.examples import (
    Fact,
    LabelledDialogue,
    LabelledTurn,
    Mention,
    spoken_form,
)
from glong.training.labelling import (
    find_words,
    may_be_named,
    merged,
    named,
    plain_facts,
    project,
)
from glong.words import lemma, split_words

__all__ = [
    "LABELS",
    "Teacher",
    "persona_dialogue",
    "persona_dialogues",
    "relation_dialogues",
    "training_dialogues",
]

LABELS = f"labels-2 {RULES}"
"""Version of what is labelled how, beside the data itself."""
Teacher = Callable[[Sequence[tuple[str, Fact]]], list[Mapping[str, float]]]
"""Sentences with a fact each -> for each, probability of the listed relations."""

_SPEAKER = frozenset({"i", "my", "me", "we", "mine", "our", "us", "myself"})
_MAX_OBJECT = 8


def persona_dialogues(data: Path, *, held_out: bool = False) -> Iterator[LabelledDialogue]:
    """PersonaExt as dialogues of one turn, of whose facts one is labelled.

    Raises:
        SourceError: the file is not there.
    """
    read = frozenset() if held_out else evaluation_utterances(data)
    for pair in persona_pairs(data, held_out=held_out):
        if spoken_form(pair.text) not in read:
            dialogue = persona_dialogue(pair)
            if dialogue is not None:
                yield dialogue


def persona_dialogue(pair: PersonaPair) -> LabelledDialogue | None:
    """A pair as a dialogue; ``None`` where its object is not together or its label says nothing."""
    if pair.relation not in relations():
        return None
    target = _span(pair, pair.object)
    if target is None:
        return None
    subject = None
    if pair.tokens[pair.subject[0]] not in _SPEAKER or len(pair.subject) > 1:
        subject = _span(pair, pair.subject)
        if subject is None:
            return None
    fact = Fact(subject, pair.relation, target)
    return LabelledDialogue("personaext", (LabelledTurn("I", pair.text, (fact,), False),))


def _span(pair: PersonaPair, tokens: Sequence[int]) -> Mention | None:
    """Tokens of the row -> words of its text."""
    first, last = min(tokens), max(tokens)
    if last - first + 1 > min(_MAX_OBJECT, len(set(tokens)) + 1):
        return None
    begin = sum(len(token) + 1 for token in pair.tokens[:first])
    end = begin + len(" ".join(pair.tokens[first : last + 1]))
    words = split_words(pair.text)
    inside = [i for i in range(len(words)) if begin <= words.starts[i] and words.ends[i] <= end]
    return Mention((inside[0], inside[-1] + 1)) if inside else None


def training_dialogues(
    data: Path, teacher: Teacher, *, n_composed: int, seed: int
) -> list[LabelledDialogue]:
    """The whole default set, sources one after another.

    Args:
        data: the data folder.
        teacher: gives relations their names.
        n_composed: exchanges made of plain sentences.
        seed: of what is drawn.

    Raises:
        SourceError: a file is not there.
    """
    read = evaluation_utterances(data)
    naming = _Naming(teacher)
    msc = list(msc_dialogues(data, "valid"))
    synthetic = list(synthetic_dialogues(data, "valid"))
    persona = [s for session in msc for turn in session for s in turn.persona]
    persona += [s for _, both in synthetic for one in both for s in one]
    plain = naming.name((s, f) for s in dict.fromkeys(persona) for f in plain_facts(s))
    spoken = [turn.text for session in msc for turn in session]
    spoken += [turn.text for turns, _ in synthetic for turn in turns]
    said = naming.name((text, fact) for text in dict.fromkeys(spoken) for fact in plain_facts(text))
    found = list(persona_dialogues(data))
    found += [_labelled("msc", session, plain, said, read) for session in msc]
    found += [_labelled("synthetic", turns, {}, said, read) for turns, _ in synthetic]
    unread = {s: facts for s, facts in plain.items() if spoken_form(s) not in read}
    found += [_sentence(s, facts) for s, facts in unread.items()]
    pool = [(s, fact) for s, facts in unread.items() for fact in facts if len(facts) == 1]
    found += compose(sorted(pool, key=lambda one: one[0]), n_composed, random.Random(seed))
    return found


_SHOWN_BY_OBJECT = frozenset({"has_age", "has_profession", "nationality"})
"""Relations that need no trigger where the speaker says the object: "a doctor", "29"."""


def relation_dialogues(data: Path) -> list[LabelledDialogue]:
    """DialogRE train and dev: dialogues in which a turn states a relation by our name.

    Its annotators name a pair for the whole dialogue and no turn. A turn states it if it holds the
    object and the trigger, and is of the speaker that is the subject, or names the subject. Most
    pairs have no such turn: they are read between the lines, or have a speaker as the object.

    Raises:
        SourceError: a file is not there.
    """
    read = evaluation_utterances(data)
    found = []
    for split in ("train", "dev"):
        for said, pairs in dialogre_dialogues(data, split):
            turns = [
                LabelledTurn(
                    speaker,
                    text,
                    () if spoken_form(text) in read else tuple(_stated(speaker, text, pairs)),
                    is_complete=False,
                )
                for speaker, text in said
            ]
            if any(turn.facts for turn in turns):
                found.append(LabelledDialogue("dialogre", tuple(turns)))
    return found


def _stated(speaker: str, text: str, pairs: Sequence[ArgumentPair]) -> Iterator[Fact]:
    """The pairs that a turn states, in the order of the annotators, each place once."""
    bases = [lemma(word) for word in split_words(text).lower]
    places = set()
    for pair in pairs:
        if pair.relation not in relations() or _A_SPEAKER.fullmatch(pair.object):
            continue
        is_own = pair.subject == speaker
        is_shown = is_own and pair.relation in _SHOWN_BY_OBJECT
        if not is_own and _A_SPEAKER.fullmatch(pair.subject):
            continue
        target = _place(pair.object, bases)
        subject = None if is_own else _place(pair.subject, bases)
        trigger = _place(pair.trigger, bases)
        if target is None or (trigger is None and not is_shown) or not (is_own or subject):
            continue
        if target not in places:
            places.add(target)
            yield Fact(subject, pair.relation, target)


_A_SPEAKER = re.compile(r"Speaker \d+")


def _place(name: str, bases: Sequence[str]) -> Mention | None:
    words = split_words(name)
    span = find_words(words, (0, len(words)), bases)
    return None if span is None or span[1] - span[0] > _MAX_OBJECT else Mention(span)


class _Naming:
    """Gives the facts of many texts their listed relations in one call of the teacher."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher

    def name(self, facts: Iterable[tuple[str, Fact]]) -> dict[str, list[Fact]]:
        """Text -> its facts, named."""
        pairs = list(facts)
        asked = [pair for pair in pairs if may_be_named(pair[1])]
        answers = dict(zip(asked, self._teacher(asked), strict=True))
        found: dict[str, list[Fact]] = {}
        for text, fact in pairs:
            believed = answers.get((text, fact), {})
            found.setdefault(text, []).append(named(fact, believed))
        return found


def _sentence(text: str, facts: Sequence[Fact]) -> LabelledDialogue:
    return LabelledDialogue("persona", (LabelledTurn("Speaker 1", text, tuple(facts)),))


def _labelled(
    source: str,
    turns: Sequence[PersonaTurn],
    plain: Mapping[str, Sequence[Fact]],
    said: Mapping[str, Sequence[Fact]],
    read: frozenset[str],
) -> LabelledDialogue:
    """A dialogue with what annotators' sentences say of its turns, and its own plain clauses.

    A turn that an evaluation reads keeps its text, as context of the next one, and no label.
    """
    labelled = []
    for turn in turns:
        sentences = [(s, fact) for s in turn.persona for fact in plain.get(s, ())]
        found, is_complete = project(sentences, turn.text)
        is_complete = is_complete and all(plain.get(s) for s in turn.persona)
        facts = merged(found, said.get(turn.text, ()))
        hidden = spoken_form(turn.text) in read
        labelled.append(
            LabelledTurn(
                turn.speaker, turn.text, () if hidden else tuple(facts), is_complete and not hidden
            )
        )
    return LabelledDialogue(source, tuple(labelled))
