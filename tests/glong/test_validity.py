"""Which later edge closes which earlier one."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.errors import NotFoundError
from glong.graph import MemoryGraph
from glong.relations import is_denial, relations
from glong.validity import SAME_VALUE, Validity, entity_index, fact, history, holds_at, intervals

DAY = 86_400.0
NEVER = float("inf")


@dataclass(frozen=True)
class Said:
    """A fact and when and where it was said; ``turn`` counts over the whole memory."""

    subject: str
    relation: str
    object: str
    day: float | None
    turn: int
    edge_id: str


def said(*facts: str, untimed: bool = False) -> list[Said]:
    """``subject relation object`` of turns on successive days."""
    words = [fact.split() for fact in facts]
    days = [None if untimed else float(i) for i in range(len(facts))]
    return [Said(w[0], w[1], w[2], days[i], i, f"x{i}") for i, w in enumerate(words)]


def graph_of(facts: list[Said]) -> MemoryGraph:
    names = sorted({name for fact in facts for name in (fact.subject, fact.object)})
    n, n_turns = len(facts), max((fact.turn for fact in facts), default=-1) + 1
    times = np.array([np.nan if f.day is None else f.day * DAY for f in facts], np.float64)
    turn_times = np.full(n_turns, np.nan)
    turn_times[[f.turn for f in facts]] = times
    return MemoryGraph(
        entity_ids=tuple(f"id of {name}" for name in names),
        entity_names=tuple(names),
        entity_aliases=tuple((f"{name} B.",) for name in names),
        entity_vectors=np.ones((len(names), 1), np.float32),
        edge_ids=tuple(fact.edge_id for fact in facts),
        heads=np.array([names.index(fact.subject) for fact in facts], np.int32),
        tails=np.array([names.index(fact.object) for fact in facts], np.int32),
        subjects=tuple(fact.subject for fact in facts),
        relations=tuple(fact.relation for fact in facts),
        objects=tuple(fact.object for fact in facts),
        edge_vectors=np.ones((n, 1), np.float32),
        weights=np.full(n, 0.5, np.float32),
        scores=np.full(n, 1.0),
        created_s=times,
        accessed_s=times.copy(),
        edge_turn=np.array([fact.turn for fact in facts], np.int32),
        turn_ids=tuple(f"t{i}" for i in range(n_turns)),
        turn_session_ids=("s",) * n_turns,
        turn_indices=np.arange(n_turns, dtype=np.int32),
        turn_speakers=("Mira",) * n_turns,
        turn_texts=("hello",) * n_turns,
        turn_times_s=turn_times,
        turn_vectors=np.ones((n_turns, 1), np.float32),
    )


def closers(*facts: str, untimed: bool = False) -> list[int]:
    return intervals(graph_of(said(*facts, untimed=untimed))).closed_by.tolist()


# Single-valued relations


def test_a_later_different_object_closes_the_earlier_fact() -> None:
    facts = said("Mira live_in Bergen", "Tom live_in Bergen", "Mira live_in Oslo")
    validity = intervals(graph_of(facts))
    assert validity.closed_by.tolist() == [2, -1, -1]
    assert validity.from_s.tolist() == [0.0, DAY, 2 * DAY]
    assert validity.to_s.tolist() == [2 * DAY, NEVER, NEVER]


def test_the_same_object_again_closes_nothing_and_the_next_other_one_closes_both() -> None:
    assert closers("Mira live_in Bergen", "Mira live_in Bergen", "Mira live_in Oslo") == [2, 2, -1]


def test_going_back_closes_what_came_in_between() -> None:
    assert closers("Mira live_in Bergen", "Mira live_in Oslo", "Mira live_in Bergen") == [1, 2, -1]


def test_only_the_first_later_value_closes() -> None:
    assert closers("Mira live_in Bergen", "Mira live_in Oslo", "Mira live_in Rome") == [1, 2, -1]


@pytest.mark.parametrize(
    "later",
    ["live_in_citystatecountry", "lives_in", "moved_to", "living_in"],
)
def test_other_words_for_a_single_valued_relation_count_as_it(later: str) -> None:
    assert closers("Mira live_in_citystatecountry Bergen", f"Mira {later} Oslo") == [1, -1]


def test_different_single_valued_relations_do_not_meet() -> None:
    facts = ["Mira favorite_food corn", "Mira favorite_drink tea", "Mira work_for Acme"]
    assert closers(*facts) == [-1, -1, -1]


@pytest.mark.parametrize(
    "relation",
    ["have_pet", "like_food", "visit", "be", "have", "like", "call", "eat", "stay_in", "go_to"],
)
def test_a_relation_of_many_values_never_retires_its_own(relation: str) -> None:
    assert closers(*(f"Mira {relation} {thing}" for thing in "abc")) == [-1, -1, -1]


def test_the_open_verbs_mean_what_the_list_of_relations_says() -> None:
    for verb, name in SAME_VALUE.items():
        assert relations()[name].single
        assert verb in relations()[name].synonyms
        assert verb not in relations()


# Denials


@pytest.mark.parametrize(
    ("fact", "denial"),
    [
        ("live_in", "not_live_in"),
        ("live_in_citystatecountry", "not_live_in"),
        ("like_food", "dislike_food"),
        ("like_food", "dislike"),
        ("like_food", "hate"),
        ("love", "not_like"),
        ("favorite_food", "dislike"),
        ("have_pet", "have_no"),
        ("own", "not_have"),
        ("eats", "not_eat"),
        ("eat", "do_not_eat"),
        ("like_drink", "do_not_drink"),
        ("want_do", "not_want_do"),
        ("get_along", "fall_out"),
        ("has_ability", "weakness"),
        ("visited", "not_visit"),
    ],
)
def test_a_denial_and_its_fact_close_one_another(fact: str, denial: str) -> None:
    assert closers(f"Mira {fact} x", f"Mira {denial} x") == [1, -1]
    assert closers(f"Mira {denial} x", f"Mira {fact} x") == [1, -1]
    assert closers(f"Mira {fact} x", f"Mira {denial} y", f"Tom {denial} x") == [-1, -1, -1]


@pytest.mark.parametrize(
    ("left", "right"),
    [("like_food", "not_hate"), ("play", "weakness"), ("buy", "have_no"), ("want_job", "not_be")],
)
def test_what_is_no_denial_of_a_fact_leaves_it(left: str, right: str) -> None:
    assert closers(f"Mira {left} x", f"Mira {right} x") == [-1, -1]


def test_a_denial_is_no_other_value() -> None:
    facts = ["Mira live_in Bergen", "Mira not_live_in Oslo", "Mira live_in Bergen"]
    assert closers(*facts) == [-1, -1, -1]


def test_the_earlier_of_a_denial_and_another_value_closes() -> None:
    there, left, gone = "Mira live_in Bergen", "Mira not_live_in Bergen", "Mira live_in Oslo"
    assert closers(there, left, gone) == [1, -1, -1]
    assert closers(there, gone, left) == [1, -1, -1]


# Order


def test_at_one_time_the_turn_decides_and_in_one_turn_the_edge_id() -> None:
    one_time = [
        Said("Mira", "live_in", "Oslo", 5.0, 1, "a"),
        Said("Mira", "live_in", "Rome", 5.0, 0, "c"),
        Said("Mira", "live_in", "Bergen", 5.0, 0, "b"),
    ]
    validity = intervals(graph_of(one_time))
    assert validity.closed_by.tolist() == [-1, 0, 1]
    assert holds_at(validity, 5 * DAY).tolist() == [True, False, False]


def test_the_time_counts_before_the_turn() -> None:
    facts = said("Mira live_in Bergen", "Mira live_in Oslo")
    reported = [replace(facts[0], day=9.0), facts[1]]
    assert intervals(graph_of(reported)).closed_by.tolist() == [-1, 0]


def test_without_times_the_order_of_sessions_counts() -> None:
    facts = said("Mira live_in Bergen", "Mira live_in Oslo", untimed=True)
    validity = intervals(graph_of(facts))
    assert validity.closed_by.tolist() == [1, -1]
    assert validity.from_s.tolist() == [-NEVER, -NEVER]
    assert validity.to_s.tolist() == [-NEVER, NEVER]
    assert holds_at(validity, 0.0).tolist() == [False, True]


def test_a_fact_without_a_time_starts_with_the_latest_turn_before_it() -> None:
    facts = said("Mira live_in Bergen", "Tom live_in Rome", "Mira live_in Oslo")
    validity = intervals(graph_of([facts[0], facts[1], replace(facts[2], day=None)]))
    assert validity.from_s.tolist() == [0.0, DAY, DAY]
    assert validity.to_s.tolist() == [DAY, NEVER, NEVER]


def test_a_fact_holds_from_its_time_until_just_before_the_next() -> None:
    validity = intervals(graph_of(said("Mira live_in Bergen", "Mira live_in Oslo")))
    held = [holds_at(validity, time_s).tolist() for time_s in (-1.0, 0.0, DAY - 1, DAY, 9 * DAY)]
    assert held == [[False] * 2, [True, False], [True, False], [False, True], [False, True]]


def test_an_empty_memory_has_no_intervals() -> None:
    validity = intervals(graph_of([]))
    assert [len(a) for a in (validity.from_s, validity.to_s, validity.closed_by)] == [0, 0, 0]


def test_intervals_are_read_only() -> None:
    validity = intervals(graph_of(said("Mira live_in Bergen")))
    for array in (validity.from_s, validity.to_s, validity.closed_by):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


# Properties

SINGLE = ("live_in", "moved_to", "live_in_citystatecountry", "favorite_food", "work_at")
MANY = ("like_food", "have_pet", "visit", "be")
DENIALS = ("not_live_in", "dislike_food", "have_no", "not_visit")
RELATIONS = (*SINGLE, *MANY, *DENIALS)
SLOTS = dict.fromkeys(SINGLE[:3], "live_in") | {name: name for name in SINGLE[3:]}


@st.composite
def memories(draw: st.DrawFn) -> list[Said]:
    """Few names, days and turns, so that facts meet and tie; a session is wholly timed or not."""
    n = draw(st.integers(1, 14))
    timed = draw(st.booleans())
    facts = []
    for i in range(n):
        turn = draw(st.integers(0, 5))
        day = float(draw(st.integers(0, 4))) if timed else None
        subject, thing = draw(st.sampled_from("MT")), draw(st.sampled_from("abc"))
        facts.append(Said(subject, draw(st.sampled_from(RELATIONS)), thing, day, turn, f"x{i:02}"))
    return draw(st.permutations(facts))


def by_id(facts: list[Said]) -> dict[str, tuple[float, float, str]]:
    graph = graph_of(facts)
    found = intervals(graph)
    names = [*graph.edge_ids, ""]  # index -1: none
    return {
        edge: (float(found.from_s[i]), float(found.to_s[i]), names[found.closed_by[i]])
        for i, edge in enumerate(graph.edge_ids)
    }


@settings(deadline=None)
@given(memories())
def test_two_values_of_one_subject_and_single_relation_never_overlap(facts: list[Said]) -> None:
    found = by_id(facts)
    for left in facts:
        for right in facts:
            if (
                left.subject == right.subject
                and left.object != right.object
                and SLOTS.get(left.relation, "l") == SLOTS.get(right.relation, "r")
            ):
                one, other = found[left.edge_id], found[right.edge_id]
                assert one[1] <= other[0] or other[1] <= one[0]


@settings(deadline=None)
@given(memories(), st.randoms(use_true_random=False))
def test_the_order_of_edges_in_the_graph_changes_nothing(facts: list[Said], random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(facts)
    random.shuffle(shuffled)
    assert by_id(shuffled) == by_id(facts)


@settings(deadline=None)
@given(memories())
def test_many_values_are_closed_only_by_a_denial_and_denials_only_by_a_fact(
    facts: list[Said],
) -> None:
    found, known = by_id(facts), {one.edge_id: one for one in facts}
    for one in facts:
        closer = known.get(found[one.edge_id][2])
        if closer is not None and one.relation not in SINGLE:
            assert (one.subject, one.object) == (closer.subject, closer.object)
            assert is_denial(one.relation) != is_denial(closer.relation)


@settings(deadline=None)
@given(memories())
def test_an_interval_ends_where_its_closer_starts_and_never_before_its_own_start(
    facts: list[Said],
) -> None:
    found = by_id(facts)
    for start, end, closer in found.values():
        assert start <= end
        assert end == (found[closer][0] if closer else NEVER)


@settings(deadline=None)
@given(memories(), st.sampled_from(RELATIONS), st.sampled_from("abc"))
def test_a_later_edge_moves_no_start_and_reopens_nothing(
    facts: list[Said], relation: str, thing: str
) -> None:
    day = None if facts[0].day is None else 9.0
    before, after = by_id(facts), by_id([*facts, Said("M", relation, thing, day, 9, "y")])
    for edge, (start, end, closer) in before.items():
        assert after[edge][0] == start
        assert after[edge] == (start, end, closer) or (not closer and after[edge][2] == "y")


# Records and history


def mira() -> tuple[MemoryGraph, Validity]:
    graph = graph_of(
        said(
            "Mira live_in Bergen",
            "Mira have_pet Rex",
            "Tom know Mira",
            "Mira moved_to Oslo",
            "Mira have_no Rex",
            "Mira like_food tea",
            "Mira dislike tea",
            "Mira be happy",
        )
    )
    return graph, intervals(graph)


def test_a_record_says_when_and_by_what_it_was_closed() -> None:
    graph, validity = mira()
    closed, still = fact(graph, validity, 0), fact(graph, validity, 3)
    assert (closed.valid_to, closed.closed_by) == (datetime(1970, 1, 4, tzinfo=UTC), "x3")
    assert replace(closed, valid_to=None, closed_by="") == graph.edge(0)
    assert still == graph.edge(3)


def test_a_record_closed_at_no_known_time_says_by_what() -> None:
    graph = graph_of(said("Mira live_in Bergen", "Mira live_in Oslo", untimed=True))
    record = fact(graph, intervals(graph), 0)
    assert (record.created_at, record.valid_to, record.closed_by) == (None, None, "x1")


def ids(graph: MemoryGraph, validity: Validity, *asked: str) -> list[str]:
    return [edge.edge_id for edge in history(graph, validity, *asked)]


def test_history_lists_the_facts_of_an_entity_in_order_of_time() -> None:
    facts = said("Mira live_in Bergen", "Tom know Mira", "Mira live_in Oslo", "Tom like tea")
    graph = graph_of(facts[::-1])
    assert ids(graph, intervals(graph), "Mira") == ["x0", "x1", "x2"]


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("live_in", ["x0", "x3"]),
        ("live_in_citystatecountry", ["x0", "x3"]),
        ("have_pet", ["x1", "x4"]),
        ("have_no", ["x1", "x4"]),
        ("knows", ["x2"]),
        ("visit", []),
        ("name", []),
        ("like_food", ["x5", "x6"]),
        ("like_drink", ["x6"]),
        ("like", ["x5", "x6"]),
        ("be", ["x7"]),
    ],
)
def test_history_of_one_relation_has_its_other_names_and_its_denial(
    relation: str, expected: list[str]
) -> None:
    assert ids(*mira(), "Mira", relation) == expected


@pytest.mark.parametrize("name", ["Mira", "mira", " MIRA. ", "Mira B.", "id of Mira"])
def test_an_entity_is_found_by_name_alias_and_id(name: str) -> None:
    graph, _ = mira()
    assert graph.entity_names[entity_index(graph, name)] == "Mira"


def test_an_unknown_entity_is_an_error_with_names_that_are_like_it() -> None:
    graph, validity = mira()
    with pytest.raises(NotFoundError, match=r"no entity 'Mirra' among 7. Like it: 'Mira'"):
        entity_index(graph, "Mirra")
    with pytest.raises(NotFoundError, match=r"no entity 'zzz' among 7\.$"):
        history(graph, validity, "zzz")
