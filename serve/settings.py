"""How the service runs, from environment variables; read once, where the application is made."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from glong.config import load_models_config
from glong.config.loading import require
from glong.errors import ConfigError

__all__ = ["ServeSettings", "settings_from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Where the data is, and the bounds of a replica.

    Attributes:
        store: folder (absolute) or object-store URI.
        models: preset or path of a TOML file.
        keys_file: TOML file of hashed keys; empty for none, then only loopback peers are answered.
        max_graphs: graphs that a replica of ``Memories`` keeps.
        max_graph_mb: megabytes (2**20 bytes) of graphs that it keeps.
        timeout_s: of a read; a request that takes longer is answered 503.
        write_timeout_s: of a write.
        respond_timeout_s: of an answer of the language model, from its start to its end.
        merge_window_s: how long a posted session waits for others, to be committed with them.
        wave_sessions: sessions that are committed together at most.
        max_waiting: sessions that wait to be committed at most; above it posts are answered 429.
        flush_s: how often accesses are written, and caches rid of what was forgotten. At most
            10: Ray gives a replica that it stops 20 seconds, and all are written by then.
        upkeep_s: how often small files are merged and indexed though nobody posts.
    """

    store: str
    models: str = "small"
    keys_file: str = ""
    max_graphs: int = 1_000
    max_graph_mb: float = 512.0
    timeout_s: float = 10.0
    write_timeout_s: float = 120.0
    respond_timeout_s: float = 120.0
    merge_window_s: float = 0.05
    wave_sessions: int = 64
    max_waiting: int = 256
    flush_s: float = 2.0
    upkeep_s: float = 60.0

    def __post_init__(self) -> None:
        """Check every value, and that the models' configuration can be read."""
        require(bool(self.store), "GLONG_STORE", self.store, "a folder or an object-store URI")
        load_models_config(self.models)
        for name in ("max_graphs", "wave_sessions", "max_waiting"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        positive = ("max_graph_mb", "timeout_s", "write_timeout_s", "respond_timeout_s", "upkeep_s")
        for name in positive:
            require(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        require(0 < self.flush_s <= 10, "flush_s", self.flush_s, "above 0, at most 10 seconds")
        require(self.merge_window_s >= 0, "merge_window_s", self.merge_window_s, "0 or more")


_NUMBERS = {
    "GLONG_CACHE_GRAPHS": "max_graphs",
    "GLONG_CACHE_MB": "max_graph_mb",
    "GLONG_TIMEOUT_S": "timeout_s",
    "GLONG_WRITE_TIMEOUT_S": "write_timeout_s",
    "GLONG_RESPOND_TIMEOUT_S": "respond_timeout_s",
    "GLONG_MERGE_WINDOW_S": "merge_window_s",
    "GLONG_MAX_WAITING": "max_waiting",
    "GLONG_FLUSH_S": "flush_s",
    "GLONG_UPKEEP_S": "upkeep_s",
}
_WHOLE = ("max_graphs", "max_waiting")


def settings_from(environ: Mapping[str, str]) -> ServeSettings:
    """Settings from ``GLONG_STORE``, ``GLONG_MODELS``, ``GLONG_KEYS_FILE`` and the bounds.

    A relative store is taken from the present folder, since a replica has another one.

    Raises:
        ConfigError: ``GLONG_STORE`` is not set, or a value is not allowed.
    """
    store = environ.get("GLONG_STORE", "")
    if not store:
        raise ConfigError("GLONG_STORE is not set; give the folder or URI of the memory store.")
    models, keys_file = environ.get("GLONG_MODELS") or "small", environ.get("GLONG_KEYS_FILE", "")
    numbers = {
        field: _number(name, environ[name], whole=field in _WHOLE)
        for name, field in _NUMBERS.items()
        if environ.get(name)
    }
    return ServeSettings(
        store=store if "://" in store else os.path.abspath(os.path.expanduser(store)),
        models=os.path.abspath(models) if models.endswith(".toml") else models,
        keys_file=os.path.abspath(keys_file) if keys_file else "",
        **numbers,  # type: ignore[arg-type]
    )


def _number(name: str, text: str, *, whole: bool) -> float:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        kind = "a whole number" if whole else "a number"
        raise ConfigError(f"{name} is {text!r}; allowed: {kind}.")
    return value
