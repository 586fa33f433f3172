import pytest

from glong.relations import base_form, denial_of, inverse_of, is_denial, means_the_same, relations


def test_every_inverse_and_synonym_is_snake_case_and_every_denied_relation_is_listed():
    for name, relation in relations().items():
        for word in (name, relation.inverse, *relation.synonyms):
            assert word == word.lower().replace(" ", "_")
        assert not relation.negates or relation.negates in relations()


def test_single_valued_ones_are_those_of_which_a_person_has_one():
    single = {name for name, relation in relations().items() if relation.single}
    assert {"name", "live_in_citystatecountry", "favorite_color", "marital_status"} <= single
    assert not {"have_pet", "like_food", "have_sibling", "visit", "dislike"} & single


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("like_food", "dislike_food"),
        ("have_pet", "have_no"),
        ("visit", "not_visit"),
        ("dislike", "dislike"),
        ("not_visit", "not_visit"),
    ],
)
def test_the_denial_of_a_relation(relation, expected):
    assert denial_of(relation) == expected
    assert is_denial(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("home_of", "live_in_citystatecountry"),
        ("employs", "employed_by_company"),
        ("visited by", "visit"),
        ("have_sibling", ""),
        ("cook", ""),
        ("", ""),
    ],
)
def test_the_relation_from_the_other_end(name, expected):
    assert inverse_of(name) == expected


def test_forms_of_a_verb_are_one_relation():
    assert base_form("works_at") == base_form("worked at") == "work_at"
    assert base_form("have_pet") == "have_pet"


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("likes", "like_food", True),
        ("employed_by_company", "works_at", True),
        ("like_food", "dislike_food", False),
        ("have_pet", "like_animal", False),
        ("visited", "visit", True),
    ],
)
def test_synonyms_mean_the_same_in_both_directions(left, right, same):
    assert means_the_same(left, right) is same
    assert means_the_same(right, left) is same
