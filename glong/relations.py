"""The relations that have a name, from ``relations.toml``: kind, inverse, denial, synonyms.

The set is open: a relation that is not listed is the verb of its turn, and has no inverse, no
synonym, and any number of values.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from glong.words import lemma

__all__ = [
    "DENIAL",
    "Relation",
    "base_form",
    "denial_of",
    "inverse_of",
    "is_denial",
    "means_the_same",
    "relations",
]

DENIAL = "not_"
"""Begins the name of a relation that denies an unlisted one: ``not_visit``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One listed relation.

    Attributes:
        single: a subject has one object at a time; a later one closes the earlier.
        inverse: name of the relation from the object to the subject, or empty.
        negates: name of the relation that this one denies, or empty.
        synonyms: names that mean the same for the same object.
    """

    single: bool
    inverse: str = ""
    negates: str = ""
    synonyms: frozenset[str] = frozenset()


@cache
def relations() -> Mapping[str, Relation]:
    """Name -> relation, in the file's order, which is the order of a trained model's classes."""
    text = files("glong").joinpath("relations.toml").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            name: Relation(**{**row, "synonyms": frozenset(row.get("synonyms", ()))})
            for name, row in tomllib.loads(text).items()
        }
    )


def base_form(relation: str) -> str:
    """snake_case with base forms, so that ``works_at``, ``worked_at`` and ``work at`` are one.

    A listed name stays as it is.
    """
    name = relation.replace(" ", "_")
    return name if name in relations() else "_".join(map(lemma, name.split("_")))


def is_denial(relation: str) -> bool:
    """Whether the relation says that something is not so."""
    listed = relations().get(relation)
    return bool(listed.negates) if listed else relation.startswith(DENIAL)


def denial_of(relation: str) -> str:
    """The relation that denies this one: the listed one, else ``not_`` before its name.

    ``like_food`` -> ``dislike_food``, ``have_pet`` -> ``have_no``, ``visit`` -> ``not_visit``; a
    denial stays what it is.
    """
    return relation if is_denial(relation) else _denials().get(relation, DENIAL + relation)


@cache
def _denials() -> Mapping[str, str]:
    found = {"have": "have_no", "have_pet": "have_no", "have_vehicle": "have_no"}
    for name, relation in relations().items():
        if relation.negates:
            found.setdefault(relation.negates, name)
    return found


def inverse_of(name: str) -> str:
    """The listed relation that says the same from the other end, or empty.

    ``home_of`` -> ``live_in_citystatecountry``; a listed name has none here.
    """
    return _inverses().get(base_form(name), "")


@cache
def _inverses() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, relation in relations().items():
        if relation.inverse and relation.inverse not in relations():
            found.setdefault(base_form(relation.inverse), name)
    return found


def means_the_same(left: str, right: str) -> bool:
    """Equal in base form, or one is a listed synonym of the other."""
    left, right = base_form(left), base_form(right)
    return left == right or right in _synonyms(left) or left in _synonyms(right)


def _synonyms(name: str) -> frozenset[str]:
    listed = relations().get(name)
    return listed.synonyms if listed else frozenset()
