"""Plain English clauses by pattern: who does, is or has what. No model, no dictionary of nouns.

The labels of training data come from here (simple sentences written by annotators are what it reads
well), and the rule baseline: :mod:`glong.rules`. Words are those of :mod:`glong.words`; a span is a
pair of word numbers, the second exclusive. Knows nothing of turns, sessions or relations' names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from glong.objects import ENDINGS, MAX_OBJECT, parts, trimmed, without_ending
from glong.words import NEGATIONS, Span, Words, lemma, word_list

__all__ = ["Clause", "clauses", "relation_words"]

_ENDS = word_list("ends")
_BREAKS = word_list("breaks")
_PRONOUNS = word_list("pronouns")
_POSSESSIVES = word_list("possessives")
_AUXILIARIES = word_list("auxiliaries")
_ADVERBS = word_list("adverbs")
_DETERMINERS = word_list("determiners")
_PREPOSITIONS = word_list("prepositions")
_TAIL = word_list("tail")
_OPENERS = word_list("openers")
_VERBS = word_list("verbs")
_EMPTY_VERBS = word_list("empty_verbs")
_LINKING = word_list("linking")
_AMOUNTS = word_list("amounts")
_FILLERS = word_list("fillers")
_STATES = word_list("states")
_NOUNS_TOO = word_list("nouns_too")
_FEELINGS = word_list("feelings")
_SUPPOSING = word_list("supposing")
_PARTICLES = frozenset({"in", "off", "on", "out", "over", "up"})
_WOULD = frozenset({"'d", "could", "might", "should", "would"})
_DOUBT = frozenset({"believe", "think"})
_NOBODY = frozenset({"neither", "nobody", "none"})
_KNOW = frozenset({"believe", "heard", "know", "knew", "mention", "remember"})
_SAY = frozenset({"assume", "guess", "hope", "mean", "say", "suggest", "suppose", "think", "wish"})
_UP_TO = frozenset({"before", "until"})
_WHEN = word_list("when")


@dataclass(frozen=True, slots=True)
class Clause:
    """One statement.

    Attributes:
        subject: words of the subject.
        verb: from the verb to the particle before the object, auxiliaries left out.
        object: words of the object; one clause for each part of a list of objects.
        is_denied: it says that this is not so.
        in_question: it stands in a sentence that ends with a question mark.
    """

    subject: Span
    verb: Span
    object: Span
    is_denied: bool
    in_question: bool


def relation_words(words: Words, clause: Clause) -> str:
    """The clause's verb in snake_case base form: "works for" is ``work_for``."""
    start, end = clause.verb
    if _is_plan(words.lower, clause):
        return "plan_to"
    if clause.verb == clause.object:  # "I can swim", "my dog bites": nothing follows the verb
        light = NEGATIONS - {"cannot"} | _ADVERBS
        before = (word for word in reversed(words.lower[:start]) if word not in light)
        return "can" if next(before, "") in ("can", "could", "ca", "cannot") else "do"
    left_out = (
        _ADVERBS
        | NEGATIONS
        | {"hardly"}
        | ({"longer"} if "no" in words.lower[start:end] else set())
    )
    said = [word for word in words.lower[start:end] if word not in left_out]
    parts = [word if i else _base(word) for i, word in enumerate(said)]
    return "_".join([word for word in parts if word.isalpha()][:4]) or "be"


def _is_plan(lower: Sequence[str], clause: Clause) -> bool:
    """As in "I'm going to move", which goes nowhere; "going to work" and "to a play" do."""
    start, stop = clause.verb
    if lower[start:stop] != ("going", "to") or clause.object[0] != stop:
        return False
    verb, *rest = lower[stop : clause.object[1]]
    if verb in _NOUNS_TOO:
        return bool(rest) and rest[0] in _PREPOSITIONS | _DETERMINERS | _POSSESSIVES
    return verb in _VERBS | {"be", "have", "do"}


def _is_guess(lower: Sequence[str], clause: Clause) -> bool:
    """As in "it's going to be fun" and "I was going to move": no plan that anybody has."""
    was = clause.verb[0] > 0 and lower[clause.verb[0] - 1] in ("was", "were")
    return _is_plan(lower, clause) and (was or lower[clause.object[0]] in _FEELINGS)


