"""The whole service on a real, local Ray Serve, as ``serve run serve.app:app`` starts it."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from serve.auth import key_hash

__all__ = ["free_port", "keys_file", "running"]

_KEYS = (("acme", "key-a"), ("other", "key-b"))


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@cache
def _serve_port() -> int:
    """One for the whole test session: Serve keeps the port that it began with."""
    return free_port()


def keys_file(folder: Path) -> str:
    """A keys file of the tenants ``acme`` (key ``key-a``) and ``other`` (``key-b``)."""
    path = folder / "keys.toml"
    entry = '[[keys]]\ntenant = "{}"\nsha256 = "{}"\n'
    path.write_text("".join(entry.format(tenant, key_hash(key)) for tenant, key in _KEYS))
    return str(path)


@contextmanager
def running(environ: Mapping[str, str]) -> Iterator[str]:
    """Where the application with these variables answers; needs the fixture ``serve_cluster``."""
    from ray import serve
    from ray.serve.config import HTTPOptions

    from serve.app import build_app
    from serve.settings import settings_from

    port = _serve_port()
    serve.start(http_options=HTTPOptions(host="127.0.0.1", port=port))
    serve.run(build_app(settings_from(environ)), name="glong")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        serve.delete("glong")
