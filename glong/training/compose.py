"""Exchanges made of plain sentences: what single sentences cannot teach.

A yes or no to the question before, an answer of one noun or of several, somebody else's facts and
the pronoun that stands for them, a denial. Words of ours around facts of the data; pure: a seeded
generator is an argument.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from glong.relations import relations
from glong.training.examples import Fact, LabelledDialogue, LabelledTurn, Mention
from glong.training.labelling import denied
from glong.words import lemma, split_words

__all__ = ["compose"]

Sentence = tuple[str, Fact]
"""A plain sentence about its speaker and one fact of it."""

_MOST_DRAWS = 1000
_OWN = frozenset({"i", "me", "mine", "my", "myself", "our", "us", "we"})
_YES = (
    "yes",
    "yes i do",
    "yeah",
    "yes , i do .",
    "yep !",
    "sure do",
    "of course",
    "i do",
    "absolutely",
)
_NO = ("no", "no , not really", "nope", "no i don't", "not at all", "i don't", "no , never", "nah")
_PEOPLE = (
    "my sister", "my brother", "my mom", "my dad", "my mother", "my father", "my wife", "my son",
    "my husband", "my daughter", "my best friend", "my boyfriend", "my girlfriend", "my boss",
    "my aunt", "my grandma",
    "my roommate",     "Anna", "Tom", "Maria", "Kevin", "Priya", "my cousin Leo",
)  # fmt: skip
_PLURAL = ("my parents", "my kids", "my friends", "my sisters", "my neighbors", "my twins")
_NEWS = ("visited me yesterday", "is doing great", "called today", "just moved", "is so sweet")
_NEWS_PLURAL = ("visited me yesterday", "are doing great", "called today", "came over")
_QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "name": ("what is your name ?", "who are you ?", "what should i call you ?"),
    "live_in_citystatecountry": ("where do you live ?", "where are you from ?"),
    "place_origin": ("where are you from ?", "where did you grow up ?"),
    "employed_by_general": ("what do you do for a living ?", "what is your job ?"),
    "employed_by_company": ("where do you work ?",),
    "have_pet": ("do you have any pets ?", "any pets ?", "what pets do you have ?"),
    "have_children": ("do you have kids ?", "any children ?"),
    "have_sibling": ("do you have any siblings ?",),
    "have_vehicle": ("what do you drive ?", "what car do you have ?"),
    "like_activity": ("what do you do for fun ?", "any hobbies ?", "what do you like to do ?"),
    "like_food": ("what do you like to eat ?", "what is your go to meal ?"),
    "like_drink": ("what do you like to drink ?",),
    "like_animal": ("what animals do you like ?",),
    "like_watching": ("what do you like to watch ?",),
    "like_read": ("what do you read ?",),
    "like_general": ("what do you like ?", "what are you into ?"),
    "attend_school": ("where do you go to school ?", "are you in school ?"),
    "has_degree": ("what did you study ?", "what is your major ?"),
    "want_job": ("what do you want to be ?", "what is your dream job ?"),
    "has_ability": ("what are you good at ?",),
    "dislike": ("what do you dislike ?", "is there anything you hate ?"),
    "diet": ("are you on a diet ?",),
}  # fmt: skip


def compose(
    sentences: Sequence[Sentence], n: int, rng: random.Random
) -> Iterator[LabelledDialogue]:
    """Up to ``n`` short exchanges from sentences about their speaker; kinds take turns.

    A kind that no drawn sentence suits is left out in its turn.
    """
    alike: dict[str, list[Sentence]] = defaultdict(list)
    for sentence in sentences:
        alike[sentence[1].relation].append(sentence)
    kinds: tuple[Callable[[Sentence, random.Random], list[LabelledTurn]], ...] = (
        _yes_or_no, _someone, _pronoun, _pronoun_back, _denial, _short_answer,
        partial(_list_answer, alike=alike),
    )  # fmt: skip
    for number in range(n):
        kind = kinds[number % len(kinds)]
        drawn = (sentences[rng.randrange(len(sentences))] for _ in range(_MOST_DRAWS))
        turns = next(filter(None, (kind(one, rng) for one in drawn)), None)
        if turns is not None:
            yield LabelledDialogue("composed", tuple(turns))


@dataclass(frozen=True, slots=True)
class _Phrase:
    """The words from verb to object of "I VERB OBJECT", the verb plain.

    ``n_verb`` words are the verb's, the object begins at word ``offset``.
    """

    words: tuple[str, ...]
    n_verb: int
    offset: int


def _phrase(sentence: Sentence) -> _Phrase | None:
    text, fact = sentence
    words = split_words(text)
    if fact.subject or not fact.trigger or fact.relation.startswith("not_"):
        return None
    start, stop = fact.trigger.span
    begin, end = fact.object.span
    # Only "I like cats" as it stands: no auxiliary or denial before the verb, no past.
    if start != 1 or begin < start or words.lower[0] != "i" or end - start > 9:
        return None
    verb = words.lower[start]
    is_state = verb in ("'m", "am")
    if not is_state and lemma(verb) != verb:
        return None
    said = ("be" if is_state else verb, *words.lower[start + 1 : end])
    return _Phrase(said, min(stop, begin) - start, begin - start)


def _turn(text: str, *facts: Fact, speaker: str = "Speaker 1") -> LabelledTurn:
    return LabelledTurn(speaker, text, facts)


def _placed(fact: Fact, prefix: int, phrase: _Phrase, back: int = 0) -> Fact:
    """The fact where the phrase begins at word ``prefix``."""
    target = Mention((prefix + phrase.offset, prefix + len(phrase.words)), back)
    trigger = Mention((prefix, prefix + phrase.n_verb), back) if phrase.n_verb else None
    return replace(fact, object=target, trigger=trigger)


def _yes_or_no(sentence: Sentence, rng: random.Random) -> list[LabelledTurn]:
    phrase = _phrase(sentence)
    if phrase is None or not _OWN.isdisjoint(phrase.words):
        return []  # "do you enjoy my job" asks for another's
    is_state = phrase.words[0] == "be"
    begin = ["are you", *phrase.words[1:]] if is_state else ["do you", *phrase.words]
    fact = _placed(sentence[1], 1 if is_state else 2, phrase, back=1)
    if is_state:
        # "are you afraid of dogs": the verb is the question's first word and what follows "you".
        n = phrase.n_verb
        fact = replace(fact, trigger=Mention((0, n + 1 if n > 1 else 1), 1))
    yes = rng.random() < 0.5
    answer = rng.choice(_YES if yes else _NO)
    if is_state:
        answer = answer.replace("i don't", "i am not").replace("i do", "i am")
    return [
        _turn(" ".join([*begin, "?"]), speaker="Speaker 2"),
        _turn(answer, fact if yes else denied(fact)),
    ]


def _third(phrase: Sequence[str], plural: bool) -> list[str]:
    """The phrase with its verb for somebody else: "likes cats", "are tall"."""
    verb = phrase[0]
    if verb in ("be", "have"):
        forms = {"be": ("is", "are"), "have": ("has", "have")}[verb]
        return [forms[plural], *phrase[1:]]
    if plural:
        return list(phrase)
    if verb.endswith(("s", "sh", "ch", "x", "o")):
        return [verb + "es", *phrase[1:]]
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return [verb[:-1] + "ies", *phrase[1:]]
    return [verb + "s", *phrase[1:]]


def _other(sentence: Sentence, rng: random.Random) -> tuple[str, bool, _Phrase] | None:
    """Somebody else, whether they are several, and the phrase for them."""
    phrase = _phrase(sentence)
    if phrase is None or not _OWN.isdisjoint(phrase.words):
        return None
    plural = rng.random() < 0.25
    who = rng.choice(_PLURAL if plural else _PEOPLE)
    return who, plural, replace(phrase, words=tuple(_third(phrase.words, plural)))


def _someone(sentence: Sentence, rng: random.Random) -> list[LabelledTurn]:
    other = _other(sentence, rng)
    if other is None:
        return []
    who, _, phrase = other
    n = len(who.split())
    fact = replace(_placed(sentence[1], n, phrase), subject=Mention((0, n)))
    return [_turn(" ".join([who, *phrase.words]) + rng.choice((".", " .", "!", "")), fact)]


def _pronoun(sentence: Sentence, rng: random.Random) -> list[LabelledTurn]:
    other = _other(sentence, rng)
    if other is None:
        return []
    who, plural, phrase = other
    first = [*who.split(), *rng.choice(_NEWS_PLURAL if plural else _NEWS).split(), "."]
    pronoun = "they" if plural else rng.choice(("she", "he"))
    fact = _placed(sentence[1], len(first) + 1, phrase)
    fact = replace(fact, subject=Mention((0, len(who.split()))))
    # What the news itself says is no label of ours: the turn is not complete.
    turn = _turn(" ".join([*first, pronoun, *phrase.words, "."]), fact)
    return [replace(turn, is_complete=False)]


def _pronoun_back(sentence: Sentence, rng: random.Random) -> list[LabelledTurn]:
    other = _other(sentence, rng)
    if other is None:
        return []
    who, plural, phrase = other
    asked = who.replace("my ", "your ")
    begin = rng.choice(("how are" if plural else "how is", "tell me about"))
    start = len(begin.split())
    subject = Mention((start, start + len(asked.split())), 1)
    fact = replace(_placed(sentence[1], 1, phrase), subject=subject)
    pronoun = "they" if plural else rng.choice(("she", "he"))
    return [
        _turn(f"{begin} {asked} ?", speaker="Speaker 2"),
        _turn(" ".join([pronoun, *phrase.words, "."]), fact),
    ]


def _denial(sentence: Sentence, rng: random.Random) -> list[LabelledTurn]:
    phrase = _phrase(sentence)
    if phrase is None:
        return []
    begin = ["i", rng.choice(("don't", "do not", "never"))]
    if phrase.words[0] == "be":
        begin = ["i"]
        said = ("am", "not", *phrase.words[1:])
        phrase = _Phrase(said, phrase.n_verb + 1, phrase.offset + 1)
    start = len(split_words(" ".join(begin)))
    fact = denied(_placed(sentence[1], start, phrase))
    return [_turn(" ".join([*begin, *phrase.words]) + rng.choice((".", " .", "")), fact)]


def _short_answer(sentence: Sentence, rng: random.Random) -> list[LabelledTurn]:
    return _answer([sentence], rng)


def _list_answer(
    sentence: Sentence, rng: random.Random, alike: Mapping[str, Sequence[Sentence]]
) -> list[LabelledTurn]:
    """Two or three objects of one relation: "hiking, old films and chess"."""
    relation = relations().get(sentence[1].relation)
    if relation is None or relation.single:
        return []
    same = alike[sentence[1].relation]
    return _answer([sentence, *(rng.choice(same) for _ in range(rng.randint(1, 2)))], rng)


def _answer(sentences: Sequence[Sentence], rng: random.Random) -> list[LabelledTurn]:
    """A question about the first one's relation, and the objects of all as the answer."""
    asked = _questions(sentences[0][1].relation)
    said = {split_words(text).span(*fact.object.span): fact for text, fact in sentences}
    if not asked or any(fact.subject is not None for _, fact in sentences):
        return []
    if len(said) != len(sentences) or any(" and " in one or "," in one for one in said):
        return []
    begin = rng.choice(("", "", "probably ", "well , ", "mostly "))
    parts = begin.split()
    facts = []
    for number, (target, fact) in enumerate(said.items()):
        if number:
            parts.append("and" if number == len(said) - 1 else ",")
        start = len(split_words(" ".join(parts)))
        parts.append(target)
        place = Mention((start, start + len(split_words(target))))
        facts.append(replace(fact, object=place, trigger=None))
    return [
        _turn(rng.choice(asked), speaker="Speaker 2"),
        _turn(" ".join(parts) + rng.choice(("", " .", "!")), *facts),
    ]


def _questions(relation: str) -> Sequence[str]:
    """What an answer of this relation may answer; none where we know no question."""
    if not relation.startswith("favorite_"):
        return _QUESTIONS.get(relation, ())
    thing = relation.removeprefix("favorite_").replace("_", " ")
    return f"what is your favorite {thing} ?", f"favorite {thing} ?"
