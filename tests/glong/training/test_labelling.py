from glong.training.labelling import denied, merged, named, plain_facts, project
from glong.words import split_words


def spelled(fact, text):
    words = split_words(text)
    subject = "I" if fact.subject is None else words.span(*fact.subject.span)
    return f"{subject} | {fact.relation} | {words.span(*fact.object.span)}"


def spelled_facts(text):
    return [spelled(fact, text) for fact in plain_facts(text)]


def test_plain_facts_are_the_clauses_of_a_sentence():
    assert spelled_facts("My wife works at a bank and I hate it there. My name is Ann.") == [
        "My wife | work_at | bank",
        "I | name | Ann",
    ]


def test_a_verb_gets_the_listed_relation_that_the_teacher_believes_in():
    (fact,) = plain_facts("I have two dogs.")
    assert named(fact, {"have_pet": 0.8, "own": 0.1}).relation == "have_pet"


def test_a_verb_keeps_its_name_where_the_teacher_believes_in_what_it_cannot_mean():
    (fact,) = plain_facts("I visited two museums.")
    assert named(fact, {"have_pet": 0.9}).relation == "visit"
    (fact,) = plain_facts("I have two dogs.")
    assert named(fact, {"have_pet": 0.1, "like_music": 0.9}).relation == "have"


def test_a_denied_verb_never_gets_a_relation_that_asserts():
    (fact,) = plain_facts("I don't like spiders.")
    believed = {"like_animal": 0.9, "dislike_animal": 0.05, "dislike": 0.5}
    assert named(fact, believed).relation == "dislike"


def test_denied_names_the_listed_denial():
    (fact,) = plain_facts("I have two dogs.")
    assert denied(named(fact, {"have_pet": 1.0})).relation == "have_no"


TURN = "Yes! My son is in junior high and I just started letting him watch them too"


def found_in_turn(*sentences):
    found, is_complete = project([(s, fact) for s in sentences for fact in plain_facts(s)], TURN)
    return [spelled(fact, TURN) for fact in found], is_complete


def test_annotators_facts_are_found_in_the_raw_turn():
    facts, is_complete = found_in_turn("I have a son.", "My son is in junior high.")
    assert facts == ["I | have | son", "son | be_in | junior high"]
    assert is_complete


def test_an_unlisted_relation_whose_verb_the_turn_lacks_cannot_be_pointed_at():
    assert found_in_turn("I raise a son.") == ([], False)


def test_words_of_two_sentences_are_not_one_object():
    facts = [("I like red wine.", fact) for fact in plain_facts("I like red wine.")]
    assert project(facts, "My car is red. I like wine.") == ([], False)


def test_what_is_said_of_the_same_words_again_is_left_out():
    text = "I have two dogs and a car"
    dogs, car = plain_facts(text)
    assert merged([named(dogs, {"have_pet": 1.0})], [dogs, car]) == [
        named(dogs, {"have_pet": 1.0}),
        car,
    ]
