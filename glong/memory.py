"""Memory: the library in one process, without Ray and without HTTP.

The shell around the pure core: it holds the models and the store, and reads the clock where the
caller gives no time. ``with Memory.open(...)`` is the whole life cycle.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from glong.adding import Added, add_sessions, given_sessions, store_meta
from glong.answer import respond
from glong.build import Models
from glong.config import PROFILES, ModelsConfig, ResponderSpec, load_models_config
from glong.errors import ConfigError, ConflictError, NotFoundError
from glong.graph import MemoryGraph
from glong.models.load import load_models, load_responder
from glong.planning import Rebuild
from glong.prompting import Layout, build_prompt
from glong.protocols import Generator
from glong.retrieval import MemoryIndex, Query, query_text, retrieve
from glong.retrieval.hits import hit_of
from glong.stating import corrected, edge_of, session_start, state
from glong.store import Store, Target, by_hand_id, is_by_hand
from glong.store.facts import Fact, Stated, fact_of
from glong.types import Edge, Failure, Receipt, Response, Retrieval, Session
from glong.validity import history, intervals

__all__ = ["Added", "Memory", "hit_of", "store_meta"]

NO_RESPONDER = ResponderSpec()


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
        if not started_at:
            with suppress(NotFoundError):
                started_at = self._start_of(str(dialogue_id), str(session_id))
        started = started_at or datetime.now(UTC)
        found = given_sessions(dialogue_id, session_id, started, turns)
        return self.build(found, restore_forgotten=restore_forgotten)

    def _start_of(self, dialogue_id: str, session_id: str) -> datetime | None:
        return session_start(self.store, self.tenant, dialogue_id, session_id)

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
        return add_sessions(
            self.store,
            self.tenant,
            self.models,
            items,
            wave_size=wave_size,
            rebuild=rebuild,
            restore=restore_forgotten,
        )

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
        _check_asked(profile, now, as_of)
        version = self.store.version
        index = MemoryIndex.of(self.graph(dialogue_id, version=version))
        at = now or datetime.now(UTC)
        asked = self._query(query, tuple(recent), at, as_of)
        scored = retrieve(index, asked, PROFILES[profile].at_k(k))
        hits = tuple(hit_of(index.graph, item, index.validity) for item in scored)
        if touch:
            used = dict.fromkeys(edge.edge_id for hit in hits for edge in hit.edges)
            self._touch(dialogue_id, list(used), at)
        return Retrieval(hits, version)

    def _query(
        self, text: str, recent: tuple[str, ...], now: datetime, as_of: datetime | None
    ) -> Query:
        return Query(
            text=text,
            vector=self.models.encoder.encode([query_text(text, recent)])[0],
            now_s=now.timestamp(),
            recent=recent,
            as_of_s=as_of.timestamp() if as_of else None,
        )

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
        start = None if session_id is None else self._start_of(dialogue_id, session_id)
        time = time or start or datetime.now(UTC)
        new = fact_of(subject, relation, object, time, stated_by)
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
        old = edge_of(self.graph(dialogue_id), dialogue_id, edge_id)
        new = corrected(old, changes, stated_by, datetime.now(UTC))
        if is_by_hand(old.session_id):
            return self._state(dialogue_id, old.session_id, new, instead_of=old.turn_index)
        new_id = self._state(dialogue_id, by_hand_id(old.session_id), new)
        self.forget(dialogue_id, edge_id=edge_id)
        return new_id

    def _state(
        self, dialogue_id: str, session_id: str, new: Fact, *, instead_of: int | None = None
    ) -> str:
        session = Stated(dialogue_id, session_id)
        encoder = self.models.encoder
        return state(self.store, self.tenant, encoder, session, new, instead_of=instead_of)

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


def _check_asked(profile: str, now: datetime | None, as_of: datetime | None) -> None:
    if profile not in PROFILES:
        raise ConfigError(f"profile is {profile!r}; allowed: {', '.join(PROFILES)}.")
    for name, time in (("now", now), ("as_of", as_of)):
        if time is not None and time.tzinfo is None:
            raise ConfigError(f"{name} is {time}, without a zone; give an aware time (UTC).")
