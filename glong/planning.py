"""What has to be built: input sessions against the manifest. Pure.

A session is pending if the manifest does not name it, or names it with other content. What was
made with other models (*stale*) or could not be read (*failed*) is built again only when asked.
Of two sessions with one id in one run only the first is looked at; other content is a conflict.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from glong import ids
from glong.build import FAILED, Fingerprints
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
        " different content; allowed: one content for an id. The first one met was kept; give"
        " the other another id."
    )
    return Failure(stage="read", kind="conflicting_session", message=message)


@dataclass(slots=True)
class Planner:
    """Decides session by session, and counts what it decided.

    Attributes:
        tenant: whose sessions these are.
        known: the manifest, from :func:`known_sessions`.
        forgotten: keys of dialogues and sessions that were forgotten and stay so.
        rebuild: which known sessions are built again.
        counts: ``seen``, ``pending``, ``skipped``, ``stale`` (of the skipped), ``forgotten``,
            ``duplicates`` and ``conflicts`` (of an id that came before).
        contents: session key -> content hash of every session screened so far.
    """

    tenant: str
    known: Mapping[str, Known]
    forgotten: Collection[str] = frozenset()
    rebuild: Rebuild = Rebuild.NONE
    counts: Counter[str] = field(default_factory=Counter)
    contents: dict[str, str] = field(default_factory=dict)

    def screen(self, item: Session | Failure) -> Session | Failure | None:
        """What goes on of an input item: a session to build, a failure, or nothing."""
        if isinstance(item, Failure):
            return item
        key = ids.session_key(self.tenant, item.dialogue_id, item.session_id)
        content = ids.content_hash(item)
        if key not in self.contents:
            self.contents[key] = content
            return item if self.wants(item) else None
        self.counts["seen"] += 1
        if self.contents[key] == content:
            self.counts["duplicates"] += 1
            return None
        self.counts["conflicts"] += 1
        return conflicting_session(item.dialogue_id, item.session_id)

    def wants(self, session: Session) -> bool:
        """Whether this session is to be built now."""
        decision = self._decide(session)
        self.counts["seen"] += 1
        self.counts[decision] += 1
        return decision == "pending"

    def _decide(self, session: Session) -> str:
        key = ids.session_key(self.tenant, session.dialogue_id, session.session_id)
        dialogue = ids.dialogue_key(self.tenant, session.dialogue_id)
        if key in self.forgotten or dialogue in self.forgotten:
            return "forgotten"
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
        return "pending" if again else "skipped"
