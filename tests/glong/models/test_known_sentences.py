"""A page of sentences with what the shipped tagger has to find in them, kind by kind."""

import pytest

from glong.config import DECODER_MODELS, SMALL_MODELS
from glong.models.load import extractor_fingerprint, load_extractor
from glong.relations import is_denial, means_the_same
from glong.types import Session, Turn

PLAIN = {
    "I have two dogs and a cat.": [("I", "have_pet", "two dogs"), ("I", "have_pet", "cat")],
    "I live in Chicago.": [("I", "live_in", "Chicago")],
    "My name is Kate and I am from Ohio.": [("I", "name", "Kate"), ("I", "be_from", "Ohio")],
    "My favorite color is green.": [("I", "favorite_color", "green")],
    "I love playing the guitar.": [("I", "love", "playing the guitar")],
    "I am allergic to peanuts.": [("I", "be_allergic_to", "peanuts")],
    "I am a vegetarian.": [("I", "diet", "vegetarian")],
    "I bought a new car yesterday.": [("I", "buy", "new car yesterday")],
    "I joined a support group last Tuesday.": [("I", "join", "support group last Tuesday")],
    "I went to Paris last summer.": [("I", "go_to", "Paris last summer")],
    "I grew up in Ohio.": [("I", "grow_up_in", "Ohio")],
    "I speak Spanish and French.": [("I", "speak", "Spanish"), ("I", "speak", "French")],
    "I'm 32 years old.": [("I", "has_age", "32 years old")],
    "I just adopted a kitten.": [("I", "have_pet", "kitten")],
}
DENIED = {
    "I don't like spiders.": ("I", "spiders"),
    "I have never been to Japan.": ("I", "Japan"),
    "I do not have any siblings.": ("I", "siblings"),
    "I can't swim.": ("I", "swim"),
    "I hate broccoli": ("I", "broccoli"),
    "I no longer work at Google.": ("I", "Google"),
    "I don't work at Google any more.": ("I", "Google"),
    "I am no longer a nurse.": ("I", "nurse"),
    "I don't think I like opera.": ("I", "opera"),
    "I've never tried sushi.": ("I", "sushi"),
    "Nobody in my family smokes.": ("my family", "smokes"),
    "None of my friends have a car.": ("my friends", "car"),
    "My sister doesn't eat meat.": ("My sister", "meat"),
    "Tom isn't a doctor.": ("Tom", "doctor"),
    "There's no way I'd eat bugs.": ("I", "bugs"),
    "I hardly ever eat meat.": ("I", "meat"),
}
THIRD_PERSON = {
    "My sister works at a bank.": [("My sister", "work_at", "bank")],
    "My husband loves fishing.": [("My husband", "love", "fishing")],
    "Anna lives in Oslo.": [("Anna", "live_in", "Oslo")],
    "My brother has three kids.": [("My brother", "have", "three kids")],
    "My mother is a nurse.": [("My mother", "has_profession", "nurse")],
    "My dad drives a truck.": [("My dad", "drive", "truck")],
    "My uncle owns a restaurant in Rome.": [("My uncle", "own", "restaurant in Rome")],
    "My best friend Sam moved to London.": [("My best friend Sam", "move_to", "London")],
    "My cat is called Milo.": [("My cat", "be_called", "Milo")],
}
PLURAL = {
    "My parents live in Boston.": [("My parents", "live_in", "Boston")],
    "We have a big house.": [("I", "have", "big house")],
    "We live on a farm.": [("I", "live_on", "farm")],
    "My sisters love horses.": [("My sisters", "love", "horses")],
    "My friends are vegetarians.": [("My friends", "diet", "vegetarians")],
    "My brothers work in construction.": [("My brothers", "work_in", "construction")],
    "Both my parents are doctors.": [("my parents", "be", "doctors")],
    "My cats are called Tim and Tom.": [
        ("My cats", "be_called", "Tim"), ("My cats", "be_called", "Tom"),
    ],
}  # fmt: skip
AFTER_A_TURN = {
    ("How is your sister?", "She works at a hospital."): ("my sister", "hospital"),
    ("Tell me about your brother.", "He loves chess."): ("my brother", "chess"),
    ("Do you have any pets?", "Yes, a greyhound."): ("I", "greyhound"),
    ("do you like basketball ?", "yes"): ("I", "basketball"),
    ("What's your name?", "Anna."): ("I", "Anna"),
    ("What's your favorite color?", "Blue."): ("I", "Blue"),
    ("Where do you live?", "In Chicago."): ("I", "Chicago"),
    ("What do you do?", "I'm a nurse."): ("I", "nurse"),
    ("Is your brother a doctor?", "Yes, he is."): ("my brother", "doctor"),
    ("What do your parents do?", "They are both teachers."): ("my parents", "teachers"),
}
IN_A_QUESTION = {
    "I have a new job at Google, isn't that great?": ("I", "Google"),
    "I like tea, do you?": ("I", "tea"),
    "Did you know that I speak French?": ("I", "French"),
    "Can you believe I ran a marathon?": ("I", "marathon"),
    "Isn't it great that I finally passed my exam?": ("I", "my exam"),
}
NOTHING = [
    "Hello! How are you today?",
    "That sounds great!",
    "Thanks, see you tomorrow.",
    "Haha yes that is so true.",
    "",
    "...",
    "What do you do for a living?",
    "It's raining today.",
    "I know what you mean.",
    "You're welcome.",
    "He doesn't eat meat.",
    "I could have been a doctor.",
    "\U0001f600\U0001f600",
]
OTHER_LANGUAGES = {
    "Ich habe einen Hund.": set(),
    "J'habite à Paris.": {"Paris"},
    "Me gusta el café.": set(),
    "Mi hermana trabaja en un banco.": set(),
    "Ho due fratelli e vivo a Roma.": set(),
    "Меня зовут Анна.": set(),
    "私は犬が好きです。": set(),
    "我喜欢猫。": set(),
}


