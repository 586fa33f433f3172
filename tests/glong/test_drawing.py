"""Pictures of a memory: what is shown, where it stands, and what the files hold."""

import math
import re
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glong.drawing import (
    Link,
    Node,
    Picture,
    arrange,
    caption,
    history_text,
    hits_text,
    picture_of,
    save_png,
    shorten,
    to_html,
)
from glong.drawing.discs import free_angles, place_discs
from glong.errors import ConfigError
from glong.graph import MemoryGraph
from glong.types import Edge, Hit, Turn
from glong.validity import entity_index, intervals

NOW = datetime(2026, 2, 1, tzinfo=UTC)
FACTS = (
    ("Mira", "live_in", "Bergen", 0.9),
    ("Mira", "live_in", "Oslo", 0.3),
    ("Mira", "like_food", "corn", 0.8),
    ("Tom", "like_food", "corn", 0.2),
    ("Tom", "have_pet", "Rex", 0.7),
    ("Rex", "like", "Rex", 0.6),
    ("Ada", "know", "Bo", 0.1),
)


def memory(facts: tuple[tuple[str, str, str, float], ...] = FACTS) -> MemoryGraph:
    """One fact a turn, on successive days."""
    names = list(dict.fromkeys(name for fact in facts for name in (fact[0], fact[2])))
    n = len(facts)
    return MemoryGraph(
        entity_ids=tuple(f"id{i}" for i in range(len(names))),
        entity_names=tuple(names),
        entity_aliases=((),) * len(names),
        entity_vectors=np.ones((len(names), 1), np.float32),
        edge_ids=tuple(f"x{i}" for i in range(n)),
        heads=np.array([names.index(fact[0]) for fact in facts], np.int32),
        tails=np.array([names.index(fact[2]) for fact in facts], np.int32),
        subjects=tuple(fact[0] for fact in facts),
        relations=tuple(fact[1] for fact in facts),
        objects=tuple(fact[2] for fact in facts),
        edge_vectors=np.ones((n, 1), np.float32),
        weights=np.array([fact[3] for fact in facts], np.float32),
        scores=np.ones(n),
        created_s=np.arange(n) * 86_400.0,
        accessed_s=np.full(n, np.nan),
        edge_turn=np.arange(n, dtype=np.int32),
        turn_ids=tuple(f"t{i}" for i in range(n)),
        turn_session_ids=("s1",) * n,
        turn_indices=np.arange(n, dtype=np.int32),
        turn_speakers=tuple(fact[0] for fact in facts),
        turn_texts=tuple(f"{fact[1]} & {fact[2]}" for fact in facts),
        turn_times_s=np.arange(n) * 86_400.0,
        turn_vectors=np.ones((n, 1), np.float32),
    )


def hit(graph: MemoryGraph, *edges: int, turn: int = 0) -> Hit:
    records = tuple(graph.edge(edge) for edge in edges)
    return Hit(graph.turn(edges[0] if edges else turn), "s1", records, 0.5, {"weight": 1.0})


def picture(max_links: int = 100, graph: MemoryGraph | None = None, **options: object) -> Picture:
    graph = memory() if graph is None else graph
    return picture_of(graph, intervals(graph), "a title", max_links=max_links, **options)  # type: ignore[arg-type]


def facts_of(shown: Picture) -> list[tuple[str, str, str]]:
    names = [node.name for node in shown.nodes]
    return [(names[link.head], link.relation, names[link.tail]) for link in shown.links]


# What is shown


def test_all_facts_are_shown_the_heaviest_first() -> None:
    shown = picture()
    ordered = sorted(FACTS, key=lambda fact: -fact[3])
    assert facts_of(shown) == [fact[:3] for fact in ordered]
    assert shown.n_left_out == 0


def test_the_heaviest_are_kept_and_the_others_counted() -> None:
    shown = picture(max_links=2)
    assert facts_of(shown) == [("Mira", "live_in", "Bergen"), ("Mira", "like_food", "corn")]
    assert shown.n_left_out == 5
    assert {node.name: round(node.weight, 3) for node in shown.nodes} == {
        "Mira": 1.7,
        "Bergen": 0.9,
        "corn": 0.8,
    }


def test_closed_facts_and_hits_are_marked_and_notes_say_when_and_who() -> None:
    graph = memory()
    shown = picture(graph=graph, hits=[hit(graph, 2)])
    closed = [link for link in shown.links if link.is_closed]
    assert [link.note.splitlines()[0] for link in closed] == [
        "Mira -live_in-> Bergen  (until 1970-01-02 00:00)"
    ]
    (found,) = [link for link in shown.links if link.is_hit]
    assert found.note.splitlines() == [
        "Mira -like_food-> corn",
        "weight 0.80",
        "Mira, 1970-01-03 00:00: like_food & corn",
    ]


