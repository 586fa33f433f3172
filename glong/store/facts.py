"""Facts that a person stated: a session of its own per dialogue, whose id is reserved.

No input names that id, so no rebuild touches it. Each fact is a turn that says it, by whoever
stated it, with one edge of weight 1. Facts about one session have a session of their own, which is
forgotten together with it.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from glong import ids
from glong.entities import normalise, normalise_relation
from glong.errors import ConfigError, ConflictError
from glong.store.forgetting import restore_sessions
from glong.store.forgotten import SessionMarks
from glong.store.layout import Layout
from glong.store.lease import writing
from glong.store.reading import Named, Scope, read_manifest, read_visible
from glong.store.store import Store
from glong.store.waves import Wave
from glong.tables import FAILURES
from glong.types import Session, Triplet, Turn
from glong.weighting import triplet_text

__all__ = [
    "Fact",
    "Stated",
    "edit_stated",
    "fact_of",
    "read_stated",
    "with_fact",
    "without_fact",
]

RETRIES = 10


@dataclass(frozen=True, slots=True)
class Fact:
    """One stated fact.

    Attributes:
        subject: display name.
        relation: snake_case.
        object: display name.
        time: when it came to hold, aware.
        stated_by: who says so.
    """

    subject: str
    relation: str
    object: str
    time: datetime
    stated_by: str

    @property
    def content(self) -> tuple[str, str, str]:
        """What decides identity."""
        return normalise(self.subject), self.relation, normalise(self.object)


@dataclass(frozen=True, slots=True)
class Stated:
    """The facts of one reserved session, by turn index, and the write that they are of.

    Attributes:
        dialogue_id: their dialogue.
        session_id: a reserved id.
        facts: turn index -> fact.
        batch_id: of the manifest row that was read; empty if there is none.
    """

    dialogue_id: str
    session_id: str
    facts: tuple[tuple[int, Fact], ...] = ()
    batch_id: str = ""

    def edge_id(self, tenant: str, index: int) -> str:
        """Id of the edge of the fact at a turn index."""
        key = ids.session_key(tenant, self.dialogue_id, self.session_id)
        return ids.edge_id(key, index, dict(self.facts)[index].content)

    def session(self) -> Session:
        """As a session with one turn a fact."""
        turns = tuple(
            Turn(index, fact.stated_by, triplet_text(_triplet(index, fact)), fact.time)
            for index, fact in self.facts
        )
        return Session(self.dialogue_id, self.session_id, None, turns)

    def triplets(self) -> tuple[Triplet, ...]:
        """One a turn."""
        return tuple(_triplet(index, fact) for index, fact in self.facts)


def _triplet(index: int, fact: Fact) -> Triplet:
    return Triplet(fact.subject, fact.relation, fact.object, index)


def fact_of(subject: str, relation: str, object_: str, time: datetime, stated_by: str) -> Fact:
    """A checked fact.

    Raises:
        ConfigError: a part has no letter or digit, or the time has no zone.
    """
    named = (("subject", subject), ("object", object_), ("stated_by", stated_by))
    for name, value in named:
        if not normalise(value):
            raise ConfigError(f"{name} is {value!r}; allowed: a text with a letter or digit.")
    if not normalise_relation(relation):
        raise ConfigError(f"relation is {relation!r}; allowed: words, such as 'has_pet'.")
    if time.tzinfo is None:
        raise ConfigError(f"time is {time}, without a zone; give an aware time (UTC).")
    names = (" ".join(value.split()) for value in (subject, object_))
    return Fact(next(names), normalise_relation(relation), next(names), time, stated_by.strip())


def with_fact(stated: Stated, fact: Fact) -> tuple[Stated, int]:
    """Add a fact; returns the turn index of it, or of the one that says the same for that time."""
    for index, present in stated.facts:
        if (present.content, present.time) == (fact.content, fact.time):
            return stated, index
    index = max((index for index, _ in stated.facts), default=-1) + 1
    return replace(stated, facts=(*stated.facts, (index, fact))), index


def without_fact(stated: Stated, index: int) -> Stated:
    """Take the fact at a turn index out."""
    return replace(stated, facts=tuple(entry for entry in stated.facts if entry[0] != index))


def read_stated(layout: Layout, tenant: str, dialogue_id: str, session_id: str) -> Stated:
    """The facts of one reserved session as they are stored; none if there is no such session."""
    key = ids.session_key(tenant, dialogue_id, session_id)
    scope = Scope(dialogue_keys=(ids.dialogue_key(tenant, dialogue_id),))
    manifest = read_manifest(layout, scope, columns=["session_key", "batch_id"])
    manifest = manifest.filter(pc.equal(manifest["session_key"], key))
    if manifest.num_rows == 0:
        return Stated(dialogue_id, session_id)
    named = Named.of(manifest)
    turns = _rows(layout, "turns", scope, named, ["turn_index", "speaker"])
    edges = _rows(
        layout, "edges", scope, named,
        ["turn_index", "subject", "relation", "object", "created_at"],
    )  # fmt: skip
    speakers = {row["turn_index"]: row["speaker"] for row in turns}
    facts = {
        row["turn_index"]: Fact(
            row["subject"], row["relation"], row["object"], row["created_at"],
            speakers[row["turn_index"]],
        )
        for row in edges
        if row["turn_index"] in speakers  # its turn may be gone where another replaces the session
    }  # fmt: skip
    return Stated(
        dialogue_id, session_id, tuple(sorted(facts.items())), manifest["batch_id"][0].as_py()
    )


def _rows(
    layout: Layout, table: str, scope: Scope, named: Named, columns: Sequence[str]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_visible(layout, table, scope, named, columns).to_pylist()
    return rows


def edit_stated(
    store: Store,
    tenant: str,
    empty: Stated,
    change: Callable[[Stated], Stated],
    rows_of: Callable[[Stated], pa.Table],
) -> Stated:
    """Read the facts of a reserved session, change them, and write them if nobody else did since.

    What was forgotten is lifted only where a new fact says it again, or where the session was
    forgotten as a whole. What others forget meanwhile stays so.

    Args:
        store: where.
        tenant: whose.
        empty: names the session.
        change: new facts from those that are there; called again if another writer was faster.
        rows_of: facts -> one row of ``built_schema``.

    Returns:
        What is stored now.

    Raises:
        ConflictError: other writers were faster every time, or forgot it meanwhile, or a purge
            holds the store.
    """
    dialogue = ids.dialogue_key(tenant, empty.dialogue_id)
    session = ids.session_key(tenant, empty.dialogue_id, empty.session_id)
    for attempt in range(RETRIES):
        forgotten = store.forgotten()  # before the facts, so that none of a later mark is lifted
        marks = forgotten.of(dialogue, session)
        present = read_stated(store.layout, tenant, empty.dialogue_id, empty.session_id)
        present = present if marks is None else _remembered(present, marks)
        wanted = change(present)
        if wanted.facts == present.facts:
            return present
        rows = rows_of(wanted)
        if marks is not None and _remembered(wanted, marks).facts != wanted.facts:
            if attempt:
                break  # forgotten since the first look: that wins
            with writing(store.layout):
                restore_sessions(store.layout, forgotten, rows)
        over = (present.batch_id,) if present.batch_id else ()
        store.append_wave(
            Wave(
                uuid.uuid4().hex, datetime.now(UTC), rows, FAILURES.empty_table(),
                over=over, add=not over,
            )
        )  # fmt: skip
    raise ConflictError(
        f"Others state or forget facts of dialogue {empty.dialogue_id!r} at the same time; try"
        " again."
    )


def _remembered(stated: Stated, marks: SessionMarks) -> Stated:
    """Without facts that were forgotten, whether or not they have been taken out yet."""
    facts = () if marks.whole() else stated.facts
    kept = tuple(entry for entry in facts if not _is_forgotten(entry[1], marks))
    return replace(stated, facts=kept)


def _is_forgotten(fact: Fact, marks: SessionMarks) -> bool:
    turn = fact.stated_by, triplet_text(_triplet(0, fact))
    return marks.turn(*turn) or marks.edge(fact.subject, fact.relation, fact.object)
