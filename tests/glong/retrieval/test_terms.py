"""Search terms of many scripts, and names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.retrieval.terms import is_unspaced, proper_names, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dogs were barking at Mira's cats", ("dog", "bark", "mira", "cat")),
        ("Mira\u2019s cats", ("mira", "cat")),
        ("live_in 3.5 km, 25:50", ("live", "3", "5", "km", "25", "50")),
        ("", ()),
        ("?! ...", ()),
        ("don't", ()),
        # Chinese: pairs of neighbours, and characters, which are often words
        ("我喜歡貓", ("我喜", "喜歡", "歡貓", "我", "喜", "歡", "貓")),
        ("貓", ("貓",)),
        # Japanese: the kana's pairs, and the Chinese characters
        ("猫がいる", ("猫が", "がい", "いる", "猫")),
        ("ジョン・スミス", ("ジョ", "ョン", "スミ", "ミス")),
        ("ｶﾌｪ", ("カフ", "フェ")),
        # Korean glues its particles: the two forms of "school" share a pair
        ("학교에", ("학교", "교에")),
        ("ไทย", ("ไท", "ทย")),
        # scripts with spaces stay words, with their accents and vowel signs
        ("Мария любит чай", ("мария", "любит", "чай")),
        ("Cafe\u0301 in Zu\u0308rich", ("café", "zürich")),
        ("नमस्ते दुनिया", ("नमस्ते", "दुनिया")),
        ("தமிழ் மொழி", ("தமிழ்", "மொழி")),
        ("שָׁלוֹם־עולם", ("שָׁלוֹם", "עולם")),
        ("كِتَاب جديد", ("كِتَاب", "جديد")),
        ("ΟΔΟΣ οδός", ("οδος", "οδός")),
        ("I ❤️ my 🐕, 🇩🇪!", ("❤", "🐕", "🇩🇪")),
        ("\U0001f469\u200d\U0001f680", ("\U0001f469", "\U0001f680")),
        ("iPhone手機", ("iphon", "手機", "手", "機")),
    ],
)
def test_terms_of_many_scripts(text: str, expected: tuple[str, ...]) -> None:
    assert terms(text) == expected


def test_forms_of_a_word_share_their_term() -> None:
    forms = {term for word in ("grill", "grills", "grilled", "Grilling") for term in terms(word)}
    assert len(forms) == 1


def test_a_query_of_one_character_meets_a_sentence_that_has_it() -> None:
    assert set(terms("貓\uff1f")) & set(terms("我的貓叫小白"))


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_has_terms_without_white_space_and_the_same_each_time(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    assert all(term and not any(sign.isspace() for sign in term) for term in found)


LETTERS = st.sampled_from("abzéßøñčжщия\u03b1ωגשمकि한국中文猫ねこ")


@given(st.text(LETTERS, min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_no_letter_is_lost_but_in_stop_words_and_english_endings(text: str) -> None:
    kept = set("".join(terms(text)))
    assert kept >= {sign for sign in text if sign in "жщ中文猫ねこ"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Did Mira meet Tom Reed in Leipzig?", {"mira", "tom", "reed", "leipzig"}),
        ("Was ist mit Zoë und Łukasz? Und Érik?", {"zoë", "łukasz", "érik"}),
        ("Что любит Мария", {"мария"}),
        ("Hello. Good day! Fine? Yes\nNo", set()),
        ("I think I'm late", set()),
        ("mira and tom", set()),
        ("Is it Mira's dog?", {"mira"}),
        ("", set()),
        ("我喜歡貓", set()),
    ],
)
def test_names_are_words_with_a_capital_that_begin_no_sentence(text: str, names: set[str]) -> None:
    assert proper_names(text) == names


def test_decomposed_accents_give_the_same_name() -> None:
    assert proper_names("Is Zoe\u0308 here?") == proper_names("Is Zoë here?") == {"zoë"}


def test_scripts_that_part_no_words_are_known() -> None:
    assert [is_unspaced(word) for word in ("小明", "민수", "ใจ", "Mira", "Аня", "")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
