"""Requests of any endpoint over HTTP, and what has to hold for every answer."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx

__all__ = [
    "Operation",
    "Operations",
    "at_once",
    "done",
    "events_of",
    "filled",
    "operations_of",
    "refused",
]

Operation = tuple[str, str]
"""Method and path, with the names of its ids in braces."""
Operations = dict[Operation, dict[str, Any]]


def operations_of(document: dict[str, Any]) -> Operations:
    """Every endpoint of an OpenAPI document with an example of its body, empty if it has none."""
    found: Operations = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            name = content.get("application/json", {}).get("schema", {}).get("$ref", "")
            schema = document["components"]["schemas"].get(name.rpartition("/")[2], {})
            found[method.upper(), path] = schema.get("examples", [{}])[0]
    return found


def filled(path: str, **ids: str) -> str:
    """A path with ids in it; ``nobody``, and the turn 0, where none is given."""
    known = dict.fromkeys(("dialogue_id", "session_id", "edge_id", "entity"), "nobody")
    values = known | {"turn_index": "0"} | ids
    return path.format(**{name: quote(value, safe="") for name, value in values.items()})


def done(http: httpx.Client, method: str, path: str, **request: Any) -> Any:
    """What an endpoint answers, which has to be well."""
    response = http.request(method, path, **request)
    assert response.status_code == 200, (method, path, response.text)
    return response.json()


def refused(response: httpx.Response, *statuses: int) -> dict[str, str]:
    """The error of a response in our form."""
    assert response.status_code in statuses, (response.request.url, response.text)
    error: dict[str, str] = response.json()["error"]
    assert set(error) == {"type", "message", "hint", "request_id"}
    assert error["message"]
    assert error["hint"]
    return error


def at_once(work: Sequence[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(len(work)) as pool:
        return [task.result() for task in [pool.submit(one) for one in work]]


def events_of(response: httpx.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in response.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)
