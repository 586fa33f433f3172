import random
from dataclasses import replace

from glong.relations import is_denial
from glong.training.compose import compose
from glong.training.examples import Fact, Mention
from glong.training.labelling import plain_facts
from glong.words import split_words

SENTENCES = [
    (text, fact)
    for text in (
        "I like old trains.", "I have two dogs.", "I am a nurse.", "I work at a bakery.",
        "My favorite color is green.", "I love swimming.",
    )
    for fact in plain_facts(text)
]  # fmt: skip
MADE = list(compose(SENTENCES, 240, random.Random(1)))


def said(dialogue, mention):
    turn = dialogue.turns[-1 - mention.back]
    return split_words(turn.text).span(*mention.span)


def test_every_kind_points_at_the_words_of_its_fact():
    objects = {split_words(text).span(*fact.object.span) for text, fact in SENTENCES}
    for dialogue in MADE:
        assert len(dialogue.turns[-1].facts) == 1  # none of these relations may be listed
        for fact in dialogue.turns[-1].facts:
            assert said(dialogue, fact.object).removeprefix("a ") in objects
            if fact.subject is not None:
                assert (
                    said(dialogue, fact.subject).split()[0] in ("my", "your")
                    or said(dialogue, fact.subject).istitle()
                )


def test_the_verb_ends_before_the_article_and_holds_what_a_question_parts():
    pool = [(t, f) for t in ("I own a red car.", "I am afraid of dogs.") for f in plain_facts(t)]
    verbs = {
        said(dialogue, fact.trigger)
        for dialogue in compose(pool, 60, random.Random(1))
        for fact in dialogue.turns[-1].facts
        if fact.trigger
    }
    assert verbs <= {
        "own", "owns", "are you afraid of", "am not afraid of", "is afraid of", "are afraid of",
    }  # fmt: skip
    assert {"own", "are you afraid of"} <= verbs


def test_an_answer_may_list_what_is_alike():
    liked = {"tea", "old films", "chess"}
    pool = [
        (text, replace(fact, relation="like_general"))
        for text in (f"I like {thing}." for thing in sorted(liked))
        for fact in plain_facts(text)
    ]
    lists = [d for d in compose(pool, 60, random.Random(1)) if len(d.turns[-1].facts) > 1]
    assert lists
    for dialogue in lists:
        objects = [said(dialogue, fact.object) for fact in dialogue.turns[-1].facts]
        assert len(set(objects)) == len(objects)
        assert set(objects) <= liked


def test_a_no_denies_and_a_yes_does_not():
    answers = {}
    for dialogue in MADE:
        if len(dialogue.turns) == 2 and dialogue.turns[0].text.startswith(("do you", "are you")):
            first = dialogue.turns[1].text.split()[0]
            answers.setdefault(first, set()).add(is_denial(dialogue.turns[1].facts[0].relation))
    assert answers["yes"] == {False}
    assert answers["no"] == answers["nope"] == {True}


def test_one_seed_makes_one_set():
    assert list(compose(SENTENCES, 240, random.Random(1))) == MADE
    assert list(compose(SENTENCES, 240, random.Random(2))) != MADE


def test_only_sentences_of_the_speaker_are_turned_round():
    sister = (
        "My sister likes tea.",
        Fact(Mention((0, 2)), "like", Mention((3, 4)), Mention((2, 3))),
    )
    pool = [sister, SENTENCES[0]]
    for dialogue in compose(pool, 12, random.Random(0)):
        assert "tea" not in dialogue.turns[-1].text


def test_what_is_the_speaker_s_own_is_not_asked_of_another():
    pool = [("I enjoy my job.", fact) for fact in plain_facts("I enjoy my job.")]
    for dialogue in compose(pool, 60, random.Random(1)):
        assert not dialogue.turns[0].text.startswith("do you")
        assert all(fact.subject is None for fact in dialogue.turns[-1].facts)
