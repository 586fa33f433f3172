import pytest
from hypothesis import given
from hypothesis import strategies as st

from glong.clauses import clauses, relation_words
from glong.words import split_words


def stated(text):
    words = split_words(text)
    return [
        (
            words.span(*clause.subject),
            ("not " if clause.is_denied else "") + relation_words(words, clause),
            words.span(*clause.object),
        )
        for clause in clauses(words)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I like cats.", [("I", "like", "cats")]),
        ("I don't like spiders.", [("I", "not like", "spiders")]),
        ("I have no siblings", [("I", "not have", "siblings")]),
        ("My wife works at a bank.", [("My wife", "work_at", "bank")]),
        ("I'm allergic to peanuts.", [("I", "be_allergic_to", "peanuts")]),
        ("I've been to Paris", [("I", "be_to", "Paris")]),
        ("I want to be a lawyer because it pays", [("I", "want_to", "be a lawyer")]),
        ("My favorite color is blue.", [("My favorite color", "be", "blue")]),
        ("Anna lives in Oslo.", [("Anna", "live_in", "Oslo")]),
        ("I can't swim.", [("I", "not can", "swim")]),
        ("we just bought a house!", [("we", "buy", "house")]),
        ("she's a lawyer", [("she", "be", "lawyer")]),
        ("he's got a dog", [("he", "get", "dog")]),
        ("my husband already has one child", [("my husband", "have", "one child")]),
        ("I usually do gigs on Saturdays", [("I", "do", "gigs on Saturdays")]),
        ("I don't work on Sundays", [("I", "not work_on", "Sundays")]),
        ("I swim", [("I", "do", "swim")]),
        ("I'm going to try your recipe", [("I", "plan_to", "try your recipe")]),
        ("we are going to the movies", [("we", "go_to", "the movies")]),
        ("I'm going to work", [("I", "go_to", "work")]),
        ("I'm going to work on my car", [("I", "plan_to", "work on my car")]),
        ("I am going to a play tonight", [("I", "go_to", "play tonight")]),
        ("I was going to be a doctor", []),
        ("I'm going to love it", []),
        ("He's always wanted a dog", [("He", "want", "dog")]),
        ("She's married", [("She", "be", "married")]),
        ("I do suffer from allergies", [("I", "suffer_from", "allergies")]),
        ("I do it as well", []),
        ("I bought this used car", [("I", "buy", "this used car")]),
        ("I don't like food that has nuts", [("I", "not like", "food that has nuts")]),
        ("I swim instead, at the lido", [("I", "swim", "at the lido")]),
        ("I run 6 km, twice a week", [("I", "run", "6 km")]),
        (
            "I like plums, figs, and ripe pears",
            [("I", "like", o) for o in ("plums", "figs", "ripe pears")],
        ),
        ("I like tea, milk", [("I", "like", "tea"), ("I", "like", "milk")]),
        ("I hate halloumi, it squeaks too much", [("I", "hate", "halloumi")]),
        (
            "I love dogs and last time I sneezed for days",
            [("I", "love", "dogs"), ("I", "sneeze_for", "days")],
        ),
        (
            "My mom broke her wrist and I had to feed the bees",
            [("I", "have_to", "feed the bees")],
        ),
        ("Give me her number before I leave", []),
        ("Tell her to get well soon", []),
        ("Nobody loves my beans", []),
        (
            "i have two dogs and a cat i love them",
            [("i", "have", "two dogs"), ("i", "have", "cat")],
        ),
        (
            "I lived in Oslo until I moved to Rome",
            [("I", "live_in", "Oslo"), ("I", "move_to", "Rome")],
        ),
        (
            "I have blue eyes, long brown hair",
            [("I", "have", "blue eyes"), ("I", "have", "long brown hair")],
        ),
        (
            "I have a wife, two beautiful kids",
            [("I", "have", "wife"), ("I", "have", "two beautiful kids")],
        ),
        (
            "I like to cook, to bake, and to dance",
            [("I", "like_to", "cook"), ("I", "like_to", "to bake"), ("I", "like_to", "to dance")],
        ),
        ("I moved again, to Ohio", [("I", "move", "to Ohio")]),
        (
            "I work in sales and IT support",
            [("I", "work_in", "sales"), ("I", "work_in", "IT support")],
        ),
        ("My bus stop is far", [("My bus stop", "be", "far")]),
        (
            "I love my job and this city, but I am tired",
            [("I", "love", "my job"), ("I", "love", "this city"), ("I", "be", "tired")],
        ),
        ("My brace is off, by the way", [("My brace", "be", "off")]),
        ("I can't really swim", [("I", "not can", "swim")]),
        ("My visa expired last week", [("My visa", "expire", "last week")]),
        ("I love \N{SLICE OF PIZZA}", [("I", "love", "\N{SLICE OF PIZZA}")]),
    ],
)
def test_a_plain_clause_is_read(text, expected):
    assert stated(text) == expected


def test_a_list_of_objects_is_one_clause_each():
    assert [target for _, _, target in stated("I like hiking, swimming and reading.")] == [
        "hiking",
        "swimming",
        "reading",
    ]


def test_a_second_verb_keeps_the_subject():
    assert stated("My wife works at a bank and loves gardening.") == [
        ("My wife", "work_at", "bank"),
        ("My wife", "love", "gardening"),
    ]


def test_a_new_subject_ends_the_object():
    assert stated("I have a dog, but my brother hates dogs") == [
        ("I", "have", "dog"),
        ("my brother", "hate", "dogs"),
    ]


def test_a_question_to_the_other_states_nothing():
    assert stated("Do you like basketball?") == []


@pytest.mark.parametrize("text", ["I love them", "my wife didn't like it!", "what I want"])
def test_a_verb_without_the_thing_it_is_about_says_nothing(text):
    assert stated(text) == []


def test_what_is_said_of_nothing_with_a_name_ends_the_object():
    assert stated("I love to run and that keeps me in shape") == [("I", "love_to", "run")]
    assert stated("I am not afraid to fly, either") == [("I", "not be_afraid_to", "fly")]


def test_a_clause_in_a_question_says_so():
    (clause,) = clauses(split_words("I like tea, do you?"))
    assert clause.in_question


@given(st.text())
def test_any_text_is_read_without_an_error_and_spans_hold_words(text):
    words = split_words(text)
    for clause in clauses(words):
        for start, end in (clause.subject, clause.verb, clause.object):
            assert 0 <= start < end <= len(words)
        assert relation_words(words, clause)


@given(
    st.lists(
        st.sampled_from(split_words("i my dog is not have no like to and , . ? a the he").lower)
    )
)
def test_any_order_of_common_words_is_read(sequence):
    words = split_words(" ".join(sequence))
    for clause in clauses(words):
        assert clause.object[0] < clause.object[1] <= len(words)
