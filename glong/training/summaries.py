"""Training pairs of the importance scorer: facts of a session -> what a summary keeps of them.

The scorer's weight of a fact is the cross-attention that it gets while a summary is written, so the
tasks are such that writing well needs attention to the facts that matter: the source is exactly
what inference reads (triplet texts behind one prefix), it holds facts of small talk as distractors,
and the target says, in the source's own words, only what the reference mentions. Every pair names
the facts that its target is about, for a loss on attention itself.

Knows sessions, triplets and texts; knows no tokens and no model.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glong.entities import resolve_triplets
from glong.protocols import Extractor
from glong.training.salience import content_stems, mentions
from glong.training.summary_sources import Annotated, third_person
from glong.types import Session, Triplet
from glong.weighting import SEPARATOR, triplet_text

__all__ = ["TASKS", "Case", "Pair", "make_cases", "make_pairs"]

TASKS = ("facts", "summary", "sentences", "dialogue")
"""``facts``: facts -> those that the reference mentions. ``summary``: facts -> the reference's
sentences about them. ``sentences``: kept sentences among small talk -> the kept ones.
``dialogue``: turns -> the reference (only for sets whose reference is a summary in prose)."""

PROSE = ("samsum_train", "dialogsum_train", "dialogsum_dev")
"""Sets whose reference is a written summary."""

MAX_FACTS = 48
"""Facts of one source: about 400 tokens, below the 512 of one window of the scorer."""

_NAMES = """\
Ada Alex Amir Anna Anton Ben Bella Carl Chloe Chris Clara Dan Dana David Diana Dina Ed Ela Emma
Eric Eva Felix Fiona Frank Gina Greg Hanna Harry Helen Ian Ida Igor Iris Jack Jane Jenny Jim John
Julia Karen Kate Kim Lara Leo Lily Linda Lisa Lucas Maria Mark Martha Mary Max Mia Mike Mona Nadia
Nick Nina Noah Nora Olga Oliver Omar Oscar Pam Patrick Paul Paula Pete Rachel Ray Rita Rob Rosa
Ruth Ryan Sam Sara Sean Simon Sofia Steve Sue Tara Ted Tim Tina Tom Uma Vera Victor Wendy Will
Yara Zoe
""".split()  # noqa: SIM905  # a page of names reads better as text
"""In place of "Speaker 1" in half of the pairs, so that names do not matter."""


@dataclass(frozen=True, slots=True)
class Case:
    """One session as the scorer meets it, beside its reference.

    Attributes:
        dataset: the set that it comes from.
        session: speakers and turns.
        triplets: its facts in order, each text once.
        kept: sentences of the reference.
    """

    dataset: str
    session: Session
    triplets: tuple[Triplet, ...]
    kept: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The facts as the scorer reads them."""
        return tuple(map(triplet_text, self.triplets))

    def mentioned(self) -> tuple[bool | None, ...]:
        """For each fact whether the reference mentions it; ``None`` where nothing can be said."""
        reference = content_stems(" ".join(self.kept))
        return tuple(mentions(reference, triplet.object) for triplet in self.triplets)


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and its target.

    Attributes:
        task: one of :data:`TASKS`.
        dialogue_id: where it comes from.
        texts: the source's parts, one a fact.
        target: the text to write.
        favoured: for each part whether the target is about it; at least one is, one is not.
    """

    task: str
    dialogue_id: str
    texts: tuple[str, ...]
    target: str
    favoured: tuple[bool, ...]


def make_cases(sessions: Sequence[Annotated], extractor: Extractor) -> list[Case]:
    """The facts of each session, in order; one without facts has an empty case.

    Names are resolved as they are before the scorer reads them in a build: "I" is the speaker.
    """
    extractions = extractor.extract([one.session for one in sessions])
    cases = []
    for one, found in zip(sessions, extractions, strict=True):
        triplets, _ = resolve_triplets(one.session, found.triplets)
        cases.append(Case(one.dataset, one.session, _each_once(triplets), one.kept))
    return cases


def make_pairs(cases: Sequence[Case], seed: int, tasks: Sequence[str] = TASKS) -> list[Pair]:
    """One pass of pairs over the cases; another seed gives other names, cuts and distractors.

    Args:
        cases: sessions with their facts.
        seed: of every choice; a pair depends on it and on its own case alone.
        tasks: which of :data:`TASKS`.
    """
    pairs = []
    for case in cases:
        rng = random.Random(
            f"{seed} {case.dataset} {case.session.dialogue_id} {case.session.session_id}"
        )
        made = [pair for task in tasks if (pair := _MAKERS[task](case, rng))]
        pairs += [_renamed(pair, case.session, rng) for pair in made]
    return pairs


def _each_once(triplets: Sequence[Triplet]) -> tuple[Triplet, ...]:
    return tuple({triplet_text(triplet): triplet for triplet in reversed(triplets)}.values())[::-1]


def _facts(case: Case, rng: random.Random) -> Pair | None:
    chosen = _choose(case, rng)
    if chosen is None:
        return None
    texts, favoured = chosen
    target = [text for text, wanted in zip(texts, favoured, strict=True) if wanted]
    return Pair("facts", case.session.dialogue_id, texts, _prose(target), favoured)


def _summary(case: Case, rng: random.Random) -> Pair | None:
    """The reference's own sentences, those alone that a mentioned fact of the source supports."""
    chosen = _choose(case, rng)
    if chosen is None:
        return None
    texts, favoured = chosen
    stems = [content_stems(t) for t, wanted in zip(texts, favoured, strict=True) if wanted]
    target = [s for s in case.kept if any(len(content_stems(s) & f) >= 2 for f in stems)]
    if not target:
        return None
    return Pair("summary", case.session.dialogue_id, texts, _prose(target), favoured)


