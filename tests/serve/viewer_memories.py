"""Synthetic memories for the viewer's tests, and the service under uvicorn without Ray."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import uvicorn

from glong.ids import text_hash
from glong.types import Extraction, Session, Triplet
from serve.api import make_api
from serve.auth import Keys
from serve.writing import LiveWriter
from tests.serve.local_services import LocalServices

PEOPLE = ("Mira", "Tom", "Ines", "Jonas", "Leila")
RELATIONS = ("like", "has_pet", "visit", "plan", "buy", "work_with", "read", "cook")
NASTY = "<img src=x onerror=\"document.title='pwned'\">"


class SpokenFacts:
    """Reads turns of the form ``subject | relation | object``: the facts are what is said."""

    @property
    def fingerprint(self) -> str:
        return text_hash("extractor", "spoken")

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        return [Extraction(tuple(_facts(session)), n_windows=1) for session in sessions]


def _facts(session: Session) -> Iterator[Triplet]:
    for turn in session.turns:
        parts = turn.text.split(" | ")
        if len(parts) == 3:
            yield Triplet(parts[0], parts[1], parts[2], turn.index)


def services(uri: str) -> LocalServices:
    """On a store of its own, where the facts of a turn are those that it spells."""
    local = LocalServices(uri)
    local.models = replace(local.models, extractor=SpokenFacts())
    local.writer = LiveWriter(
        local.store, local.models, window_s=0.0, wave_sessions=32, max_waiting=64
    )
    return local


def small() -> list[dict[str, Any]]:
    """Three sessions; Mira moves, so that one fact is closed; markup is said."""
    said = [
        ["Mira | has_pet | Pixel the greyhound", "Mira | live_in | Bergen", "Hello there!"],
        ["Tom | like | grilled aubergine", "Mira | visit | Leipzig", "Tom | visit | Leipzig"],
        ["Mira | live_in | Oslo", f"Tom | like | {NASTY}", "Mira | plan | a trip to Norway"],
    ]
    return [
        session(f"meeting {n}", f"2026-0{n}-05T10:00:00Z", texts) for n, texts in enumerate(said, 1)
    ]


def large(n_facts: int = 520, n_sessions: int = 26) -> list[dict[str, Any]]:
    """Five people, two of them hubs, and some three hundred things."""
    each = n_facts // n_sessions
    sessions = []
    for s in range(n_sessions):
        texts = []
        for i in range(s * each, (s + 1) * each):
            person = PEOPLE[(0, 1, 0, 1, 2, 0, 3, 1, 4, 0)[i % 10]]
            thing = PEOPLE[i % 5] if i % 13 == 0 else f"{THINGS[i % len(THINGS)]} {i // 6 % 50}"
            texts.append(f"{person} | {RELATIONS[i * 3 % len(RELATIONS)]} | {thing}")
        month, day = divmod(s * 9, 28)
        sessions.append(
            session(f"talk {s + 1:02}", f"2026-{month + 1:02}-{day + 1:02}T18:30:00Z", texts)
        )
    return sessions


THINGS = ("garden", "old lighthouse", "novel about bees", "violin", "harbour market", "red bicycle")


def session(session_id: str, started_at: str, texts: list[str]) -> dict[str, Any]:
    turns = [{"speaker": PEOPLE[i % 2], "text": text} for i, text in enumerate(texts)]
    return {"session_id": session_id, "started_at": started_at, "turns": turns}


@contextmanager
def serving(local: LocalServices, keys: Keys) -> Iterator[str]:
    """The address where the service answers, on a free port of loopback."""
    api = make_api(local, keys, lambda *seen: None)
    server = uvicorn.Server(uvicorn.Config(api, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
