"""What is counted, and the Prometheus text of all replicas of all nodes.

Ray's agent of each node gathers what its replicas count; here the agents' pages are put together.
Ray reports every few seconds, so a page is that much behind.
"""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence

import ray
from ray.util.metrics import Counter, Gauge, Histogram

__all__ = ["CacheMeters", "RequestMeters", "WriteMeters", "merged", "scrape"]

_SECONDS = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0]
_TIMEOUT_S = 2.0
_OURS, _SERVES = "ray_glong_", "ray_serve_"
_LEFT_OUT = "ray_serve_registered_multiplexed_model_id"
"""A line for each bucket of memories that a replica was ever asked for."""


class RequestMeters:
    """Of a replica of the API."""

    def __init__(self) -> None:
        keys = ("route", "method", "status")
        self._requests = Counter("glong_requests", "HTTP requests answered", tag_keys=keys)
        self._seconds = Histogram(
            "glong_request_seconds",
            "From request to the end of its answer",
            boundaries=_SECONDS,
            tag_keys=("route",),
        )

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request."""
        tags = {"route": route, "method": method, "status": str(status)}
        self._requests.inc(1, tags)
        self._seconds.observe(max(seconds, 1e-9), {"route": route})


class CacheMeters:
    """Of a replica that holds graphs; hits, misses and refreshes only grow."""

    def __init__(self) -> None:
        self._lookups = Counter(
            "glong_graph_lookups", "Questions to the cache", tag_keys=("result",)
        )
        self._loads = Histogram("glong_graph_load_seconds", "Loads of a graph", boundaries=_SECONDS)
        self._bytes = Gauge("glong_graph_cache_bytes", "What the cached graphs weigh")
        self._graphs = Gauge("glong_graph_cache_graphs", "Graphs in the cache")
        self._accesses = Counter("glong_accesses_written", "Accesses written to the store")
        self._seen: dict[str, int] = {}

    def report(self, counts: dict[str, int], n_graphs: int, nbytes: int) -> None:
        """Take over the cache's own counts."""
        for result, total in counts.items():
            if new := total - self._seen.get(result, 0):
                self._lookups.inc(new, {"result": result})
        self._seen = dict(counts)
        self._bytes.set(nbytes)
        self._graphs.set(n_graphs)

    def loaded(self, seconds: float) -> None:
        """One graph was read from the store."""
        if seconds > 0:
            self._loads.observe(seconds)

    def accesses_written(self, n: int) -> None:
        """A flush."""
        if n:
            self._accesses.inc(n)


class WriteMeters:
    """Of the replica that writes."""

    def __init__(self) -> None:
        self._sessions = Counter("glong_sessions_ingested", "Posted sessions", tag_keys=("status",))
        self._seconds = Histogram(
            "glong_ingest_seconds", "From post to commit", boundaries=_SECONDS
        )
        self._triplets = Counter("glong_triplets_extracted", "Triplets of built sessions")
        self._failures = Counter("glong_extraction_failures", "Failures stored with sessions")

    def ingested(self, status: str, seconds: float, n_triplets: int, n_failures: int) -> None:
        """One posted session."""
        self._sessions.inc(1, {"status": status})
        self._seconds.observe(max(seconds, 1e-9))
        if status == "built" and n_triplets:
            self._triplets.inc(n_triplets)
        if status in ("built", "failed") and n_failures:
            self._failures.inc(n_failures)


async def scrape() -> str:
    """The page of all nodes; of a node that does not answer there is nothing in it."""
    urls = [
        f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"] and node["MetricsExportPort"]
    ]
    return merged(await asyncio.gather(*(asyncio.to_thread(_read, url) for url in urls)))


def _read(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as page:
            text: str = page.read().decode("utf-8", "replace")
            return text
    except (urllib.error.URLError, TimeoutError, OSError):
        return ""


def merged(pages: Sequence[str]) -> str:
    """Pages of nodes as one: our own metrics and Ray Serve's, each headed once."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for page in pages:
        family = ""
        for line in page.splitlines():
            if line.startswith("# "):
                family = line.split()[2]
                heads.setdefault(family, [])
                if line not in heads[family]:
                    heads[family].append(line)
            elif line.startswith((_OURS, _SERVES)) and family != _LEFT_OUT:
                samples.setdefault(family, []).append(line)
    lines = (
        line for family in samples for line in _once_each(heads.get(family, []), samples[family])
    )
    return "\n".join(line.replace(_OURS, "glong_") for line in lines) + "\n"


def _once_each(heads: Sequence[str], samples: Sequence[str]) -> Iterable[str]:
    kinds = {head.split()[1]: head for head in heads}
    return [*kinds.values(), *samples]
