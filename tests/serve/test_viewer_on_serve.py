"""The memory viewer behind a real Ray Serve: its files and its calls go through the proxy."""

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.serve import real_service
from tests.serve import viewer_memories as memories
from tests.serve.browsing import CHROMIUM, KEY, NARROW, SIZES, WIDE, Open, picture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
]

DRAWN_AT_ONCE = 150


@pytest.fixture(scope="module")
def url(serve_cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The service; ``acme`` has a memory of more facts than are drawn at once, ``other`` none."""
    folder = tmp_path_factory.mktemp("viewer")
    environ = {
        "GLONG_STORE": str(folder / "store"),
        "GLONG_MODELS": "fake",
        "GLONG_KEYS_FILE": real_service.keys_file(folder),
    }
    headers = {"Authorization": f"Bearer {KEY}"}
    with real_service.running(environ) as address:
        with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
            for session in memories.large():
                answer = client.post("/v1/dialogues/large/sessions", json=session)
                assert answer.status_code == 200, answer.text
            assert len(client.get("/v1/dialogues/large/graph").json()["edges"]) > DRAWN_AT_ONCE
        yield address


@SIZES
def test_a_memory_is_seen_asked_and_partly_forgotten_through_the_proxy(
    open_page: Open, size: dict[str, int], tag: str
) -> None:
    page = open_page(size=size)
    page.get_by_role("link", name="large").click()
    page.get_by_text("heaviest facts of").wait_for()
    picture(page, f"serve-graph-{tag}")
    page.get_by_role("link", name="Ask").click()
    page.get_by_label("Question").fill("Who visits the lighthouse?")
    page.keyboard.press("Enter")
    hit = page.locator(".hit").first
    hit.locator(".bar").first.wait_for()
    picture(page, f"serve-hits-{tag}")
    hit.get_by_role("link", name=re.compile("in the graph")).first.click()
    page.get_by_role("button", name="Forget this fact").click()
    box = page.locator("dialog")
    box.get_by_role("button", name="Forget", exact=True).click()
    box.get_by_text("no reader sees it any more").wait_for()


@SIZES
def test_an_empty_store_and_a_wrong_key_say_what_to_do(
    open_page: Open, size: dict[str, int], tag: str
) -> None:
    page = open_page(size=size, key="key-b")
    page.get_by_text("No memories yet").wait_for()
    page.get_by_text("-H 'Authorization: Bearer KEY'").wait_for()
    picture(page, f"serve-empty-{tag}")
    page = open_page(size=size, key="wrong")
    page.get_by_text("The key is missing or not known.").wait_for()
    picture(page, f"serve-wrong-key-{tag}")


def test_a_service_that_has_gone_is_told(open_page: Open) -> None:
    """The last test here: the application is not there afterwards."""
    from ray import serve

    page = open_page("#/d/large/graph")
    page.get_by_text("heaviest facts of").wait_for()
    serve.delete("glong")
    page.get_by_role("link", name="Timeline").click()
    page.get_by_text("The service is not there.").wait_for()
    page.get_by_role("button", name="Try again").wait_for()
    for size, tag in ((WIDE, "wide"), (NARROW, "narrow")):
        page.set_viewport_size(size)
        picture(page, f"serve-gone-{tag}")
