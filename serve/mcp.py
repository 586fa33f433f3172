"""``python -m serve.mcp --url URL``: the tools of :mod:`glong.tools` over a running service.

For a client of the Model Context Protocol on another machine than the memories. The key is read
from an environment variable, so that it stands in no command line.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from glong.errors import ConfigError, GlongError
from glong.models.extras import extra
from glong.tools import Fact, Forgotten, Kept, Recalled, Said, said_document, tool_server

with extra("mcp"):
    import httpx2

__all__ = ["Remote", "ServiceError", "connected", "main"]

TIMEOUT_S = 130.0
"""Longer than the service's own limit of a write, so that its answer is the one that is told."""


class ServiceError(GlongError):
    """The service cannot be reached, or refused a request."""


class Remote:
    """The memories of a service, as :class:`glong.tools.Memories`.

    Args:
        client: has the service's URL and key.
    """

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def add_session(
        self,
        dialogue_id: str,
        turns: Sequence[Said],
        *,
        session_id: str,
        started_at: datetime | None,
    ) -> Kept:
        """Remember a session.

        Raises:
            ServiceError: the service refused.
        """
        body = {
            "session_id": session_id,
            "started_at": started_at.isoformat() if started_at else None,
            "turns": [said_document(turn) for turn in turns],
        }
        done = self._call("POST", _path(dialogue_id, "sessions"), json=body)
        if done["status"] == "unchanged":
            return Kept("unchanged", 0, 0)
        return Kept(done["status"], done["n_turns"], done["n_edges"])

    def retrieve(
        self, dialogue_id: str, query: str, *, recent: Sequence[str], k: int
    ) -> list[Recalled]:
        """What answers a query, best first.

        Raises:
            ServiceError: the service refused.
        """
        body = {"query": query, "recent": list(recent), "k": k}
        found = self._call("POST", _path(dialogue_id, "retrieve"), json=body)
        return [_recalled(hit) for hit in found["hits"]]

    def forget(
        self,
        dialogue_id: str,
        *,
        session_id: str | None,
        turn_index: int | None,
        edge_id: str | None,
        entity: str | None,
        turns: bool,
    ) -> Forgotten:
        """Forget a part of a memory, or all of it if no part is named.

        Raises:
            ServiceError: the service refused.
        """
        parts: list[str] = []
        for name, value in (("sessions", session_id), ("edges", edge_id), ("entities", entity)):
            parts += [name, value] if value is not None else []
        parts += ["turns", str(turn_index)] if turn_index is not None else []
        asked = {"turns": "true"} if turns else {}
        receipt = self._call("DELETE", _path(dialogue_id, *parts), params=asked)
        return Forgotten(receipt["scope"], receipt["rows"])

    def _call(self, method: str, path: str, **request: Any) -> Any:
        try:
            response = self._client.request(method, path, **request)
            answer = response.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise ServiceError(
                f"{self._client.base_url} does not answer as a glong service: {error}. Is it"
                " running, and is --url right?"
            ) from error
        if response.is_success:
            return answer
        raise _refusal(response.status_code, answer)


def _refusal(status: int, answer: Any) -> ServiceError:
    """The service's own words: what was wrong and what to do."""
    problem = answer.get("error", {}) if isinstance(answer, Mapping) else {}
    message = problem.get("message") or f"The service answered {status}."
    return ServiceError(f"{message} {problem.get('hint', '')}".strip())


def _path(dialogue_id: str, *parts: str) -> str:
    """A path of ids.

    Raises:
        ServiceError: an id would be read as another path: to forget the entity ``..`` would be to
            forget the memory.
    """
    for part in (dialogue_id, *parts):
        if part in (".", "..") or "/" in part or "\\" in part:
            raise ServiceError(f"The id {part!r} cannot stand in a URL; use `glong mcp` for it.")
    return "/".join(quote(part, safe="") for part in ("v1", "dialogues", dialogue_id, *parts))


def _recalled(hit: Mapping[str, Any]) -> Recalled:
    turn = hit["turn"]
    return Recalled(
        speaker=turn["speaker"],
        said=turn["text"],
        time=_time(turn["time"]),
        facts=[_fact(edge) for edge in hit["edges"]],
        session_id=turn["session_id"],
        turn_index=turn["index"],
        score=hit["score"],
    )


def _fact(edge: Mapping[str, Any]) -> Fact:
    held_until = _time(edge["valid_to"])
    return Fact(edge["id"], edge["subject"], edge["relation"], edge["object"], held_until)


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def connected(url: str, key: str) -> Remote:
    """The memories of the service at a URL, asked with a key, or with none if it is empty.

    Raises:
        ConfigError: the URL is none of HTTP.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--url is {url!r}; allowed: http://HOST:PORT or https://HOST.")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Remote(httpx2.Client(base_url=url, headers=headers, timeout=TIMEOUT_S))


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the tools until the client closes the input; returns the exit status."""
    p = argparse.ArgumentParser(prog="python -m serve.mcp", description=__doc__)
    p.add_argument("--url", required=True, metavar="URL", help="of the service, http://HOST:PORT")
    p.add_argument(
        "--key-env", default="GLONG_KEY", metavar="NAME",
        help="environment variable that has the key (default: GLONG_KEY; not set: no key)",
    )  # fmt: skip
    args = p.parse_args(argv)
    try:
        remote = connected(args.url, os.environ.get(args.key_env, ""))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    tool_server(remote).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