@pytest.fixture(scope="module")
def extractor():
    return load_extractor(SMALL_MODELS.extractor)


def found(extractor, *texts):
    turns = tuple(Turn(i, "AB"[i % 2], text) for i, text in enumerate(texts))
    (extraction,) = extractor.extract([Session("d", "s", None, turns)])
    assert not extraction.failures
    last = [t for t in extraction.triplets if t.turn_index == len(texts) - 1]
    return [(t.subject, t.relation, t.object) for t in last]


@pytest.mark.parametrize("text", [*PLAIN, *THIRD_PERSON, *PLURAL])
def test_a_stated_fact_is_found(extractor, text):
    expected = {**PLAIN, **THIRD_PERSON, **PLURAL}[text]
    triplets = found(extractor, text)
    assert [(s, o) for s, _, o in triplets] == [(s, o) for s, _, o in expected]
    for (_, relation, _), (_, wanted, _) in zip(triplets, expected, strict=True):
        assert means_the_same(relation, wanted), f"{relation} is not {wanted}"


@pytest.mark.parametrize("text", DENIED)
def test_a_denial_is_never_an_assertion(extractor, text):
    ((subject, relation, target),) = found(extractor, text)
    assert (subject, target) == DENIED[text]
    assert is_denial(relation), relation


def test_a_no_denies_what_was_asked(extractor):
    ((subject, relation, target),) = found(extractor, "do you like basketball ?", "no , not really")
    assert (subject, target) == ("I", "basketball")
    assert is_denial(relation), relation


@pytest.mark.parametrize("texts", AFTER_A_TURN)
def test_a_turn_is_understood_after_the_turn_before(extractor, texts):
    ((subject, relation, target),) = found(extractor, *texts)
    assert (subject, target) == AFTER_A_TURN[texts]
    assert not is_denial(relation), relation


@pytest.mark.parametrize("text", IN_A_QUESTION)
def test_a_question_may_state_a_fact(extractor, text):
    assert [(s, o) for s, _, o in found(extractor, text)] == [IN_A_QUESTION[text]]


@pytest.mark.parametrize("text", NOTHING)
def test_a_turn_without_a_fact_gives_none(extractor, text):
    assert found(extractor, text) == []


@pytest.mark.parametrize("text", OTHER_LANGUAGES)
def test_another_language_gives_a_name_or_nothing(extractor, text):
    assert {target for _, _, target in found(extractor, text)} <= OTHER_LANGUAGES[text]


def test_a_pronoun_s_name_is_that_of_whom_was_named_before(extractor):
    dog = [("I", "have_pet", "dog"), ("dog", "name", "Max")]
    assert found(extractor, "I have a dog. His name is Max.") == dog
    assert found(extractor, "Do you have a dog?", "Yes, his name is Max.") == dog
    assert ("tea", "name", "Max") not in found(extractor, "I like tea. His name is Max.")


def test_batches_give_each_session_what_it_gives_alone(extractor):
    texts = [*PLAIN, *DENIED, *THIRD_PERSON, "I like tea. " * 60]
    sessions = [Session("d", str(i), None, (Turn(0, "A", x),)) for i, x in enumerate(texts)]
    together = extractor.extract(sessions)
    assert together == [extractor.extract([session])[0] for session in sessions]
    assert together == extractor.extract(sessions[::-1])[::-1]


def test_the_fingerprint_is_known_without_loading(extractor):
    assert extractor_fingerprint(SMALL_MODELS.extractor) == extractor.fingerprint


@pytest.mark.slow
def test_the_language_model_with_our_adapter_finds_plain_facts():
    decoder = load_extractor(DECODER_MODELS.extractor)
    assert decoder.fingerprint == extractor_fingerprint(DECODER_MODELS.extractor)
    facts = {
        "I have two dogs and a cat.": {("I", "two dogs"), ("I", "cat")},
        "My sister works at a bank.": {("My sister", "bank")},
        "I live in Chicago.": {("I", "Chicago")},
    }
    for text, expected in facts.items():
        assert {(s, o) for s, _, o in found(decoder, text)} == expected
    ((_, relation, target),) = found(decoder, "I don't like spiders.")
    assert target == "spiders" and is_denial(relation)  # noqa: PT018
