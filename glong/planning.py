"""What has to be built: input sessions against the manifest. Pure.

A session is pending if the manifest does not name it, or names it with other content. What was
made with other models (*stale*) or could not be read (*failed*) is built again only when asked.
What was forgotten is left out before anything looks at it, unless it is to be restored. Of two
sessions with one id in one run only the first is looked at; other content is a conflict.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

import pyarrow as pa

from glong import ids
from glong.build import FAILED, Fingerprints
from glong.store.forgotten import Forgotten
from glong.store.leaving_out import is_by_hand
from glong.types import Failure, Session

__all__ = ["KNOWN_COLUMNS", "Known", "Planner", "Rebuild", "conflicting_session", "known_sessions"]

KNOWN_COLUMNS = ("session_key", "content_hash", "status", "extractor", "scorer", "encoder")
"""The manifest columns that planning reads."""


class Rebuild(StrEnum):
    """Which sessions of the manifest are built again."""

    NONE = "none"
    STALE = "stale"
    FAILED = "failed"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Known:
    """What the manifest says of one session."""

    content_hash: str
    failed: bool
    stale: bool


def known_sessions(manifest: pa.Table, fingerprints: Fingerprints) -> dict[str, Known]:
    """Session key -> what the manifest says; ``stale`` if any model is another now."""
    current = (fingerprints.extractor, fingerprints.scorer, fingerprints.encoder)
    columns = [manifest.column(name).to_pylist() for name in KNOWN_COLUMNS]
    return {
        key: Known(content, status == FAILED, made_with != current)
        for key, content, status, *rest in zip(*columns, strict=True)
        for made_with in [tuple(rest)]
    }


def conflicting_session(dialogue_id: str, session_id: str) -> Failure:
    """The failure of a session whose id came before in the run with other content."""
    message = (
        f"Session {session_id!r} of dialogue {dialogue_id!r} stands in two input files with"
        " different content; allowed: one content for an id. That of the first file was kept; give"
        " the other another id."
    )
    return Failure(stage="read", kind="conflicting_session", message=message)


def _reserved(session: Session) -> Failure:
    message = (
        f"session_id is {session.session_id!r}, which is reserved for facts stated by hand; give"
        " the session another id."
    )
    return Failure(stage="read", kind="reserved_session_id", message=message)


@dataclass(slots=True)
class Planner:
    """Decides session by session, and counts what it decided.

    Attributes:
        tenant: whose sessions these are.
        known: the manifest, from :func:`known_sessions`.
        forgotten: what was forgotten and stays so.
        rebuild: which known sessions are built again.
        restore: build what was forgotten all the same.
        counts: ``seen``, ``pending``, ``skipped``, ``stale`` (of the skipped), ``forgotten``,
            ``duplicates`` and ``conflicts`` (of an id that came before); ``forgotten_turns`` of the
            pending.
        contents: session key -> content hash of every session screened so far.
    """

    tenant: str
    known: Mapping[str, Known]
    forgotten: Forgotten = field(default_factory=Forgotten)
    rebuild: Rebuild = Rebuild.NONE
    restore: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    contents: dict[str, str] = field(default_factory=dict)

    def waves(
        self, items: Iterable[Session | Failure], wave_size: int
    ) -> Iterator[list[Session | Failure]]:
        """What goes on of a stream of input items, ``wave_size`` at a time."""
        screened = (self.screen(item) for item in items)
        wanted = (item for item in screened if item is not None)
        while wave := list(islice(wanted, wave_size)):
            yield wave

    def screen(self, item: Session | Failure) -> Session | Failure | None:
        """What goes on of an input item: a session to build, a failure, or nothing."""
        if isinstance(item, Failure):
            return item
        if is_by_hand(item.session_id):
            return _reserved(item)
        key = ids.session_key(self.tenant, item.dialogue_id, item.session_id)
        content = ids.content_hash(item)
        if key not in self.contents:
            self.contents[key] = content
            return self._plan(item)
        self.counts["seen"] += 1
        if self.contents[key] == content:
            self.counts["duplicates"] += 1
            return None
        self.counts["conflicts"] += 1
        return conflicting_session(item.dialogue_id, item.session_id)

    def _plan(self, session: Session) -> Session | None:
        """The session as it is to be built now, without what was forgotten of it, or nothing."""
        left = session if self.restore else self.forgotten.strip(self.tenant, session)
        decision = "forgotten" if left is None else self._decide(left)
        self.counts["seen"] += 1
        self.counts[decision] += 1
        if left is None or decision != "pending":
            return None
        if n_left_out := len(session.turns) - len(left.turns):
            self.counts["forgotten_turns"] += n_left_out
        return left

    def _decide(self, session: Session) -> str:
        key = ids.session_key(self.tenant, session.dialogue_id, session.session_id)
        known = self.known.get(key)
        if known is None or known.content_hash != ids.content_hash(session):
            return "pending"
        again = {
            Rebuild.NONE: False,
            Rebuild.STALE: known.stale,
            Rebuild.FAILED: known.failed,
            Rebuild.ALL: True,
        }[self.rebuild]
        if known.stale and not again:
            self.counts["stale"] += 1
        return "pending" if again or self._is_to_restore(session) else "skipped"

    def _is_to_restore(self, session: Session) -> bool:
        """Whether something may have been forgotten of it since it was restored last."""
        if not self.restore:
            return False
        dialogue = ids.dialogue_key(self.tenant, session.dialogue_id)
        key = ids.session_key(self.tenant, session.dialogue_id, session.session_id)
        marks = self.forgotten.of(dialogue, key)
        return marks is not None and marks.restored < self.forgotten.latest