def _base(verb: str) -> str:
    """The base form of a verb; "'s" behind "he" or "she" is "is"."""
    return "be" if verb == "'s" else lemma(verb)


def clauses(words: Words) -> list[Clause]:
    """Every clause that a pattern finds, in order."""
    found: list[Clause] = []
    for start, end, is_question in _sentences(words.lower):
        subject: Span | None = None
        before, is_supposed, is_doubted, is_asked = "", False, False, is_question
        position = start
        while position < end:
            begun = _subject(words, position, end)
            if begun:
                subject, position = begun, begun[1]
                before = words.lower[subject[0] - 1] if subject[0] > start else ""
                is_supposed = before in _SUPPOSING
                is_doubted = _is_doubted(words.lower[start : subject[0]])
                is_asked = is_question and not _is_known(words.lower[start : subject[0]])
            elif subject is None or not _is_joint(words.lower, position, end, subject):
                position += 1
                continue
            else:
                position += 1  # "and" before a second verb of the same subject
            read, position = _predicate(words, subject, position, end, is_asked)
            if is_doubted:
                read = [replace(clause, is_denied=not clause.is_denied) for clause in read]
            if is_supposed:  # "until I moved" is said of what was
                read = [c for c in read if before in _UP_TO and _is_past(words.lower, c)]
            found += [clause for clause in read if not _is_guess(words.lower, clause)]
    return found


def _is_doubted(before: Sequence[str]) -> bool:
    """Whether the words before a subject deny what follows: "I don't think", "none of"."""
    said = before[:-1] if before[-1:] == ("that",) else before
    is_unlikely = len(said) > 1 and said[-1] in _DOUBT and said[-2] in NEGATIONS
    is_nobody = bool(_NOBODY.intersection(said)) or ("no", "one") in pairwise(said)
    return is_unlikely or said[-2:] == ("no", "way") or (is_nobody and said[-1] in ("of", "in"))


def _is_known(before: Sequence[str]) -> bool:
    """Whether the words before a subject ask about what is so: "did I tell you", "did you know"."""
    if before[-1:] == ("that",):  # "isn't it great that"
        return len(before) > 1 and before[-2] not in _SAY and before[-2] not in _SUPPOSING
    return before[-1:] != () and (
        before[-1] in _KNOW or before[-2:] in (("tell", "you"), ("told", "you"))
    )


def _is_past(lower: Sequence[str], clause: Clause) -> bool:
    verb = lower[clause.verb[0]]
    return (lemma(verb) != verb and not verb.endswith(("s", "ing"))) or verb in ("was", "had")


def _sentences(lower: Sequence[str]) -> Iterator[tuple[int, int, bool]]:
    start = 0
    for i, word in enumerate(lower):
        if word in _ENDS:
            if i > start:
                yield start, i, word == "?"
            start = i + 1
    if start < len(lower):
        yield start, len(lower), False


def _subject(words: Words, i: int, end: int) -> Span | None:
    """A subject that begins here, with a verb after it."""
    lower = words.lower
    if lower[i] in _PRONOUNS:
        return (i, i + 1) if i + 1 < end and not _asks(lower, i) else None
    if lower[i] in _POSSESSIVES:
        if lower[i] == "her" and i + 1 < end and lower[i + 1] in _PREPOSITIONS | _DETERMINERS:
            return None  # "tell her to come"
        for stop in range(i + 2, min(i + 6, end)):
            if not lower[stop - 1].replace("'", "").isalpha() or lower[stop - 1] in _PRONOUNS:
                break
            if _verb_like(lower, stop, end):
                named = stop
                while named > i + 2 and lower[named - 1] in _ADVERBS:
                    named -= 1
                return i, named
        return None
    if words.text[words.starts[i]].isupper() and lower[i] not in _OPENERS:
        if lower[i].endswith("ing"):
            return None
        stop = i + 1
        while (
            stop < min(end, i + 3)
            and words.text[words.starts[stop]].isupper()
            and lower[stop] not in _PRONOUNS
        ):
            stop += 1
        if stop < end and _third_person(lower[stop]) and lower[i].isalpha() and len(lower[i]) > 1:
            return i, stop
    return None


def _asks(lower: Sequence[str], i: int) -> bool:
    """As in "do you", "are we": the verb stands before its subject."""
    return i > 0 and lower[i - 1] in _AUXILIARIES and (i < 2 or lower[i - 2] not in _PRONOUNS)


