"""Memory: the library in one process, without Ray and without HTTP.

The shell around the pure core: it holds the models and the store, reads the clock where the caller
gives no time, and makes the random id of each write. ``with Memory.open(...)`` is the whole life
cycle.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from glong import ids
from glong._version import __version__
from glong.answer import respond
from glong.build import PENDING, Models, build_rows, stated_rows
from glong.config import PROFILES, ModelsConfig, ResponderSpec, load_models_config
from glong.errors import ConfigError, ConflictError, NotFoundError, SourceError
from glong.graph import MemoryGraph
from glong.models.load import load_models, load_responder
from glong.planning import KNOWN_COLUMNS, Planner, Rebuild, known_sessions
from glong.prompting import Layout, build_prompt
from glong.prompts import EXTRACTION_PROMPT_VERSION
from glong.protocols import Generator
from glong.retrieval import MemoryIndex, Query, Scored, query_text, retrieve
from glong.sources import native
from glong.sources.records import Found
from glong.store import Store, StoreMeta, Target, Wave, by_hand_id, is_by_hand, leave_out
from glong.store.facts import Fact, Stated, edit_stated, fact_of, with_fact, without_fact
from glong.tables import failure_struct, record_failures_to
from glong.types import Edge, Failure, Hit, Place, Receipt, Response, Retrieval, Session
from glong.validity import Validity, fact, history, intervals

__all__ = ["Added", "Memory", "hit_of", "store_meta"]

NO_RESPONDER = ResponderSpec()


@dataclass(frozen=True, slots=True)
class Added:
    """What was done, in numbers of sessions, turns, triplets, edges and failures.

    ``n_pending`` sessions met a cause that may pass; the next call tries them again.
    ``n_forgotten`` sessions, and ``n_forgotten_turns`` and ``n_forgotten_edges`` of sessions that
    were built, had been forgotten and were left out.
    """

    n_built: int = 0
    n_skipped: int = 0
    n_failed: int = 0
    n_pending: int = 0
    n_forgotten: int = 0
    n_forgotten_turns: int = 0
    n_forgotten_edges: int = 0
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

    def __init__(
        self,
        store: Store,
        tenant: str,
        models: Models,
        responder: ResponderSpec = NO_RESPONDER,
    ) -> None:
        self.store = store
        self.tenant = tenant
        self.models = models
        self.responder = responder
        self._generator: Generator | None = None
        self._untouched: list[tuple[str, list[str], datetime]] = []

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
        store = Store.create_or_open(uri, store_meta(loaded))
        return cls(store, tenant, loaded, config.responder)

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
        restore_forgotten: bool = False,
    ) -> Added:
        """Extract, weigh, embed and commit one session; nothing to do if it is already there.

        Args:
            dialogue_id: the memory it belongs to.
            turns: ``{"speaker", "text", "time"?}`` in order.
            session_id: unique within the dialogue; other content under one id replaces the old.
            started_at: RFC 3339 text or an aware ``datetime``; if not given, what is stored for the
                session, else now.
            restore_forgotten: add it also where it, its dialogue or parts of it were forgotten.

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
        if is_by_hand(str(session_id)):
            raise SourceError(
                f"session_id is {session_id!r}, which is reserved for facts stated by hand; give"
                " the session another id."
            )
        return self.build(found, restore_forgotten=restore_forgotten)

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
        restore_forgotten: bool = False,
    ) -> Added:
        """Build what is pending of a stream of sessions, a wave at a time; store its failures.

        Args:
            items: from a :class:`glong.sources.Reader`, or any sessions.
            wave_size: sessions that are committed together, and the most a crash costs.
            rebuild: which of the sessions already built are built again.
            restore_forgotten: build what was forgotten too; for these sessions it is so no more.
        """
        planner = self._planner(rebuild, restore_forgotten)
        counts: Counter[str] = Counter()
        for wave in _waves(items, planner, wave_size):
            counts += self._commit(
                wave, replace_all=rebuild is Rebuild.ALL, restore=restore_forgotten
            )
        counts["n_skipped"] = planner.counts["skipped"] + planner.counts["duplicates"]
        counts["n_forgotten"] += planner.counts["forgotten"]
        counts["n_forgotten_turns"] += planner.counts["forgotten_turns"]
        return Added(**counts)

    def _planner(self, rebuild: Rebuild, restore: bool) -> Planner:
        manifest = self.store.manifest(self.tenant, columns=list(KNOWN_COLUMNS))
        known = known_sessions(manifest, self.models.fingerprints)
        return Planner(self.tenant, known, self.store.forgotten(self.tenant), rebuild, restore)

    def _commit(
        self, items: Sequence[Session | Failure], *, replace_all: bool, restore: bool
    ) -> Counter[str]:
        batch_id = uuid.uuid4().hex
        failures = [item for item in items if isinstance(item, Failure)]
        built = build_rows(
            self.tenant, [item for item in items if isinstance(item, Session)], self.models
        )
        record_failures = record_failures_to(
            [failure_struct(f, ids.failure_id("", f)) for f in failures], self.tenant, batch_id
        )
        now, replace = datetime.now(UTC), replace_all or restore
        self.store.append_wave(Wave(batch_id, now, built, record_failures, replace, restore))
        self.store.routine()
        left = leave_out(built, self.store.forgotten(self.tenant))
        built = left.built
        kept = built.filter(pc.not_equal(built.column("status"), PENDING))
        counts = Counter({f"n_{status}": n for status, n in _by_status(built).items()})
        for name in ("n_turns", "n_triplets", "n_edges"):
            counts[name] = int(pc.sum(kept.column(name)).as_py() or 0)
        counts["n_failures"] = int(pc.sum(built.column("n_failures")).as_py() or 0) + len(failures)
        counts["n_forgotten"] = len(left.gone)
        for table in ("turns", "edges"):
            counts[f"n_forgotten_{table}"] = left.rows[table]
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
        touch: bool = True,
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
            touch: note in the store that the hits were used, so that they count as recent.

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
        hits = tuple(hit_of(index.graph, item, index.validity) for item in scored)
        if touch:
            used = dict.fromkeys(edge.edge_id for hit in hits for edge in hit.edges)
            self._touch(dialogue_id, list(used), at)
        return Retrieval(hits, version)

    def respond(
        self,
        dialogue_id: str,
        message: str,
        *,
        recent: Sequence[str] = (),
        k: int = 3,
        now: datetime | None = None,
        profile: str = "hybrid",
        layout: Layout | None = None,
    ) -> Response:
        """Answer a message with what is remembered: one retrieval, one call of the responder.

        Args:
            dialogue_id: the memory to ask.
            message: what the user says now.
            recent: the last turns before it as they should be read, oldest first.
            k: memories in the prompt at most.
            now: time of the message, aware; the clock's if not given.
            profile: preset of the retrieval; the paper's has no ages in the prompt.
            layout: names of agent and user, and how tokens are counted; the usual ones if not
                given.

        Raises:
            ConfigError: no responder is configured, no such profile, or a time without a zone.
            NotFoundError: the tenant has no such dialogue.
            ModelError: the language model failed.
        """
        if self._generator is None:
            self._generator = load_responder(self.responder)
        at = now or datetime.now(UTC)
        found = self.retrieve(dialogue_id, message, recent=recent, k=k, now=at, profile=profile)
        shown = layout or Layout(ages=profile != "paper")
        prompt = build_prompt(message, found.hits, recent, now=at, layout=shown)
        return respond(prompt, found, self._generator, max_tokens=self.responder.max_tokens)

    def _touch(self, dialogue_id: str, edge_ids: list[str], at: datetime) -> None:
        """Note what was used; what a purge keeps from being written goes with the next call."""
        self._untouched.append((dialogue_id, edge_ids, at))
        while self._untouched:
            try:
                self.store.touch(self.tenant, *self._untouched[0])
            except ConflictError:
                return
            del self._untouched[0]

    def history(
        self, dialogue_id: str, entity: str, relation: str | None = None
    ) -> tuple[Edge, ...]:
        """What was ever said of an entity, in order of time, with what was closed when.

        Args:
            dialogue_id: the memory to ask.
            entity: a name, an alias or an id.
            relation: only facts of this relation or its denial; all if not given.

        Raises:
            NotFoundError: the tenant has no such dialogue, or the dialogue no such entity.
        """
        graph = self.graph(dialogue_id)
        return history(graph, intervals(graph), entity, relation)

    def forget(
        self,
        dialogue_id: str,
        *,
        session_id: str | None = None,
        turn_index: int | None = None,
        edge_id: str | None = None,
        entity: str | None = None,
        turns: bool = False,
    ) -> Receipt:
        """Forget a dialogue, or one session, turn, edge or entity of it; it stays forgotten.

        Later builds leave it out too. Until :meth:`glong.store.Store.purge` old versions of the
        store still hold it on the disk. A turn takes its edges with it, a session the facts by hand
        about it. An entity takes all its edges and names; turns that name it stay, since they may
        say other things: ``turns=True`` removes these as well (see below), which is what removing a
        person needs.

        Args:
            dialogue_id: the memory; all of it if nothing else is given.
            session_id: one of its sessions.
            turn_index: with ``session_id``: one turn, by its index from 0. A turn that says the
                same by the same speaker in that session goes with it.
            edge_id: one edge; the same triplet elsewhere in its session goes with it.
            entity: an entity, by id, name or alias.
            turns: with ``entity``: also every turn that it speaks or that has its name as whole
                words, the edges of these turns, and edges whose names contain it.

        Raises:
            NotFoundError: the tenant has no such thing.
            ConfigError: the arguments do not go together.
            ConflictError: a purge holds the store; try again when it has ended.
        """
        target = Target(dialogue_id, session_id, turn_index, edge_id, entity, turns)
        self._untouched = [used for used in self._untouched if used[0] != dialogue_id]
        return self.store.forget(self.tenant, target, datetime.now(UTC))

    def add_fact(
        self,
        dialogue_id: str,
        subject: str,
        relation: str,
        object: str,
        *,
        time: datetime | None = None,
        session_id: str | None = None,
        stated_by: str = "by hand",
    ) -> str:
        """State a fact by hand; it has the weight 1 and no rebuild touches it.

        The same fact for the same time twice is one.

        Args:
            dialogue_id: the memory; made if there is none.
            subject: display name.
            relation: words; stored as snake_case.
            object: display name.
            time: since when it holds, aware; else the start of the session, else now.
            session_id: the session it is about; forgetting that forgets the fact.
            stated_by: who states it; the speaker of the turn that stands for it.

        Returns:
            Its edge id.

        Raises:
            ConfigError: a part is empty, or the time has no zone.
            NotFoundError: there is no such session.
        """
        if session_id is not None and time is None:
            time = self._known_start(dialogue_id, session_id)
        new = fact_of(subject, relation, object, time or datetime.now(UTC), stated_by)
        return self._state(dialogue_id, by_hand_id(session_id), new)

    def correct(
        self,
        dialogue_id: str,
        edge_id: str,
        *,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,
        stated_by: str = "by hand",
    ) -> str:
        """Put a fact stated by hand in the place of an edge, for the same time.

        The edge stays away when its session is built again. Its source turn stays.

        Returns:
            The edge id of the corrected fact.

        Raises:
            ConfigError: nothing is corrected, or a part is empty.
            NotFoundError: there is no such edge.
        """
        given = {"subject": subject, "relation": relation, "object": object}
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            raise ConfigError("Nothing to correct; give subject, relation or object.")
        graph = self.graph(dialogue_id)
        if edge_id not in graph.edge_ids:
            raise NotFoundError(f"Dialogue {dialogue_id!r} has no edge {edge_id!r}; check the id.")
        old = graph.edge(graph.edge_ids.index(edge_id))
        said = {"subject": old.subject, "relation": old.relation, "object": old.object} | changes
        time = old.created_at or datetime.now(UTC)
        new = fact_of(said["subject"], said["relation"], said["object"], time, stated_by)
        if is_by_hand(old.session_id):
            return self._state(dialogue_id, old.session_id, new, instead_of=old.turn_index)
        corrected = self._state(dialogue_id, by_hand_id(old.session_id), new)
        self.forget(dialogue_id, edge_id=edge_id)
        return corrected

    def _state(
        self, dialogue_id: str, session_id: str, new: Fact, *, instead_of: int | None = None
    ) -> str:
        """Write the facts of a reserved session, a new one among them; returns its edge id."""
        index = -1

        def change(stated: Stated) -> Stated:
            nonlocal index
            kept = stated if instead_of is None else without_fact(stated, instead_of)
            changed, index = with_fact(kept, new)
            return changed

        def rows(stated: Stated) -> pa.Table:
            return stated_rows(
                self.tenant, stated.session(), stated.triplets(), self.models.encoder
            )

        stated = edit_stated(self.store, self.tenant, Stated(dialogue_id, session_id), change, rows)
        return stated.edge_id(self.tenant, index)

    def _known_start(self, dialogue_id: str, session_id: str) -> datetime | None:
        rows = self.store.sessions_of(self.tenant, dialogue_id)
        rows = rows.filter(pc.equal(rows.column("session_id"), session_id))
        if rows.num_rows == 0:
            raise NotFoundError(f"Dialogue {dialogue_id!r} has no session {session_id!r}.")
        start: datetime | None = rows.column("started_at")[0].as_py()
        return start

    def export(self, dialogue_id: str, out: str | Path | None = None) -> dict[str, Any]:
        """All that is stored of one memory as a JSON document, without vectors.

        Args:
            dialogue_id: the memory.
            out: also write it to this file, which is replaced.

        Returns:
            ``dialogue_id`` and lists ``sessions``, ``turns``, ``entities``, ``edges``,
            ``failures``.

        Raises:
            NotFoundError: the tenant has no such dialogue.
            OSError: the file cannot be written.
        """
        document = self.store.export_dialogue(self.tenant, dialogue_id)
        if out is not None:
            text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
            Path(out).write_text(text, encoding="utf-8")
        return document


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


def hit_of(graph: MemoryGraph, scored: Scored, validity: Validity) -> Hit:
    """A hit by number as a record."""
    edges = tuple(fact(graph, validity, edge) for edge in scored.edges)
    session_id = graph.turn_session_ids[scored.turn]
    return Hit(graph.turn(scored.turn), session_id, edges, scored.score, dict(scored.parts))
