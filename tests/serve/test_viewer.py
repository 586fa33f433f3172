"""The memory viewer in a real browser, against the service without Ray.

Needs Playwright (``pip install playwright``) and Chromium (Debian: ``apt-get install chromium``);
skipped without. ``GLONG_SCREENSHOTS=FOLDER`` keeps a picture of every state at both widths.
"""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from serve.auth import KeyEntry, Keys, key_hash
from tests.serve import viewer_memories as memories
from tests.serve.browsing import CHROMIUM, KEY, SIZES, WIDE, Open, picture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]

HEADERS = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The service with a small and a large memory of ``acme``, and none of ``empty``."""
    local = memories.services(str(tmp_path_factory.mktemp("viewer") / "store"))
    keys = Keys((KeyEntry("acme", key_hash(KEY)), KeyEntry("empty", key_hash("key-e"))))
    with memories.serving(local, keys) as address:
        for dialogue, sessions in (("mira", memories.small()), ("large one", memories.large())):
            post(address, dialogue, sessions)
        yield address


def post(address: str, dialogue: str, sessions: list[dict[str, Any]]) -> None:
    with httpx.Client(base_url=address, headers=HEADERS, timeout=60) as client:
        for session in sessions:
            answer = client.post(f"/v1/dialogues/{dialogue}/sessions", json=session)
            assert answer.status_code == 200, answer.text


@SIZES
def test_the_key_is_asked_for_and_kept_for_the_session_only(
    open_page: Open, size: dict[str, int], tag: str
) -> None:
    page = open_page(size=size, key="")
    page.get_by_text("The key is missing or not known.").wait_for()
    assert page.evaluate("document.activeElement.id") == "key-text"
    picture(page, f"no-key-{tag}")
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="mira").wait_for()
    assert page.evaluate("sessionStorage.getItem('glong-key')") == KEY
    assert page.evaluate("localStorage.length") == 0
    assert KEY not in page.url
    assert page.input_value("#key-text") == ""
    picture(page, f"list-{tag}")
    page.get_by_role("button", name="Clear").click()
    page.get_by_text("The key is missing or not known.").wait_for()
    assert page.get_by_role("link", name="mira").count() == 0


@SIZES
def test_without_memories_it_says_how_to_make_one(
    open_page: Open, size: dict[str, int], tag: str
) -> None:
    page = open_page(size=size, key="key-e")
    page.get_by_text("No memories yet").wait_for()
    picture(page, f"empty-{tag}")


def test_dialogues_are_searched_and_paged(open_page: Open, url: str) -> None:
    page = open_page()
    row = {"n_sessions": 1, "n_turns": 2, "n_edges": 3, "first_at": None, "last_at": None}

    def pages(route: Any) -> None:
        first = "after=&" in route.request.url
        ids = ["a", "b"] if first else ["c"]
        found = [{**row, "dialogue_id": one} for one in ids]
        route.fulfill(json={"dialogues": found, "next": "b" if first else None})

    page.fill("#search-text", "arg")
    page.get_by_role("link", name="large one").wait_for()
    page.get_by_role("link", name="mira").wait_for(state="detached")
    page.fill("#search-text", "nobody")
    page.get_by_text("No match").wait_for()
    page.route("**/v1/dialogues?*", pages)
    page.fill("#search-text", "")
    page.get_by_role("button", name="Load more").click()
    page.get_by_role("link", name=re.compile("^c")).wait_for()
    assert page.locator("#dialogues li").count() == 3


@SIZES
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_fact_shows_its_validity_and_its_source(
    open_page: Open, size: dict[str, int], tag: str, scheme: str
) -> None:
    page = open_page("#/d/mira/graph", size=size, scheme=scheme)
    page.get_by_role("button", name=re.compile("Mira live in Bergen")).wait_for()
    picture(page, f"graph-{scheme}-{tag}")
    closed = page.get_by_role("button", name=re.compile("Mira live in Bergen"))
    assert "closed" in closed.get_attribute("class")
    closed.focus()
    page.keyboard.press("Enter")
    card = page.locator(".card")
    card.get_by_text("2026-01-05 10:00 to 2026-03-05 10:00").wait_for()
    assert card.locator("blockquote").inner_text() == "Tom: Mira | live_in | Bergen"
    picture(page, f"fact-{scheme}-{tag}")
    card.get_by_role("button", name="Mira live in Oslo").click()
    page.locator(".card h3", has_text="Oslo").wait_for()
    page.get_by_role("button", name="All of Mira").click()
    page.locator(".card h3", has_text=re.compile("^Mira$")).wait_for()
    picture(page, f"entity-{scheme}-{tag}")


def test_what_was_said_is_shown_as_text(open_page: Open) -> None:
    page = open_page("#/d/mira/graph")
    page.get_by_role("button", name=re.compile("onerror")).click()
    page.locator(".card", has_text=memories.NASTY).wait_for()
    assert page.locator("img").count() == 0
    assert page.title() == "mira · glong memories"


@SIZES
def test_a_large_graph_stays_readable(open_page: Open, size: dict[str, int], tag: str) -> None:
    step = 60 if size is WIDE else 30
    page = open_page("#/d/large%20one/graph", size=size)
    page.get_by_text(f"The {step} heaviest facts of").wait_for()
    picture(page, f"large-{tag}")
    page.get_by_role("button", name="Show all").click()
    page.get_by_text("all that match").wait_for()
    picture(page, f"large-all-{tag}")
    page.get_by_label("Find facts").fill("lighthouse")
    page.get_by_text("heaviest facts of").wait_for()
    picture(page, f"large-found-{tag}")


def test_the_graph_is_moved_with_keys(open_page: Open) -> None:
    page = open_page("#/d/large%20one/graph")
    page.locator(".canvas").focus()
    before = page.locator(".canvas").screenshot()
    for pressed in ("ArrowRight", "ArrowDown", "+"):
        page.keyboard.press(pressed)
    page.wait_for_timeout(200)
    assert page.locator(".canvas").screenshot() != before


@SIZES
def test_sessions_stand_along_time(open_page: Open, size: dict[str, int], tag: str) -> None:
    page = open_page("#/d/large%20one/sessions", size=size)
    page.locator(".timeline > li").nth(25).wait_for()
    picture(page, f"timeline-{tag}")
    page.goto(page.url + "/talk%2003")
    opened = page.locator("details[open]")
    opened.get_by_role("button", name="Forget this session").wait_for()
    assert opened.locator(".fact").count() == 20
    picture(page, f"session-{tag}")


@SIZES
def test_a_retrieval_shows_what_each_part_added(
    open_page: Open, size: dict[str, int], tag: str
) -> None:
    page = open_page("#/d/mira/ask", size=size)
    page.get_by_text("Ask this memory").wait_for()
    picture(page, f"ask-{tag}")
    page.get_by_label("Question").fill("Where does Mira live?")
    page.keyboard.press("Enter")
    hit = page.locator(".hit").first
    hit.wait_for()
    picture(page, f"hits-{tag}")
    adds = (
        page.locator(".hit")
        .first.locator(".adds")
        .evaluate_all("all => all.map(one => Number(one.firstChild.data.replace('\\u2212', '-')))")
    )
    assert sum(adds) == pytest.approx(float(hit.locator(".score").inner_text()), abs=0.02)
    hit.get_by_role("link", name=re.compile("in the graph")).first.click()
    page.locator(".card").wait_for()
    page.go_back()
    page.locator(".hit").first.wait_for()
    page.get_by_text("Options").click()
    page.get_by_label("Profile").select_option("paper")
    page.get_by_label("As known at").fill("2026-02-01T00:00")
    page.get_by_role("button", name="Retrieve").click()
    page.get_by_text("knows no validity").wait_for()
    picture(page, f"ask-error-{tag}")


@SIZES
def test_loading_and_failures_are_told(open_page: Open, size: dict[str, int], tag: str) -> None:
    page = open_page(size=size)
    page.get_by_role("link", name="mira").wait_for()
    held: list[Any] = []
    page.route("**/graph", lambda route: held.append(route))
    page.get_by_role("link", name="mira").click()
    page.get_by_text("Loading the memory").wait_for()
    picture(page, f"loading-{tag}")
    error = {"type": "timeout", "message": "Too slow.", "hint": "Try later.", "request_id": "r-1"}
    held[0].fulfill(status=503, json={"error": error})
    page.get_by_text("Request r-1").wait_for()
    picture(page, f"error-{tag}")
    page.unroute("**/graph")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("button", name=re.compile("Mira live in Oslo")).wait_for()
    page.route("**/v1/**", lambda route: route.abort())
    page.get_by_role("link", name="Timeline").click()
    page.get_by_text("The service cannot be reached.").wait_for()
    page.goto(page.url.split("#")[0] + "#/d/nobody/graph")
    page.unroute("**/v1/**")
    page.get_by_role("button", name="Try again").last.click()
    page.get_by_text("There is no such dialogue").wait_for()


@SIZES
def test_forgetting_asks_first_and_shows_the_receipt(
    open_page: Open, url: str, size: dict[str, int], tag: str
) -> None:
    dialogue = f"short-lived {tag}"
    post(url, dialogue, memories.small())
    page = open_page(f"#/d/{dialogue}/graph", size=size)
    box = page.locator("dialog")

    def confirm(name: str) -> None:
        box.get_by_role("button", name="Forget", exact=True).click()
        box.get_by_text("no reader sees it any more").wait_for()
        picture(page, f"receipt-{name}-{tag}")
        page.keyboard.press("Escape")

    fact = page.get_by_role("button", name=re.compile("Mira plan a trip"))
    fact.click()
    page.get_by_role("button", name="Forget this fact").click()
    picture(page, f"confirm-fact-{tag}")
    assert page.evaluate("document.activeElement.textContent") == "Keep it"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Forget this fact").click()
    confirm("fact")
    page.get_by_role("button", name=re.compile("Mira visit Leipzig")).click()
    assert fact.count() == 0
    page.get_by_role("button", name="All of Leipzig").click()
    page.get_by_role("button", name="Forget all of it").click()
    box.get_by_label("Also forget every turn").check()
    picture(page, f"confirm-entity-{tag}")
    confirm("entity")
    page.get_by_role("link", name="Timeline").click()
    page.get_by_text("meeting 1").click()
    page.get_by_role("button", name="Forget this session").click()
    confirm("session")
    page.get_by_text("meeting 1").wait_for(state="detached")
    page.get_by_role("button", name="Forget this memory").click()
    picture(page, f"confirm-memory-{tag}")
    confirm("memory")
    page.get_by_role("link", name="mira").wait_for()
    page.get_by_role("link", name=dialogue).wait_for(state="detached")
    gone = httpx.get(f"{url}/v1/dialogues/{dialogue}/graph", headers=HEADERS)
    assert gone.status_code == 404