def test_around_hits_only_what_touches_them_is_shown_hits_first() -> None:
    graph = memory()
    shown = picture(graph=graph, hits=[hit(graph, 3)])
    assert facts_of(shown)[0] == ("Tom", "like_food", "corn")
    assert set(facts_of(shown)[1:]) == {("Tom", "have_pet", "Rex"), ("Mira", "like_food", "corn")}
    assert {node.name for node in shown.nodes if node.is_asked} == {"Tom", "corn"}
    assert picture(1, graph, hits=[hit(graph, 3)]).n_left_out == 2


def test_around_a_hit_the_facts_of_rare_things_come_before_those_of_a_speaker() -> None:
    many = tuple(("Mira", "like", f"thing {i}", 0.9) for i in range(20))
    graph = memory((*many, ("Mira", "have_pet", "Rex", 0.5), ("Rex", "like", "corn", 0.3)))
    shown = picture(2, graph, hits=[hit(graph, 20)])
    assert facts_of(shown) == [("Mira", "have_pet", "Rex"), ("Rex", "like", "corn")]
    assert shown.n_left_out == 20


def test_around_a_hit_without_facts_its_speaker_is_shown() -> None:
    graph = memory()
    shown = picture(graph=graph, hits=[hit(graph, turn=4)])
    assert [node.name for node in shown.nodes if node.is_asked] == ["Tom"]
    assert all("Tom" in (head, tail) for head, _, tail in facts_of(shown))
    assert not any(link.is_hit for link in shown.links)


def test_around_an_entity_only_its_facts_are_shown() -> None:
    graph = memory()
    shown = picture(graph=graph, entity=entity_index(graph, "corn"))
    assert facts_of(shown) == [("Mira", "like_food", "corn"), ("Tom", "like_food", "corn")]


def test_a_memory_without_facts_is_an_empty_picture() -> None:
    shown = picture(graph=memory(()))
    assert (shown.nodes, shown.links) == ((), ())
    assert "0 facts between 0 entities" in to_html(arrange(shown))


# Where it stands


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    n = draw(st.integers(1, 12))
    ends = draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=25))
    nodes = tuple(Node(draw(st.text(max_size=40)), 1.0) for _ in range(n))
    links = tuple(Link(h, t, "r", 0.5, False, False, "") for h, t in ends)
    return Picture("t", nodes, links, 0)


@settings(max_examples=30, deadline=None)
@given(pictures())
def test_everything_stands_within_the_picture_and_nodes_apart(shown: Picture) -> None:
    drawing = arrange(shown)
    assert len(drawing.nodes) == len(shown.nodes)
    assert len(drawing.links) == len(shown.links)
    for placed in drawing.nodes:
        assert 0 <= placed.x - placed.radius < placed.x + placed.radius <= drawing.width
        assert 0 <= placed.y - placed.radius < placed.y + placed.radius <= drawing.height
        assert -90 <= placed.label.angle <= 90 or placed.label.angle >= 270
    for left, right in combinations(drawing.nodes, 2):
        away = math.hypot(left.x - right.x, left.y - right.y)
        assert away >= left.radius + right.radius
    assert arrange(shown) == drawing


def test_links_between_the_same_two_nodes_do_not_lie_on_one_another() -> None:
    nodes = (Node("a", 1.0), Node("b", 1.0))
    links = tuple(Link(h, t, "r", 0.5, False, False, "") for h, t in ((0, 1), (0, 1), (1, 0)))
    drawing = arrange(Picture("t", nodes, links, 0))
    assert len({placed.control for placed in drawing.links}) == 3
    assert len({(placed.label.x, placed.label.y) for placed in drawing.links}) == 3


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(1, 200), max_size=8))
def test_discs_do_not_overlap(radii: list[float]) -> None:
    links = [(0, i) for i in range(1, len(radii))]
    centres = place_discs(radii, links)
    for i, j in combinations(range(len(radii)), 2):
        away = math.hypot(*(centres[i] - centres[j]))
        assert away >= radii[i] + radii[j]


@settings(deadline=None)
@given(st.integers(1, 40), st.lists(st.floats(-math.pi, math.pi), max_size=6))
def test_free_directions_are_distinct_and_leave_out_the_taken(n: int, taken: list[float]) -> None:
    free = free_angles(n, taken)
    assert len(set(free)) == n
    slot = 2 * math.pi / (n + len(taken))
    for angle in taken:
        apart = [abs((angle - other + math.pi) % (2 * math.pi) - math.pi) for other in free]
        assert min(apart) > slot * 0.49


# Files