def _choose(case: Case, rng: random.Random) -> tuple[tuple[str, ...], tuple[bool, ...]] | None:
    """A run of facts, a tenth left out, with whether each is mentioned; both kinds occur."""
    n = len(case.triplets)
    start = rng.randint(0, max(0, n - MAX_FACTS))
    places = [i for i in range(start, min(n, start + MAX_FACTS)) if rng.random() >= 0.1]
    mentioned, texts = case.mentioned(), case.texts
    favoured = tuple(bool(mentioned[i]) for i in places)
    if not any(favoured) or all(favoured):
        return None
    return tuple(texts[i] for i in places), favoured


def _sentences(case: Case, rng: random.Random) -> Pair | None:
    """Kept sentences shuffled among sentences of the session that share little with them."""
    if case.dataset in PROSE:
        return None
    reference = content_stems(" ".join(case.kept))
    names = content_stems(" ".join(turn.speaker for turn in case.session.turns))
    talk = [s for s in _said(case.session) if _is_talk(content_stems(s) - names, reference)]
    kept = rng.sample(case.kept, min(len(case.kept), rng.randint(2, 8)))
    talk = rng.sample(talk, min(len(talk), rng.randint(4, 12)))
    if not kept or not talk:
        return None
    mixed = [(text, True) for text in kept] + [(text, False) for text in talk]
    rng.shuffle(mixed)
    texts, favoured = zip(*mixed, strict=True)
    target = _prose([text for text, wanted in mixed if wanted])
    return Pair("sentences", case.session.dialogue_id, texts, target, favoured)


def _is_talk(stems: frozenset[str], reference: frozenset[str]) -> bool:
    """Whether less than half of a sentence's content is in the reference."""
    return 2 * len(stems & reference) < len(stems)


def _said(session: Session) -> Iterator[str]:
    """Sentences of the turns as statements about their speakers; questions too: small talk."""
    for turn in session.turns:
        for sentence in turn.text.replace("!", ".").replace("?", ".").split(". "):
            if len(sentence.split()) >= 3:
                yield third_person(sentence, turn.speaker)


def _dialogue(case: Case, rng: random.Random) -> Pair | None:
    """Turns -> a summary in prose; a turn is favoured if it shares content with the summary."""
    if case.dataset not in PROSE or not case.kept:
        return None
    turns = case.session.turns[:MAX_FACTS]
    reference = content_stems(" ".join(case.kept))
    favoured = tuple(len(content_stems(turn.text) & reference) >= 2 for turn in turns)
    if not any(favoured) or all(favoured):
        return None
    texts = tuple(f"{turn.speaker}: {turn.text}".rstrip(".") for turn in turns)
    return Pair("dialogue", case.session.dialogue_id, texts, _prose(case.kept), favoured)


_MAKERS = dict(zip(TASKS, (_facts, _summary, _sentences, _dialogue), strict=True))


def _prose(sentences: Sequence[str]) -> str:
    return " ".join(f"{sentence.rstrip('.')}{SEPARATOR}" for sentence in sentences)


def _renamed(pair: Pair, session: Session, rng: random.Random) -> Pair:
    """Half of the pairs whose speakers are numbered get names instead."""
    speakers = sorted({turn.speaker for turn in session.turns})
    numbered = [speaker for speaker in speakers if speaker[-1].isdigit()]
    if not numbered or rng.random() < 0.5:
        return pair
    names = dict(zip(numbered, rng.sample(_NAMES, len(numbered)), strict=True))
    texts = tuple(_with_names(text, names) for text in pair.texts)
    target = _with_names(pair.target, names)
    return Pair(pair.task, pair.dialogue_id, texts, target, pair.favoured)


def _with_names(text: str, names: dict[str, str]) -> str:
    for speaker, name in names.items():
        text = text.replace(speaker, name)
    return text