def _verb_like(lower: Sequence[str], i: int, end: int) -> bool:
    """Whether word ``i`` is a verb behind a noun; "stop" in "my bus stop is" is none."""
    word, before = lower[i], lower[i - 1]
    if word in _AUXILIARIES:
        return True
    is_verb = lemma(word) in _VERBS and not word.endswith("ing") and before not in _POSSESSIVES
    return is_verb and not (i + 1 < end and lower[i + 1] in _AUXILIARIES)


def _third_person(word: str) -> bool:
    if word in ("is", "was", "has", "had", "does", "will", "would", "can"):
        return True
    return lemma(word) in _VERBS and (word.endswith(("s", "ed")) or word in ("went", "got", "made"))


def _is_joint(lower: Sequence[str], i: int, end: int, subject: Span | None = None) -> bool:
    """Says "and" or "but" before another verb; a verb in -s only where the subject takes one."""
    if lower[i] not in ("and", "but", "or") or i + 1 >= end:
        return False
    following = [w for w in lower[i + 1 : i + 4] if w not in _ADVERBS and w not in NEGATIONS]
    if not following:
        return False
    verb = following[0]
    endings = ("ing",) if subject and lower[subject[0]] not in ("i", "we", "they") else ("ing", "s")
    return verb in _AUXILIARIES or (lemma(verb) in _VERBS and not verb.endswith(endings))


def _predicate(
    words: Words, subject: Span, i: int, end: int, is_question: bool
) -> tuple[list[Clause], int]:
    """Verb and objects from word ``i`` on; the clauses and where reading goes on."""
    lower = words.lower
    denied = False
    verb_start = -1
    while i < end:
        word = lower[i]
        if word in NEGATIONS:
            is_over = word == "no" and lower[i + 1 : i + 2] == ("longer",)
            if word == "no" and not is_over:
                break
            denied = True
            i += is_over
        elif word == "hardly":
            denied = True
        elif word in _AUXILIARIES or (word == "'s" and lower[i - 1] in ("he", "she")):
            if verb_start >= 0 and word == "have" and lower[verb_start] in _WOULD:
                return [], i + 1  # "could have been": it was not
            verb_start = i
        elif word not in _ADVERBS:
            break
        i += 1
    if i >= end or lower[i] in _BREAKS or lower[i] == ",":
        return [], max(i, subject[1])
    main = lower[i]
    auxiliary = _auxiliary(lower[verb_start], main) if verb_start >= 0 else ""
    if auxiliary in _LINKING and not _is_verb_form(main, auxiliary):
        verb_end = i  # "am a chef", "have two dogs": the auxiliary is the verb
    elif auxiliary == "do" and not denied and main in _FILLERS:
        return [], i + 1  # "I do that too"
    elif auxiliary == "do" and not denied and _is_done(lower, i, end):
        verb_end = i  # "do gigs", "did a lot of work"
    elif verb_start >= 0 and not main.isalpha():
        verb_end = i
    elif verb_start < 0 and not main.isalpha():
        return [], i + 1
    else:
        verb_start, verb_end = i, i + 1
    verb_end = _particles(lower, verb_start, verb_end, end)
    return _objects(words, subject, (verb_start, verb_end), end, denied, is_question)


def _is_done(lower: Sequence[str], i: int, end: int) -> bool:
    """Whether a word after "do" is what is done ("do gigs"), and no verb that "do" stresses."""
    word = lower[i]
    if word in _DETERMINERS | _POSSESSIVES | _AMOUNTS or lemma(word) != word:
        return True
    following = lower[i + 1] if i + 1 < end else ""
    follows_verb = _PREPOSITIONS | _DETERMINERS | _POSSESSIVES | _PRONOUNS | _FILLERS
    return word not in _VERBS and following not in follows_verb


def _auxiliary(word: str, main: str) -> str:
    """The base form of an auxiliary; "'s" is "has" before a participle, unless that is a state."""
    is_past = main == "got" or (_is_verb_form(main, "have") and lemma(main) in _VERBS)
    return "have" if word == "'s" and is_past and main not in _STATES else _base(word)


