"""Forgetting: what is asked for becomes marks, then stored sessions are brought in line with them.

Marks come first, so from then on every writer leaves out what they match; a crash after that is
mended by forgetting again or by a purge. See :mod:`glong.store.sweeping` for what follows them.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from glong import ids
from glong.entities import normalise
from glong.errors import ConfigError, NotFoundError
from glong.store.deleting import delete_by
from glong.store.forgotten import (
    MENTION_WORDS,
    Forgotten,
    Kind,
    Mark,
    add_marks,
    lift_marks,
    mention,
    read_forgotten,
    said,
)
from glong.store.layout import Layout
from glong.store.leaving_out import by_hand_id
from glong.store.reading import Scope, read_manifest, read_named, read_visible, read_whole
from glong.store.sweeping import sweep
from glong.types import Receipt

__all__ = ["Target", "forget", "restore_sessions"]


@dataclass(frozen=True, slots=True)
class Target:
    """What to forget of one dialogue: all of it, or one session, turn, edge or entity.

    Attributes:
        dialogue_id: the dialogue.
        session_id: a session of it; alone or with ``turn_index``.
        turn_index: the turn's index in its session, from 0.
        edge_id: an edge.
        entity: an entity's id or any of its names.
        turns: with ``entity``: also every turn that it speaks or is named in, the edges of these,
            and all edges whose names contain its name ("Rex's bowl").

    Raises:
        ConfigError: these do not go together.
    """

    dialogue_id: str
    session_id: str | None = None
    turn_index: int | None = None
    edge_id: str | None = None
    entity: str | None = None
    turns: bool = False

    def __post_init__(self) -> None:
        """Refuse what is not one thing."""
        given = [value is not None for value in (self.session_id, self.edge_id, self.entity)]
        if sum(given) > 1:
            raise ConfigError(
                "More than one of session_id, edge_id and entity is given; allowed: one of them,"
                " or none to forget the whole dialogue."
            )
        if self.turn_index is not None and self.session_id is None:
            raise ConfigError(
                f"turn_index is {self.turn_index} without session_id; say whose turn it is."
            )
        if self.turns and self.entity is None:
            raise ConfigError("turns is given without entity; it says what to do with its turns.")

    @property
    def kind(self) -> Kind:
        """Scope of the receipt."""
        if self.turn_index is not None:
            return Kind.TURN
        for kind, value in (
            (Kind.SESSION, self.session_id),
            (Kind.EDGE, self.edge_id),
            (Kind.ENTITY, self.entity),
        ):
            if value is not None:
                return kind
        return Kind.DIALOGUE


def forget(layout: Layout, tenant: str, target: Target, at: datetime) -> Receipt:
    """Forget, for readers and for every later build; a purge then removes it from the disk.

    Raises:
        NotFoundError: the tenant has no such thing.
        StoreError: the store cannot be read or written.
    """
    dialogue = ids.dialogue_key(tenant, target.dialogue_id)
    marks = [*_marks(layout, tenant, dialogue, target)]
    told = _record_failures(layout, tenant, target, marks)
    marks += [Mark(Kind.FAILURE, (failure_id,)) for failure_id in told]
    add_marks(layout, tenant, dialogue, marks, at)
    rows = sweep(layout, (dialogue,))
    rows += Counter(failures=delete_by(layout, "failures", "failure_id", told))
    return Receipt(
        scope=str(target.kind),
        dialogue_id=target.dialogue_id,
        forgotten_at=at,
        rows=dict(rows),
        versions={table: int(layout.dataset(table).version) for table in rows},
        purge_due=True,
    )


def _marks(layout: Layout, tenant: str, dialogue: str, target: Target) -> tuple[Mark, ...]:
    """What has to be remembered.

    Raises:
        NotFoundError: there is no such thing.
    """
    session = ids.session_key(tenant, target.dialogue_id, target.session_id or "")
    scope = Scope(dialogue_keys=(dialogue,))
    match target.kind:
        case Kind.DIALOGUE:
            marks = (Mark(Kind.DIALOGUE, (dialogue,)),)
            _check_known(layout, dialogue, None, marks[0], target)
            return marks
        case Kind.SESSION:
            by_hand = by_hand_id(target.session_id)
            own = ids.session_key(tenant, target.dialogue_id, by_hand)
            marks = (Mark(Kind.SESSION, (session,)),)
            _check_known(layout, dialogue, session, marks[0], target)
            return (*marks, Mark(Kind.SESSION, (own,)))
        case Kind.TURN:
            columns = ["session_key", "turn_index", "speaker", "text"]
            rows = read_whole(layout, "turns", scope, columns)
            place = pc.and_(
                pc.equal(rows["session_key"], session),
                pc.equal(rows["turn_index"], target.turn_index),
            )
            for row in rows.filter(place).to_pylist():
                return (Mark(Kind.TURN, (session, said(row["speaker"], row["text"]))),)
        case Kind.EDGE:
            columns = ["edge_id", "session_key", "subject", "relation", "object"]
            rows = read_whole(layout, "edges", scope, columns)
            for row in rows.filter(pc.equal(rows["edge_id"], target.edge_id)).to_pylist():
                triplet = normalise(row["subject"]), row["relation"], normalise(row["object"])
                return (Mark(Kind.EDGE, (row["session_key"], *triplet)),)
        case _:
            return _entity_marks(layout, dialogue, target)
    raise _not_found(layout, target)


def _entity_marks(layout: Layout, dialogue: str, target: Target) -> tuple[Mark, ...]:
    """Marks of an entity, given by id or name; a name in turns alone need not be a node."""
    asked = target.entity or ""
    scope = Scope(dialogue_keys=(dialogue,))
    rows = read_whole(layout, "entities", scope, ["entity_id", "name", "aliases"])
    names = {
        normalise(row["name"])
        for row in rows.to_pylist()
        if row["entity_id"] == asked
        or normalise(asked) in map(normalise, (row["name"], *(row["aliases"] or ())))
    }
    marks = tuple(Mark(Kind.ENTITY, (dialogue, name)) for name in sorted(names))
    if target.turns:
        words = {mention(name) for name in names or {normalise(asked)}}
        if not all(words) or any(len(w.split()) > MENTION_WORDS for w in words):
            raise ConfigError(
                f"entity is {asked!r}; with turns allowed: a name of 1 to {MENTION_WORDS} words."
            )
        if names or _is_mentioned(layout, scope, words):
            marks += tuple(Mark(Kind.MENTION, (dialogue, w)) for w in sorted(words))
    if not marks:
        raise _not_found(layout, target)
    return marks


def _is_mentioned(layout: Layout, scope: Scope, names: Collection[str]) -> bool:
    rows = read_whole(layout, "turns", scope, ["speaker", "text"])
    texts = (f" {mention(value)} " for row in rows.to_pylist() for value in row.values())
    return any(f" {name} " in text for text in texts for name in names)


def _check_known(
    layout: Layout, dialogue: str, session: str | None, mark: Mark, target: Target
) -> None:
    """A dialogue or session is known by its manifest rows, by failures, or as forgotten before."""
    scope = Scope(dialogue_keys=(dialogue,))
    keys = read_manifest(layout, scope, columns=["session_key"])["session_key"].to_pylist()
    keys += read_whole(layout, "failures", scope, ["session_key"])["session_key"].to_pylist()
    if (session in keys if session else keys) or read_forgotten(layout).time(mark) > 0:
        return
    raise _not_found(layout, target)


def _not_found(layout: Layout, target: Target) -> NotFoundError:
    named = {
        name: value
        for name in ("session_id", "turn_index", "edge_id", "entity")
        if (value := getattr(target, name)) is not None
    }
    what = "".join(f", {name} {value!r}" for name, value in named.items())
    return NotFoundError(
        f"There is no dialogue {target.dialogue_id!r}{what} in {layout.uri}; check the ids."
    )


def _record_failures(
    layout: Layout, tenant: str, target: Target, marks: Sequence[Mark]
) -> list[str]:
    """Ids of failures that belong to no session but tell of what is forgotten.

    Such a failure is of a broken record of an input. One that names the dialogue, in quotes, goes
    with any part of it, since its raw text may hold that part; one that has a forgotten name goes
    with that.
    """
    scope = Scope(tenant)
    named = read_named(layout, scope)
    columns = ["failure_id", "session_key", "message", "raw"]
    rows = read_visible(layout, "failures", scope, named, columns)
    needles = {json.dumps(target.dialogue_id), repr(target.dialogue_id)}
    texts = {mark.parts[-1] for mark in marks if mark.kind is Kind.MENTION}
    found = []
    for row in rows.filter(pc.equal(rows["session_key"], "")).to_pylist():
        told = f"{row['message']} {row['raw']}"
        if any(needle in told for needle in needles) or any(
            f" {text} " in f" {mention(told)} " for text in texts
        ):
            found.append(row["failure_id"])
    return found


def restore_sessions(layout: Layout, forgotten: Forgotten, given: pa.Table) -> None:
    """Lift what was forgotten for these sessions alone.

    Only what ``forgotten`` holds is lifted: what is forgotten after it was read stays so.

    Args:
        layout: the store.
        forgotten: the marks.
        given: rows of sessions, with their keys.
    """
    names = given.select(["tenant", "dialogue_key", "session_key"]).to_pylist() if forgotten else []
    if touched := [row for row in names if forgotten.touches(row["dialogue_key"])]:
        lift_marks(layout, forgotten, touched)
