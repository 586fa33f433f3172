"""How good triplets are: the evaluation sets, matching, and scores. No model, no files written.

Sets: PersonaExt's held-out part (one gold triplet an utterance, so precision there is of what was
annotated), ten sets of ``conversation_triples``, MSC test persona sentences, DialogRE test.
Matching: lower case, articles and punctuation stripped, base forms of verbs, the first person is
the speaker, "X's favorite color is" is ``favorite_color`` of X, a listed inverse is turned round.
*Exact*: subject, relation and object equal. *Soft*: token F1 of subject and of object at least .5,
and the relation or a synonym of it, without "can", "will" or "be" before its own words.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from glong.entities import normalise, resolve
from glong.relations import (
    DENIAL,
    base_form,
    denial_of,
    inverse_of,
    means_the_same,
    relations,
)
from glong.training.corpora import (
    dialogre_dialogues,
    msc_dialogues,
    persona_pairs,
    triple_blocks,
)
from glong.training.labelling import plain_facts
from glong.types import Extraction, Session, Triplet, Turn
from glong.words import lemma, split_words, word_list

__all__ = ["Case", "Scores", "evaluation_sets", "score"]

SOFT = 0.5
"""Least token F1 of a soft match."""
_OWN_THING = re.compile(r"(?P<owner>.+)'s (?P<thing>name|favou?rite .+)")
"""The subject of "my name is" and "my favorite color is": our relations say it of the owner."""
_FAVORITE = re.compile(r"(?:have_|has_)?favou?rite_(?:.+_)?(?P<kind>[^_]+?)(?:_be|_is)?")
"""``favorite_disney_character``, ``has_favorite_color``: the kind is the last word."""
_MODALS = frozenset({"can", "could", "may", "might", "must", "shall", "should", "will", "would"})
_MEAN_THE_SPEAKER = frozenset({"we", "us", "my", "our"})


@dataclass(frozen=True, slots=True)
class Case:
    """What an extractor reads, the turn that is judged, and its gold triplets.

    ``turns`` are judged all when ``judged`` is -1.
    """

    session: Session
    gold: tuple[Triplet, ...]
    judged: int = -1


@dataclass(frozen=True, slots=True)
class Scores:
    """Of one set; rates in 0 to 1.

    Attributes:
        precision: share of predicted triplets that a gold one equals.
        recall: share of gold triplets found.
        f1: harmonic mean of the two.
        soft_precision: share of predicted ones with a soft match.
        soft_recall: share of gold ones with a soft match.
        soft_f1: harmonic mean of these.
        pair_recall: share of gold ones whose subject and object are found exactly, any relation.
        soft_pair_recall: the same with token F1 of at least .5.
        valid_rate: share of cases without a failure.
        triplets_per_turn: predicted, over judged turns.
        n: gold triplets.
        n_cases: sessions.
    """

    precision: float
    recall: float
    f1: float
    soft_precision: float
    soft_recall: float
    soft_f1: float
    pair_recall: float
    soft_pair_recall: float
    valid_rate: float
    triplets_per_turn: float
    n: int
    n_cases: int


def evaluation_sets(data: Path) -> Iterator[tuple[str, list[Case]]]:
    """Name and cases of each set.

    Raises:
        SourceError: a file is not there.
    """
    yield "personaext_heldout", list(_persona_cases(data))
    for path in sorted((data / "conversation_triples").glob("test_*.txt")):
        yield f"triples_{path.stem.removeprefix('test_')}", list(_triple_cases(path))
    yield "msc_test_persona", list(_msc_cases(data))
    yield "dialogre_test", list(_dialogre_cases(data))


def _session(name: str, turns: Sequence[Turn]) -> Session:
    return Session(name, "s", None, tuple(turns))


def _persona_cases(data: Path) -> Iterator[Case]:
    for number, pair in enumerate(persona_pairs(data, held_out=True)):
        subject, target = (
            " ".join(pair.tokens[i] for i in at) for at in (pair.subject, pair.object)
        )
        gold = Triplet(subject, pair.relation, target, 0)
        yield Case(_session(f"p{number}", [Turn(0, "I", pair.text)]), (gold,))


def _triple_cases(path: Path) -> Iterator[Case]:
    for number, (texts, triples) in enumerate(triple_blocks(path)):
        names = ["speaker1" if i % 2 == 0 else "speaker2" for i in range(len(texts))]
        turns = [
            Turn(i, name, text) for i, (name, text) in enumerate(zip(names, texts, strict=True))
        ]
        gold = [
            Triplet(s, denial_of(base_form(_snake(p))) if sign == "negative" else p, o, 0)
            for s, p, o, sign in triples
        ]
        if gold:
            yield Case(_session(f"t{number}", turns), tuple(gold))


def _msc_cases(data: Path) -> Iterator[Case]:
    """Turns with what annotators' sentences say of them; gold are the sentences' plain clauses.

    So whoever reads by :mod:`glong.rules` is flattered, and a change there changes the gold.
    """
    number = 0
    for session in msc_dialogues(data, "test"):
        for i, turn in enumerate(session):
            gold = [
                Triplet(
                    "I" if fact.subject is None else split_words(text).span(*fact.subject.span),
                    fact.relation,
                    split_words(text).span(*fact.object.span),
                    1,
                )
                for text in turn.persona
                for fact in plain_facts(text)
            ]
            number += 1
            if gold and number % 10 == 0:  # every tenth turn: 16,397 have sentences
                before = session[i - 1] if i else turn
                turns = [Turn(0, before.speaker, before.text if i else "")]
                turns.append(Turn(1, turn.speaker, turn.text))
                yield Case(_session(f"m{number}", turns), tuple(gold), judged=1)


def _dialogre_cases(data: Path) -> Iterator[Case]:
    for number, (said, pairs) in enumerate(dialogre_dialogues(data, "test")):
        turns = [Turn(i, name, text) for i, (name, text) in enumerate(said)]
        gold = [Triplet(one.subject, one.relation, one.object, 0) for one in pairs]
        if gold:
            yield Case(_session(f"d{number}", turns), tuple(gold))


def score(cases: Sequence[Case], extractions: Sequence[Extraction]) -> Scores:
    """Compare what was extracted with the gold triplets, each case on its own.

    Args:
        cases: of one set.
        extractions: one a case, in order.
    """
    hits: Counter[str] = Counter()
    n_gold = n_found = n_turns = n_valid = 0
    for case, extraction in zip(cases, extractions, strict=True):
        judged = {t.index: t.speaker for t in case.session.turns if case.judged in (-1, t.index)}
        speakers = tuple(dict.fromkeys(turn.speaker for turn in case.session.turns))
        told = (t for t in extraction.triplets if t.turn_index in judged)
        found, gold = (
            list(dict.fromkeys(_Plain.of(t, judged[t.turn_index], speakers) for t in triplets))
            for triplets in (told, case.gold)
        )
        n_gold, n_found = n_gold + len(gold), n_found + len(found)
        n_turns, n_valid = n_turns + len(judged), n_valid + (not extraction.failures)
        hits["found"] += sum(one in gold for one in found)
        hits["gold"] += sum(one in found for one in gold)
        hits["soft_found"] += sum(any(one.softly(g) for g in gold) for one in found)
        hits["soft_gold"] += sum(any(one.softly(g) for one in found) for g in gold)
        hits["pair"] += sum(any(one.ends() == g.ends() for one in found) for g in gold)
        hits["soft_pair"] += sum(any(one.near(g) for one in found) for g in gold)
    return _scores(hits, n_gold, n_found, n_turns, n_valid, len(cases))


def _scores(
    hits: Counter[str], n_gold: int, n_found: int, n_turns: int, n_valid: int, n_cases: int
) -> Scores:
    def share(name: str, total: int) -> float:
        return hits[name] / total if total else 0.0

    precision, recall = share("found", n_found), share("gold", n_gold)
    soft_precision, soft_recall = share("soft_found", n_found), share("soft_gold", n_gold)
    return Scores(
        precision,
        recall,
        _f1(precision, recall),
        soft_precision,
        soft_recall,
        _f1(soft_precision, soft_recall),
        share("pair", n_gold),
        share("soft_pair", n_gold),
        n_valid / n_cases if n_cases else 0.0,
        n_found / n_turns if n_turns else 0.0,
        n_gold,
        n_cases,
    )


def _f1(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


@dataclass(frozen=True, slots=True)
class _Plain:
    """A triplet in the form that is compared."""

    subject: str
    relation: str
    object: str

    @classmethod
    def of(cls, triplet: Triplet, speaker: str, speakers: tuple[str, ...]) -> "_Plain":
        inverse = inverse_of(_snake(triplet.relation))
        relation = inverse or base_form(_snake(triplet.relation))
        ends = (triplet.subject, triplet.object)
        subject, target = (
            _name(end, speaker, speakers) for end in (reversed(ends) if inverse else ends)
        )
        owned = _OWN_THING.fullmatch(subject) if relation == "be" else None
        if owned:
            subject, relation = owned["owner"], owned["thing"].replace(" ", "_")
        favorite = _FAVORITE.fullmatch(relation)
        if favorite and relation not in relations():
            relation = f"favorite_{lemma(favorite['kind'])}"
        return cls(subject, relation, target)

    def ends(self) -> tuple[str, str]:
        return self.subject, self.object

    def near(self, other: "_Plain") -> bool:
        """Token F1 of both ends at least ``SOFT``."""
        return (
            _token_f1(self.subject, other.subject) >= SOFT
            and _token_f1(self.object, other.object) >= SOFT
        )

    def softly(self, other: "_Plain") -> bool:
        """Near, with a relation of the same meaning."""
        left, right = self.relation, other.relation
        is_any = "favorite" in (left, right) and left[:8] == right[:8]
        same = is_any or means_the_same(left, right) or _core(left) == _core(right)
        return same and self.near(other)


def _core(relation: str) -> str:
    """Without what says when or how: ``must_be_born_in`` -> ``born_in``; a denial stays one.

    "be" goes only before a word with its preposition: ``be_like`` is not ``like``.
    """
    denial = DENIAL if relation.startswith(DENIAL) else ""
    parts = relation.removeprefix(DENIAL).split("_")
    while len(parts) > 1 and parts[0] in _MODALS:
        parts = parts[1:]
    if len(parts) > 2 and parts[0] == "be" and parts[-1] in word_list("prepositions"):
        parts = parts[1:]
    return denial + "_".join(parts)


def _snake(relation: str) -> str:
    return re.sub(r"[\W_]+", "_", relation.lower()).strip("_")


@lru_cache(maxsize=65_536)
def _name(text: str, speaker: str, speakers: tuple[str, ...]) -> str:
    """The name that decides identity, as :mod:`glong.entities` resolves it; "we" is the speaker."""
    said = text.replace("_", " ").replace(" 's", "'s").strip()
    said = "i" if said.lower() in _MEAN_THE_SPEAKER else said
    return normalise(resolve(said, speaker, speakers))


def _token_f1(left: str, right: str) -> float:
    a, b = (Counter(map(lemma, text.split())) for text in (left, right))
    common = sum((a & b).values())
    return 2 * common / (a.total() + b.total()) if common else 0.0