def _is_verb_form(word: str, auxiliary: str) -> bool:
    """A participle: "working" after be, "visited" or "been" after have; "be tired" is a state."""
    if auxiliary == "be":
        return word.endswith("ing") and lemma(word) in _VERBS
    is_past = word.endswith("ed") or word in ("been", "had", "got")
    return is_past or (lemma(word) != word and lemma(word) in _VERBS and not word.endswith("s"))


def _particles(lower: Sequence[str], start: int, i: int, end: int) -> int:
    """After the verb: a preposition, "to" with its verb's beginning, an adjective's "of"."""
    if i < end and lower[i] in NEGATIONS and lower[i] != "no":
        i += 1
    if (
        (
            _base(lower[start]) == "be"
            and i + 1 < end
            and lower[i + 1] in _PREPOSITIONS - {"as", "out"}
        )
        and lower[i] not in _DETERMINERS
        and lower[i].isalpha()
        and lower[i] not in _PREPOSITIONS
    ):
        return i + 2 if i + 2 < end else i
    is_called = _base(lower[start]) == "be" and lower[i:end][:1] in (("called",), ("named",))
    if tuple(lower[i : i + 2]) in ENDINGS:
        return i
    if i + 1 < end and (lower[i] in _PREPOSITIONS or is_called):
        goes_on = lower[i] in _PARTICLES and lower[i + 1] in _PREPOSITIONS and i + 2 < end
        return i + 1 + goes_on  # "grew up in"
    return i


def _objects(
    words: Words, subject: Span, verb: Span, end: int, denied: bool, is_question: bool
) -> tuple[list[Clause], int]:
    """The objects after a verb, parted at commas and "and"; where the clause ends."""
    lower = words.lower
    stop = verb[1]
    while (
        stop < end and lower[stop] not in _BREAKS and not _starts_clause(words, stop, end, subject)
    ):
        stop += 1
    found = []
    read = list(parts(lower, verb[1], stop))
    runs_on = stop < end and lower[stop] in _PRONOUNS
    if runs_on and len(read) > 1 and lower[read[-1][0]] in _WHEN:
        read.pop()  # the next clause's: "dogs, and last time I sneezed"
    for a, b in read:
        no = lower[a] == "no"
        span = trimmed(lower, a + no, min(b, a + no + MAX_OBJECT))
        if span:
            found.append(Clause(subject, verb, span, denied or no, is_question))
    last = without_ending(lower, verb[1], stop)
    said = takewhile(lambda word: word != ",", lower[verb[1] : last])
    says_nothing_else = all(word in _ADVERBS or word in _TAIL for word in said)
    is_alone = verb[1] - verb[0] == 1 and lemma(lower[verb[0]]) in _VERBS - _EMPTY_VERBS
    if not found and is_alone and says_nothing_else:
        found.append(Clause(subject, verb, verb, denied, is_question))
    return found, max(stop, verb[1])


def _starts_clause(words: Words, i: int, end: int, subject: Span) -> bool:
    lower = words.lower
    if _is_about_nothing(words, i, end, joined=False):
        return True
    if lower[i] in (",", "and", "or", "that", "-"):
        j = i + 1
        while j < end and lower[j] in _OPENERS:
            if _is_about_nothing(words, j, end, joined=lower[i] != "that"):
                return True
            j += 1
        if j < end and (_subject(words, j, end) or lower[j] in _BREAKS):
            return True
        if j + 1 < end and lower[j] in _AUXILIARIES and lower[j + 1] in _PRONOUNS:
            return True  # "..., do you?"
        return _is_joint(lower, i, end, subject)
    return lower[i] in _PRONOUNS and i + 1 < end


def _is_about_nothing(words: Words, i: int, end: int, joined: bool) -> bool:
    """As in "it is", "there are": a clause whose subject is no thing with a name.

    "that" and "this" are so only behind a comma or "and": "food that has nuts" is one thing.
    """
    lower = words.lower
    if lower[i] not in ("it", "that", "this", "there") or i + 1 >= end:
        return False
    if joined and lower[i] == "it" and words.span(i, i + 1) != "IT":
        return True
    following = lower[i + 1]
    if lower[i] in ("that", "this"):
        is_present = following.endswith("s") and _third_person(following)
        return joined and (following in ("is", "was", "'s", "are", "were") or is_present)
    return following in _AUXILIARIES or following == "'s" or _third_person(following)
