"""What has to be built: input sessions against the manifest. Pure.

A session is pending if the manifest does not name it, or names it with other content. What was
made with other models (*stale*) or could not be read (*failed*) is built again only when asked.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from glong import ids
from glong.build import FAILED, Fingerprints
from glong.types import Session

__all__ = ["Known", "Planner", "Rebuild", "known_sessions"]

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


@dataclass(slots=True)
class Planner:
    """Decides session by session, and counts what it decided.

    Attributes:
        tenant: whose sessions these are.
        known: the manifest, from :func:`known_sessions`.
        forgotten: keys of dialogues and sessions that were forgotten and stay so.
        rebuild: which known sessions are built again.
        counts: ``seen``, ``pending``, ``skipped``, ``stale`` (of the skipped), ``forgotten``.
    """

    tenant: str
    known: Mapping[str, Known]
    forgotten: Collection[str] = frozenset()
    rebuild: Rebuild = Rebuild.NONE
    counts: Counter[str] = field(default_factory=Counter)

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
