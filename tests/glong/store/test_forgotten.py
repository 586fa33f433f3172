import json
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glong import ids
from glong.store import Target
from glong.store.forgotten import (
    Forgotten,
    Kind,
    Mark,
    add_marks,
    add_secrets,
    keyed,
    mention,
    read_forgotten,
    said,
)
from glong.types import Session, Turn
from tests.glong.store.rows import (
    START,
    broken_line,
    built_session,
    forgotten,
    new_store,
    record_failures,
    wave,
)

DIALOGUE = ids.dialogue_key("default", "d")
KEY = ids.session_key("default", "d", "s")
TURNS = (
    Turn(0, "Mira", "I like corn."),
    Turn(1, "Tom", "Rex's bowl is blue."),
    Turn(2, "Rex", "Wuff."),
    Turn(3, "Tom", "Rexona is a brand."),
)
SESSION = Session("d", "s", START, TURNS)


def left(*marks: Mark) -> list[int] | None:
    kept = forgotten(DIALOGUE, *marks).strip("default", SESSION)
    return None if kept is None else [turn.index for turn in kept.turns]


def test_nothing_forgotten_leaves_the_session_as_it_is() -> None:
    assert Forgotten().strip("default", SESSION) is SESSION
    assert left() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("mark", "kept"),
    [
        (Mark(Kind.DIALOGUE, (DIALOGUE,)), None),
        (Mark(Kind.SESSION, (KEY,)), None),
        (Mark(Kind.SESSION, ("another",)), [0, 1, 2, 3]),
        (Mark(Kind.TURN, (KEY, said("Mira", "I  like CORN."))), [1, 2, 3]),
        (Mark(Kind.TURN, ("another", said("Mira", "I like corn."))), [0, 1, 2, 3]),
        (Mark(Kind.ENTITY, (DIALOGUE, "rex")), [0, 1, 2, 3]),
        (Mark(Kind.MENTION, (DIALOGUE, mention("Rex"))), [0, 3]),
    ],
)
def test_a_session_is_stripped_of_what_a_mark_is_about(mark: Mark, kept: list[int] | None) -> None:
    assert left(mark) == kept


def test_a_session_of_which_no_turn_is_left_is_gone() -> None:
    marks = [Mark(Kind.TURN, (KEY, said(turn.speaker, turn.text))) for turn in TURNS]
    assert left(*marks) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ask Mira Novak.", True),
        ("(mira  NOVAK's sister)", True),
        ("Mira. Novak", True),
        ("Mira likes Novak", False),
        ("mira novakova", False),
        ("", False),
    ],
)
def test_a_name_is_looked_for_as_whole_words(text: str, found: bool) -> None:
    marks = forgotten(DIALOGUE, Mark(Kind.MENTION, (DIALOGUE, mention("Mira Novak")))).of(
        DIALOGUE, KEY
    )
    assert marks is not None
    assert marks.mentions(text) is found


def test_marks_can_be_pickled_for_workers() -> None:
    marks = pickle.loads(pickle.dumps(forgotten(DIALOGUE, Mark(Kind.SESSION, (KEY,)))))
    assert marks.strip("default", SESSION) is None


@given(st.lists(st.text(), min_size=1, max_size=4), st.lists(st.text(), min_size=1, max_size=4))
def test_hashes_are_equal_only_for_equal_parts_under_one_key(a: list[str], b: list[str]) -> None:
    one, other = "ab" * 16, "cd" * 16
    assert (keyed(one, "k", *a) == keyed(one, "k", *b)) == (a == b)
    assert keyed(one, "k", *a) != keyed(other, "k", *a)


def test_the_last_mark_counts_whatever_the_clocks_say(tmp_path: Path) -> None:
    layout = new_store(tmp_path / "s").layout
    late, early = START, START - timedelta(days=9)
    for kind, at, whole in (
        (Kind.SESSION, late, True),
        (Kind.RESTORED, early, False),
        (Kind.SESSION, early, True),
    ):
        add_marks(layout, "default", DIALOGUE, [Mark(kind, (KEY,))], at)
        marks = read_forgotten(layout).of(DIALOGUE, KEY)
        assert marks is not None
        assert marks.whole() is whole


def test_what_is_stored_holds_no_name_and_no_hash_that_can_be_guessed(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b", built_session("d", "s")))
    store.forget("default", Target("d", entity="Mira"), datetime.now(UTC))
    rows = json.dumps(store.visible("forgotten").to_pylist(), default=str)
    guesses = ("d", "s", "Mira", "mira", DIALOGUE, KEY, ids.entity_id(DIALOGUE, "mira"))
    assert not any(f'"{guess}"' in rows for guess in guesses)


def test_each_store_has_a_key_of_its_own_and_takes_others(tmp_path: Path) -> None:
    layouts = [new_store(tmp_path / name).layout for name in "ab"]
    assert [read_forgotten(layout).secrets for layout in layouts] == [(), ()]
    (a,), (b,) = (add_secrets(layout) for layout in layouts)
    assert a != b
    assert add_secrets(layouts[0]) == (a,)
    assert set(add_secrets(layouts[0], [b])) == {a, b}
    add_marks(layouts[1], "default", DIALOGUE, [Mark(Kind.SESSION, (KEY,))], START)
    rows = layouts[1].dataset("forgotten").to_table()
    layouts[0].dataset("forgotten").insert(rows)
    assert read_forgotten(layouts[0]).strip("default", SESSION) is None


def test_a_broken_record_stays_forgotten_under_the_id_that_it_had_without_its_tenant() -> None:
    before = Mark(Kind.FAILURE, (ids.failure_id("", broken_line(1)),))
    failures = record_failures(broken_line(1), broken_line(2))
    assert forgotten(DIALOGUE, before).without(failures)["line"].to_pylist() == [2]
