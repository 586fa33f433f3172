"""The records and the error tree: what everything else relies on."""

import dataclasses
import pickle

import pytest

import glong.errors
import glong.types
from glong.errors import (
    ConfigError,
    ConflictError,
    GlongError,
    ModelError,
    NotFoundError,
    SchemaError,
    StoreError,
    StoreNotFoundError,
)
from glong.types import Edge, Hit, Turn, Usage

RECORDS = [
    value
    for name in glong.types.__all__
    if dataclasses.is_dataclass(value := getattr(glong.types, name))
]
ERRORS = [getattr(glong.errors, name) for name in glong.errors.__all__]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_records_are_frozen_and_slotted(record: type) -> None:
    assert record.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "__slots__" in vars(record)


@pytest.mark.parametrize("module", [glong.errors, glong.types])
def test_public_names_are_sorted_and_there(module: object) -> None:
    names = module.__all__  # type: ignore[attr-defined]
    assert names == sorted(names)
    assert all(hasattr(module, name) for name in names)


def test_usages_add_up() -> None:
    assert Usage(1, 2) + Usage(10, 20) == Usage(11, 22)


def test_a_hit_speaks_for_its_edge() -> None:
    edge = Edge("e", "Mira", "likes", "corn", 1.0, None, None, "s", 0)
    turn = Turn(0, "Mira", "I like corn.")
    hit = Hit(turn, "s", (edge,), 0.5)
    assert (hit.subject, hit.relation, hit.object) == ("Mira", "likes", "corn")
    said = Hit(turn, "s", (), 0.5)
    assert (said.subject, said.relation, said.object) == ("Mira", "said", "I like corn.")
    assert said.edge is None


def test_every_error_is_a_glong_error() -> None:
    assert all(issubclass(error, GlongError) for error in ERRORS)
    for kind in (SchemaError, ConflictError, StoreNotFoundError):
        assert issubclass(kind, StoreError)
    assert issubclass(StoreNotFoundError, NotFoundError)
    assert not issubclass(ConfigError, StoreError)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_errors_cross_process_boundaries(error: type[GlongError]) -> None:
    sent = pickle.loads(pickle.dumps(error("Wrong.")))
    assert type(sent) is error
    assert str(sent) == "Wrong."


def test_a_model_error_keeps_its_hint_on_the_way() -> None:
    sent = pickle.loads(pickle.dumps(ModelError("Down.", retryable=True, hint="Wait.")))
    assert (sent.message, sent.retryable, sent.hint) == ("Down.", True, "Wait.")
    assert str(sent) == "Down. Wait."
