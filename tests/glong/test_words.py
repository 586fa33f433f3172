import pytest
from hypothesis import given
from hypothesis import strategies as st

from glong.words import lemma, split_words


def test_contractions_are_split_so_that_a_negation_is_a_word():
    words = split_words("I don't like it; I can\u2019t stop, she's 30")
    assert words.lower == (
        "i", "do", "n't", "like", "it", ";", "i", "ca", "n't", "stop", ",", "she", "'s", "30",
    )  # fmt: skip


def test_words_of_any_script_are_kept():
    assert split_words("Я люблю чай, 我喜欢猫 café").lower == (
        "я",
        "люблю",
        "чай",
        ",",
        "我喜欢猫",
        "café",
    )


def test_a_span_is_the_text_as_written():
    words = split_words("My  Best\nFriend lives here")
    assert words.span(0, 3) == "My Best Friend"


@given(st.text())
def test_words_lie_in_the_text_in_order_and_do_not_overlap(text):
    words = split_words(text)
    places = [place for pair in zip(words.starts, words.ends, strict=True) for place in pair]
    assert places == sorted(places)
    for word, start, end in zip(words.lower, words.starts, words.ends, strict=True):
        assert text[start:end].lower().replace("\u2019", "'") == word


@pytest.mark.parametrize(
    ("forms", "base"),
    [
        ("works worked working", "work"),
        ("loves loved loving", "love"),
        ("hops hopped hopping", "hop"),
        ("studies studied studying", "study"),
        ("goes went gone going", "go"),
        ("am is are was were been", "be"),
        ("makes made making", "make"),
        ("visits visited visiting", "visit"),
        ("needs needed needing", "need"),
        ("sings sang singing", "sing"),
        ("watches watched watching", "watch"),
        ("children", "child"),
        ("boss", "boss"),
        ("bus", "bus"),
    ],
)
def test_forms_have_their_base(forms, base):
    assert {lemma(form) for form in forms.split()} == {base}


@given(st.text())
def test_a_base_form_never_raises(word):
    lemma(word)