class Page(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_has_every_node_and_link_with_its_label_and_marks() -> None:
    graph = memory()
    shown = picture(graph=graph, hits=[hit(graph, 0)])
    page = Page(to_html(arrange(shown)))
    classes = [attrs["class"] for tag, attrs in page.tags if tag == "g"]
    assert sum(str(kind).startswith("link") for kind in classes) == len(shown.links)
    assert sum(str(kind).startswith("node") for kind in classes) == len(shown.nodes)
    assert "link closed hit" in classes
    assert {"Mira", "Bergen", "live_in", "a title"} <= set(page.texts)
    assert any("live_in & Bergen" in text for text in page.texts)


def test_the_page_loads_nothing_from_anywhere() -> None:
    page = to_html(arrange(picture()))
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")
    assert not re.search(r"\b(src|href|@import|url)\b\s*[=(]", page)


EVIL = "</title><script>alert('1')</script>\"<img src=x onerror=y>&amp;$title ${svg}"


def test_whatever_a_memory_says_is_text_in_the_page() -> None:
    graph = memory(((EVIL, EVIL, EVIL + " too", 0.5), (EVIL, EVIL, "c", 0.5)))
    shown = picture_of(graph, intervals(graph), EVIL, max_links=9, hits=[hit(graph, 0)])
    page = Page(to_html(arrange(shown)))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert [tag for tag, _ in page.tags].count("img") == 0
    assert page.texts.count(EVIL) == 4  # title, heading, and the relation of two links
    assert all(not name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_the_caption_says_what_was_left_out() -> None:
    assert caption(arrange(picture(3))) == (
        "3 facts between 5 entities, 1 closed by a later fact (dashed);"
        " 4 lighter facts are left out."
    )
    assert "left out" not in caption(arrange(picture()))


def test_a_png_is_written_formula_signs_and_all_scripts_included(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    graph = memory((("Mira", "pay", "$5 or $6", 0.5), ("Mira", "like", "café", 0.5)))
    out = tmp_path / "memory.png"
    save_png(arrange(picture(graph=graph, hits=[hit(graph, 0)])), out)
    assert out.read_bytes().startswith(b"\x89PNG")


def test_a_missing_matplotlib_names_its_pip_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(ConfigError, match=r'pip install "glong\[plots\]"'):
        save_png(arrange(picture()), tmp_path / "memory.png")


# Text


FACT = Edge("e1", "Mira", "live_in", "Bergen", 1.0, NOW, NOW, "s1", 0)
MOVED = Edge(
    "e1",
    "Mira",
    "live_in",
    "Bergen",
    1.0,
    NOW,
    NOW,
    "s1",
    0,
    datetime(2026, 3, 2, tzinfo=UTC),
    "e3",
)
CAT = Edge("e2", "Mira", "have_pet", "a cat", 1.0, None, None, "s1", 3)
SAID = Turn(0, "Mira", "I live in Bergen,\nwith a cat.", NOW)


def test_a_hit_shows_each_of_its_facts_then_its_turn() -> None:
    found = Hit(SAID, "s1", (MOVED, CAT), 0.75, {"lexical": 0.5, "weight": 1.0})
    assert hits_text([found]).splitlines() == [
        "1. Mira -live_in-> Bergen  (until 2026-03-02 00:00)  [0.75: lexical 0.50, weight 1.00]",
        "   Mira -have_pet-> a cat",
        "   Mira, 2026-02-01 00:00: I live in Bergen, with a cat.",
    ]


def test_a_hit_without_a_fact_shows_its_turn() -> None:
    found = Hit(SAID, "s1", (), 0.75, {"dense_turns": 0.5})
    assert hits_text([found, found]).splitlines() == [
        f"{rank}. Mira, 2026-02-01 00:00: I live in Bergen, with a cat.  [0.75: dense_turns 0.50]"
        for rank in (1, 2)
    ]


def test_no_hit_and_no_fact_are_said() -> None:
    assert hits_text([]) == "No memory answers this."
    assert history_text([]) == "No such fact was ever said."


def test_a_fact_closed_at_no_known_time_is_said() -> None:
    closed = Edge("e1", "Mira", "live_in", "Bergen", 1.0, None, None, "s1", 2, None, "e3")
    assert history_text([MOVED, closed]).splitlines() == [
        "2026-02-01 00:00  Mira -live_in-> Bergen  (until 2026-03-02 00:00)  [session s1, turn 0]",
        "no time           Mira -live_in-> Bergen  (no longer)  [session s1, turn 2]",
    ]


def test_a_long_turn_is_cut_in_any_script() -> None:
    for text in ("so " * 1000, "猫" * 3000):
        (shown,) = hits_text([Hit(Turn(0, "Mira", text), "s1", (), 0.5, {})]).splitlines()
        assert "..." in shown
        assert text[:10] in shown
        assert len(shown) < 450
    assert shorten("a\n b", 10) == "a b"
    assert shorten("abcdefghijk", 10) == "abcdefg..."
