"""A client of the service: in this process, or on one Ray a test session."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from glong.protocols import Generator
from serve.api import make_api
from serve.auth import KeyEntry, Keys, key_hash
from tests.serve.browsing import CHROMIUM, KEY, NARROW, WIDE, Open, Page, check_address, is_bug
from tests.serve.local_services import LocalServices

KEYS = Keys((KeyEntry("acme", key_hash("key-a")), KeyEntry("other", key_hash("key-b"))))
SESSION = {
    "session_id": "s1",
    "started_at": "2026-01-05T10:00:00Z",
    "turns": [
        {"speaker": "Mira", "text": "I bought a grey greyhound called Pixel last week."},
        {"speaker": "Tom", "text": "We visited Leipzig and the old station together."},
        {"speaker": "Mira", "text": "My sister plans a trip to Norway in spring."},
        {"speaker": "Tom", "text": "I like grilled aubergine with a lot of garlic."},
    ],
}


class Client:
    """Requests one after another, or several at once, to an application in this process."""

    def __init__(self, services: LocalServices, keys: Keys, peer: str = "127.0.0.1") -> None:
        self.services = services
        self.requests: list[tuple[str, str, int, float]] = []
        self._app = make_api(services, keys, lambda *seen: self.requests.append(seen))
        self._peer = peer
        self.key = "key-a" if keys.entries else ""

    def __call__(self, method: str, path: str, **request: Any) -> httpx.Response:
        (response,) = self.at_once([(method, path, request)])
        return response

    def at_once(self, requests: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        return asyncio.run(self._all(requests))

    async def _all(self, requests: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        transport = httpx.ASGITransport(self._app, client=(self._peer, 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await asyncio.gather(*(self._one(client, *request) for request in requests))

    async def _one(
        self, client: httpx.AsyncClient, method: str, path: str, request: dict[str, Any]
    ) -> httpx.Response:
        key = request.pop("key", self.key)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        headers |= request.pop("headers", {})
        return await client.request(method, path, headers=headers, **request)


MakeClient = Callable[..., Client]


@pytest.fixture
def make_client(tmp_path: Path) -> MakeClient:
    """``make_client(keys=..., generator=..., peer=...)`` on a store of the test's own."""

    def make(
        keys: Keys = KEYS, generator: Generator | None = None, peer: str = "127.0.0.1"
    ) -> Client:
        return Client(LocalServices(str(tmp_path / "store"), generator), keys, peer)

    return make


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    """With keys of two tenants, asking as ``acme``."""
    return make_client()


@pytest.fixture
def filled(client: Client) -> Client:
    """The same with one session of dialogue ``d``."""
    assert client("POST", "/v1/dialogues/d/sessions", json=SESSION).status_code == 200
    return client


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Dialogue ``d`` for tests that change nothing: making a store takes longer than they do."""
    client = Client(LocalServices(str(tmp_path_factory.mktemp("shared") / "store")), KEYS)
    assert client("POST", "/v1/dialogues/d/sessions", json=SESSION).status_code == 200
    return client


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One a module: while it runs, nothing else in its thread can run an event loop."""
    playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not there")
    with playwright_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any, url: str) -> Iterator[Open]:
    """``open_page(hash, size=..., key=..., scheme=...)``; a script error fails the test."""
    contexts: list[Any] = []
    problems: list[str] = []

    def opened(
        where: str = "", *, size: dict[str, int] = WIDE, key: str = KEY, scheme: str = "light"
    ) -> Page:
        context = browser.new_context(
            viewport=size, color_scheme=scheme, reduced_motion="reduce", has_touch=size is NARROW
        )
        contexts.append(context)
        context.set_default_timeout(15_000)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if is_bug(said) else None)
        page.on("request", lambda asked: check_address(asked.url, url, problems))
        page.goto(f"{url}/{where}")
        if key:
            page.evaluate("key => sessionStorage.setItem('glong-key', key)", key)
            page.reload()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems


@pytest.fixture(scope="session")
def serve_cluster() -> Iterator[None]:
    """A Ray of the tests' own, with Serve on a free port of loopback."""
    import ray
    from ray import serve

    folder = tempfile.mkdtemp(prefix="glong-serve-", dir="/tmp")  # short: sockets have long names
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_AUTH_MODE", "disabled")
            patch.delenv("RAY_ADDRESS", raising=False)
            _start_ray(folder)
            yield
            serve.shutdown()
            ray.shutdown()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start_ray(folder: str, attempts: int = 4) -> None:
    """Ray gives a node 30 s to start, which a busy machine can miss: then once more."""
    import ray

    for left in reversed(range(attempts)):
        try:
            ray.init(
                address="local",
                num_cpus=2,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=150 * 2**20,
                _temp_dir=folder,
                runtime_env={"env_vars": {"PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"}},
            )
        except Exception as error:
            if not left or "timed out during startup" not in str(error):
                raise
            ray.shutdown()
        else:
            return
