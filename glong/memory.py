"""Memory: the library in one process, without Ray and without HTTP.

The shell around the pure core: it holds the models and the store, reads the clock where the caller
gives no time, and makes the random id of each write. ``with Memory.open(...)`` is the whole life
cycle.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from glong import ids
from glong._version import __version__
from glong.build import PENDING, Models, build_rows
from glong.config import PROFILES, ModelsConfig, load_models_config
from glong.errors import ConfigError, SourceError
from glong.graph import MemoryGraph
from glong.models.load import load_models
from glong.planning import KNOWN_COLUMNS, Planner, Rebuild, known_sessions
from glong.prompts import EXTRACTION_PROMPT_VERSION
from glong.retrieval import MemoryIndex, Query, Scored, query_text, retrieve
from glong.sources import native
from glong.sources.records import Found
from glong.store import Store, StoreMeta, Wave
from glong.tables import failure_struct, record_failures_to
from glong.types import Failure, Hit, Place, Retrieval, Session

__all__ = ["Added", "Memory", "hit_of", "store_meta"]


@dataclass(frozen=True, slots=True)
class Added:
    """What was done, in numbers of sessions, turns, triplets, edges and failures.

    ``n_pending`` sessions met a cause that may pass; the next call tries them again.
    """

    n_built: int = 0
    n_skipped: int = 0
    n_failed: int = 0
    n_pending: int = 0
    n_forgotten: int = 0
    n_turns: int = 0
    n_triplets: int = 0
    n_edges: int = 0
    n_failures: int = 0


def store_meta(models: Models) -> StoreMeta:
    """What a store remembers of the models that fill it."""
    return StoreMeta(
        encoder=models.encoder.fingerprint,
        dimension=models.encoder.dimension,
        prompt_version=EXTRACTION_PROMPT_VERSION,
        glong_version=__version__,
    )


class Memory:
    """Memories of one tenant in one store, with the models loaded.

    Not safe for several threads at once; several processes may share a store.
    """

    def __init__(self, store: Store, tenant: str, models: Models) -> None:
        self.store = store
        self.tenant = tenant
        self.models = models

    @classmethod
    def open(
        cls,
        uri: str,
        *,
        tenant: str = "default",
        models: str | ModelsConfig = "small",
        create: bool = True,
    ) -> "Memory":
        """Load the models and open the store, which is made if there is none.

        Args:
            uri: folder or object-store URI of the store.
            tenant: whose memories; tenants never see each other.
            models: a preset (``small``, ``paper``, ``fake``), a TOML file, or settings.
            create: make a store where there is none.

        Raises:
            StoreNotFoundError: there is no store, and none was to be made.
            ConfigError: the models cannot be loaded here.
            SchemaError: the store was made with another encoder or schema.
        """
        config = models if isinstance(models, ModelsConfig) else load_models_config(models)
        if not create:
            Store.open(uri)  # before seconds of loading
        loaded = load_models(config)
        return cls(Store.create_or_open(uri, store_meta(loaded)), tenant, loaded)

    def __enter__(self) -> Self:
        """Nothing to do: the store is open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to flush: every call commits what it did."""

    def add_session(
        self,
        dialogue_id: str,
        turns: Sequence[Mapping[str, Any]],
        *,
        session_id: str,
        started_at: str | datetime | None = None,
    ) -> Added:
        """Extract, weigh, embed and commit one session; nothing to do if it is already there.

        Args:
            dialogue_id: the memory it belongs to.
            turns: ``{"speaker", "text", "time"?}`` in order.
            session_id: unique within the dialogue; other content under one id replaces the old.
            started_at: RFC 3339 text or an aware ``datetime``; if not given, what is stored for the
                session, else now.

        Raises:
            SourceError: a turn or a time is not of that form.
            ModelError: a model as a whole is unusable.
        """
        started = started_at or self._start_of(str(dialogue_id), str(session_id))
        session = {
            "session_id": session_id,
            "started_at": started.isoformat() if isinstance(started, datetime) else started,
            "turns": list(turns),
        }
        record = {"dialogue_id": dialogue_id, "sessions": [session]}
        found = []
        for item in native.sessions(record, Place()):
            if isinstance(item, Failure):
                raise SourceError(item.message)
            if isinstance(item, Found):
                found.append(item.session)
        return self.build(found)

    def _start_of(self, dialogue_id: str, session_id: str) -> datetime:
        """The stored start, so that adding a session again without a time does nothing; or now."""
        rows = self.store.manifest(self.tenant, columns=["session_key", "started_at"])
        key = ids.session_key(self.tenant, dialogue_id, session_id)
        known = rows.filter(pc.equal(rows.column("session_key"), key)).column("started_at")
        return next(iter(known.to_pylist()), None) or datetime.now(UTC)

    def build(
        self,
        items: Iterable[Session | Failure],
        *,
        wave_size: int = 16,
        rebuild: Rebuild = Rebuild.NONE,
    ) -> Added:
        """Build what is pending of a stream of sessions, a wave at a time; store its failures.

        Args:
            items: from a :class:`glong.sources.Reader`, or any sessions.
            wave_size: sessions that are committed together, and the most a crash costs.
            rebuild: which of the sessions already built are built again.
        """
        planner = self._planner(rebuild)
        counts: Counter[str] = Counter()
        for wave in _waves(items, planner, wave_size):
            counts += self._commit(wave, replace_all=rebuild is Rebuild.ALL)
        counts["n_skipped"] = planner.counts["skipped"] + planner.counts["duplicates"]
        counts["n_forgotten"] = planner.counts["forgotten"]
        return Added(**counts)

    def _planner(self, rebuild: Rebuild) -> Planner:
        manifest = self.store.manifest(self.tenant, columns=list(KNOWN_COLUMNS))
        known = known_sessions(manifest, self.models.fingerprints)
        return Planner(self.tenant, known, self.store.forgotten_keys(self.tenant), rebuild)

    def _commit(self, items: Sequence[Session | Failure], *, replace_all: bool) -> Counter[str]:
        batch_id = uuid.uuid4().hex
        failures = [item for item in items if isinstance(item, Failure)]
        built = build_rows(
            self.tenant, [item for item in items if isinstance(item, Session)], self.models
        )
        record_failures = record_failures_to(
            [failure_struct(f, ids.failure_id("", f)) for f in failures], self.tenant, batch_id
        )
        self.store.append_wave(
            Wave(batch_id, datetime.now(UTC), built, record_failures, replace=replace_all)
        )
        self.store.routine()
        kept = built.filter(pc.not_equal(built.column("status"), PENDING))
        counts = Counter({f"n_{status}": n for status, n in _by_status(built).items()})
        for name in ("n_turns", "n_triplets", "n_edges"):
            counts[name] = int(pc.sum(kept.column(name)).as_py() or 0)
        counts["n_failures"] = int(pc.sum(built.column("n_failures")).as_py() or 0) + len(failures)
        return counts

    def graph(self, dialogue_id: str, *, version: int | None = None) -> MemoryGraph:
        """The graph of one dialogue.

        Raises:
            NotFoundError: the tenant has no such dialogue.
        """
        return self.store.read_graph(self.tenant, dialogue_id, version)

    def retrieve(
        self,
        dialogue_id: str,
        query: str,
        *,
        recent: Sequence[str] = (),
        k: int = 3,
        now: datetime | None = None,
        as_of: datetime | None = None,
        profile: str = "hybrid",
    ) -> Retrieval:
        """The k memories that answer the query best, and a note in the store that they were used.

        Args:
            dialogue_id: the memory to ask.
            query: a question or message.
            recent: the last turns before it, oldest first; what its pronouns stand for.
            k: hits at most.
            now: time of the query, aware; the clock's if not given.
            as_of: answer as of this time, aware; with all that is known if not given.
            profile: preset of the retrieval settings.

        Raises:
            NotFoundError: the tenant has no such dialogue.
            ConfigError: no such profile, or a time without a zone.
        """
        if profile not in PROFILES:
            raise ConfigError(f"profile is {profile!r}; allowed: {', '.join(PROFILES)}.")
        for name, time in (("now", now), ("as_of", as_of)):
            if time is not None and time.tzinfo is None:
                raise ConfigError(f"{name} is {time}, without a zone; give an aware time (UTC).")
        version = self.store.version
        index = MemoryIndex.of(self.graph(dialogue_id, version=version))
        at = now or datetime.now(UTC)
        asked = Query(
            text=query,
            vector=self.models.encoder.encode([query_text(query, tuple(recent))])[0],
            now_s=at.timestamp(),
            recent=tuple(recent),
            as_of_s=as_of.timestamp() if as_of else None,
        )
        scored = retrieve(index, asked, PROFILES[profile].at_k(k))
        hits = tuple(hit_of(index.graph, item) for item in scored)
        used = dict.fromkeys(edge.edge_id for hit in hits for edge in hit.edges)
        self.store.touch(self.tenant, dialogue_id, list(used), at)
        return Retrieval(hits, version)


def _waves(
    items: Iterable[Session | Failure], planner: Planner, wave_size: int
) -> Iterator[list[Session | Failure]]:
    """Failures and wanted sessions, ``wave_size`` at a time."""
    screened = (planner.screen(item) for item in items)
    wanted = (item for item in screened if item is not None)
    while wave := list(islice(wanted, wave_size)):
        yield wave


def _by_status(built: pa.Table) -> dict[str, int]:
    counts = pc.value_counts(built.column("status")).to_pylist()
    return {entry["values"]: entry["counts"] for entry in counts}


def hit_of(graph: MemoryGraph, scored: Scored) -> Hit:
    """A hit by number as a record."""
    edges = tuple(graph.edge(edge) for edge in scored.edges)
    session_id = graph.turn_session_ids[scored.turn]
    return Hit(graph.turn(scored.turn), session_id, edges, scored.score, dict(scored.parts))
