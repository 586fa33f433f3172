"""Ids are stable, and two things never share one by accident of spelling."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glong import ids
from glong.types import Failure, Place, Session, Turn

START = datetime(2026, 1, 5, 10, tzinfo=UTC)
TURN = Turn(0, "Mira", "Hello.", START)
SESSION = Session("d", "s", START, (TURN, Turn(1, "Tom", "Hi.")))
NAME = st.text(max_size=12)


def test_ids_stay_what_they_are_in_stores_that_exist() -> None:
    stored = {
        "dialogue": ids.dialogue_key("default", "mira-and-tom"),
        "session": ids.session_key("default", "mira-and-tom", "s1"),
        "content": ids.content_hash(SESSION),
        "failure": ids.failure_id("s", FAILURE),
    }
    assert stored == {
        "dialogue": "5a89fc45c81436daefa89f60846673ad",
        "session": "8f3ca205c4f6785155f80903dadaeba9",
        "content": "20512fde60f87bffffc18f974826df8f",
        "failure": "73182092517070d6328d6eaae201d246",
    }


@given(st.lists(NAME, min_size=3, max_size=3), st.lists(NAME, min_size=3, max_size=3))
def test_different_parts_give_different_keys(one: list[str], other: list[str]) -> None:
    assert (ids.session_key(*one) == ids.session_key(*other)) == (one == other)


def test_where_a_part_ends_matters() -> None:
    assert ids.session_key("ab", "c", "d") != ids.session_key("a", "bc", "d")
    assert ids.dialogue_key("", "a") != ids.dialogue_key("a", "")
    assert ids.text_hash("a", "b") != ids.text_hash("ab")


def test_things_of_different_kinds_never_share_an_id() -> None:
    made = [
        ids.dialogue_key("a", "b"),
        ids.turn_id("a", 1),
        ids.entity_id("a", "1"),
        ids.text_hash("a", "1"),
        ids.session_key("a", "b", "c"),
        ids.edge_id("a", 1, ("x", "y", "z")),
    ]
    assert len(set(made)) == len(made)
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in made)


def test_half_of_a_surrogate_pair_has_an_id_too() -> None:
    assert ids.entity_id("d", "\ud83d") != ids.entity_id("d", "\ud83e")


@pytest.mark.parametrize(
    "changed",
    [
        dataclasses.replace(SESSION, started_at=None),
        dataclasses.replace(SESSION, started_at=START + timedelta(seconds=1)),
        dataclasses.replace(SESSION, turns=SESSION.turns[:1]),
        dataclasses.replace(SESSION, turns=SESSION.turns[::-1]),
        *[
            dataclasses.replace(
                SESSION, turns=(dataclasses.replace(TURN, **change), SESSION.turns[1])
            )
            for change in ({"text": "Hello!"}, {"speaker": "Mia"}, {"index": 5}, {"time": None})
        ],
    ],
)
def test_the_content_hash_covers_all_that_a_rebuild_reads(changed: Session) -> None:
    assert ids.content_hash(changed) != ids.content_hash(SESSION)


def test_the_content_hash_does_not_depend_on_whose_session_it_is() -> None:
    other = dataclasses.replace(SESSION, dialogue_id="e", session_id="t")
    assert ids.content_hash(other) == ids.content_hash(SESSION)


FAILURE = Failure("read", "bad_time", "m", "raw", Place("f", 1, "x"), 3)


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "extract"},
        {"kind": "k"},
        {"message": "n"},
        {"raw": "r"},
        {"place": Place("g", 1, "x")},
        {"place": Place("f", 2, "x")},
        {"place": Place("f", 1, "y")},
        {"turn_index": 4},
    ],
)
def test_a_failure_is_known_by_its_source_place_and_content(change: dict[str, object]) -> None:
    other = dataclasses.replace(FAILURE, **change)  # type: ignore[arg-type]
    assert ids.failure_id("s", other) != ids.failure_id("s", FAILURE)
    assert ids.failure_id("t", FAILURE) != ids.failure_id("s", FAILURE)


def test_a_failure_of_no_session_is_known_by_its_tenant_too() -> None:
    made = {ids.record_failure_id(tenant, FAILURE) for tenant in ("a", "b", "")}
    assert len(made | {ids.failure_id(owner, FAILURE) for owner in ("a", "b", "")}) == 6
