"""What stays forgotten: keyed hashes in the table ``forgotten``, and what they match.

A *mark* says that a dialogue, a session, a turn, an edge, an entity or a record's failure was
forgotten, and when; the mark ``restored`` of a session says that what was forgotten up to then
counts for it no more. Marks are only ever added, so no writer waits for another. They are hashes
under secret keys of the store (in the configuration of the table), so that nobody who has the marks
alone can guess names from them.

A turn is known by its speaker and text within the session, not by its place, since places shift
when a session is given again with more or fewer turns; an edge by its normalised triplet within the
session.
"""

import json
import re
import secrets
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc

from glong import ids
from glong.entities import normalise
from glong.errors import ConflictError
from glong.store.layout import Layout, translated
from glong.tables import FORGOTTEN
from glong.types import Failure, Place, Session

__all__ = [
    "FAILED_COLUMNS",
    "Forgotten",
    "Kind",
    "Mark",
    "SessionMarks",
    "add_marks",
    "add_secrets",
    "lift_marks",
    "mention",
    "read_again",
    "read_forgotten",
    "read_secrets",
    "said",
]

SECRET = "glong.secret."
"""Keys of the secrets in the configuration of ``forgotten``; several after an import."""
MENTION_WORDS = 6
"""The longest name, in words, that is looked for within texts and other names."""
RETRIES = 20
FAILED_COLUMNS = (
    "failure_id", "dialogue_key", "session_key", "stage", "kind", "message", "raw",
    "file", "line", "field", "turn_index",
)  # fmt: skip
"""What decides whether a failure was forgotten."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = -(2**62)
_WORD = re.compile(r"\w+")


class Kind(StrEnum):
    """What a mark is about; its parts are in brackets."""

    DIALOGUE = "dialogue"  # dialogue key
    SESSION = "session"  # session key
    TURN = "turn"  # session key, what was said (see `said`)
    EDGE = "edge"  # session key, normalised subject, relation, normalised object
    ENTITY = "entity"  # dialogue key, normalised name
    MENTION = "mention"  # dialogue key, words of the name: turns and names that contain it
    FAILURE = "failure"  # failure id, of a failure that belongs to no session
    RESTORED = "restored"  # session key


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing to be forgotten, in clear; only its keyed hash is stored."""

    kind: Kind
    parts: tuple[str, ...]


def keyed(secret: str, kind: str, *parts: str) -> str:
    """32 hexadecimal digits over the parts, under a secret of 32 digits."""
    text = json.dumps([kind, *parts])
    return blake2b(text.encode("ascii"), key=bytes.fromhex(secret), digest_size=16).hexdigest()


def said(speaker: str, text: str) -> str:
    """What is compared of a turn: case and white space do not count."""
    return " ".join(f"{speaker}: {text}".casefold().split())


def mention(name: str) -> str:
    """The words of a name, as they are looked for in texts; empty if there are none."""
    return " ".join(_words(normalise(name)))


def _words(text: str) -> list[str]:
    return _WORD.findall(normalise(text))


@dataclass(frozen=True, slots=True, eq=False)
class Forgotten:
    """All marks of a store, or of one tenant, ready to be asked; small, and can be pickled.

    Attributes:
        secrets: the store's keys, as hexadecimal digits.
        times: hash of a mark -> its latest time in microseconds since 1970.
        dialogues: hashes of the dialogues that have any mark.
        mentioned: hashes of the dialogues in which names are looked for in texts.
        latest: time of the latest mark that is no restoration.
        version: of the table ``forgotten`` when it was read.
    """

    secrets: tuple[str, ...] = ()
    times: Mapping[str, int] = field(default_factory=dict)
    dialogues: frozenset[str] = frozenset()
    mentioned: frozenset[str] = frozenset()
    latest: int = _NEVER
    version: int = 0

    def __bool__(self) -> bool:
        """Whether there is any mark."""
        return bool(self.times)

    def time(self, mark: Mark) -> int:
        """When it was set last; long before 1970 if never."""
        if not self.times:
            return _NEVER
        hashes = (keyed(secret, mark.kind, *mark.parts) for secret in self.secrets)
        return max((self.times.get(value, _NEVER) for value in hashes), default=_NEVER)

    def touches(self, dialogue_key: str) -> bool:
        """Whether anything of this dialogue was ever forgotten."""
        return self._holds(self.dialogues, dialogue_key)

    def _holds(self, hashes: frozenset[str], dialogue_key: str) -> bool:
        if not hashes:
            return False
        return any(keyed(s, Kind.DIALOGUE, dialogue_key) in hashes for s in self.secrets)

    def of(self, dialogue_key: str, session_key: str) -> "SessionMarks | None":
        """What counts for one session; ``None`` where nothing of its dialogue was forgotten."""
        if not self.touches(dialogue_key):
            return None
        restored = self.time(Mark(Kind.RESTORED, (session_key,)))
        looks = self._holds(self.mentioned, dialogue_key)
        return SessionMarks(self, dialogue_key, session_key, restored, looks)

    def strip(self, tenant: str, session: Session) -> Session | None:
        """The session without its forgotten turns; ``None`` if nothing is left to build."""
        dialogue = ids.dialogue_key(tenant, session.dialogue_id)
        key = ids.session_key(tenant, session.dialogue_id, session.session_id)
        if (marks := self.of(dialogue, key)) is None:
            return session
        if marks.whole():
            return None
        kept = tuple(turn for turn in session.turns if not marks.turn(turn.speaker, turn.text))
        if len(kept) == len(session.turns):
            return session
        return replace(session, turns=kept) if kept else None

    def without(self, failures: pa.Table) -> pa.Table:
        """Rows of ``failures``, with ``FAILED_COLUMNS``, without those that were forgotten."""
        if not self.times or failures.num_rows == 0:
            return failures
        rows = failures.select(FAILED_COLUMNS).to_pylist()
        keep = [not self._failure(row) for row in rows]
        return failures if all(keep) else failures.filter(pa.array(keep, pa.bool_()))

    def _failure(self, row: Mapping[str, Any]) -> bool:
        if any(self.time(Mark(Kind.FAILURE, (i,))) > _NEVER for i in _marked_ids(row)):
            return True
        marks = self.of(row["dialogue_key"], row["session_key"])
        told = row["message"], row["raw"]
        return marks is not None and (marks.whole() or marks.failure(*told))


def _marked_ids(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Ids of a failure under which it may have been forgotten.

    That of a failure that belongs to no session was made without its tenant before.
    """
    if row["session_key"]:
        return (row["failure_id"],)
    place = Place(row["file"], row["line"], row["field"])
    told = row["stage"], row["kind"], row["message"], row["raw"]
    return row["failure_id"], ids.failure_id("", Failure(*told, place, row["turn_index"]))


@dataclass(frozen=True, slots=True, eq=False)
class SessionMarks:
    """What was forgotten, as far as it counts for one session (what was restored does not).

    Attributes:
        forgotten: all marks.
        dialogue_key: of the session's dialogue.
        session_key: its own.
        restored: time of its restoration, in microseconds since 1970; only later marks count.
        looks_for_mentions: whether the dialogue has names that are looked for in texts.
    """

    forgotten: Forgotten
    dialogue_key: str
    session_key: str
    restored: int
    looks_for_mentions: bool

    def _has(self, kind: Kind, *parts: str) -> bool:
        return self.forgotten.time(Mark(kind, parts)) > self.restored

    def whole(self) -> bool:
        """The session or its dialogue as a whole."""
        return self._has(Kind.DIALOGUE, self.dialogue_key) or self._has(
            Kind.SESSION, self.session_key
        )

    def turn(self, speaker: str, text: str) -> bool:
        """This turn, or one that a forgotten name speaks or is named in."""
        return (
            self._has(Kind.TURN, self.session_key, said(speaker, text))
            or self.mentions(speaker)
            or self.mentions(text)
        )

    def edge(self, subject: str, relation: str, object_: str) -> bool:
        """This triplet, or one of a forgotten entity; names as displayed."""
        ends = normalise(subject), normalise(object_)
        return self._has(Kind.EDGE, self.session_key, ends[0], relation, ends[1]) or any(
            self._has(Kind.ENTITY, self.dialogue_key, end) or self.mentions(end) for end in ends
        )

    def failure(self, message: str, raw: str) -> bool:
        """A failure that tells a forgotten name."""
        return self.mentions(f"{message} {raw}")

    def mentions(self, text: str) -> bool:
        """Whether a name that is looked for stands in the text as whole words."""
        if not self.looks_for_mentions:
            return False
        words = _words(text)
        runs = {
            " ".join(words[start : start + n])
            for n in range(1, MENTION_WORDS + 1)
            for start in range(len(words) - n + 1)
        }
        return any(self._has(Kind.MENTION, self.dialogue_key, run) for run in runs)


def read_forgotten(layout: Layout, tenant: str | None = None) -> Forgotten:
    """The marks of a store, of one tenant or all.

    Raises:
        StoreError: the table cannot be read.
    """
    dataset = layout.dataset("forgotten")
    with translated(f"read what was forgotten in {layout.uri}"):
        rows = dataset.to_table(columns=["tenant", "scope", "key", "dialogue_key", "forgotten_at"])
    if tenant is not None:
        rows = rows.filter(pc.equal(rows.column("tenant"), tenant))
    micros = rows.column("forgotten_at").cast(pa.int64()).to_pylist()
    times: dict[str, int] = {}
    for key, time in zip(rows.column("key").to_pylist(), micros, strict=True):
        times[key] = max(time, times.get(key, _NEVER))
    lost = [
        time
        for time, kind in zip(micros, rows.column("scope").to_pylist(), strict=True)
        if kind != Kind.RESTORED
    ]
    looked_for = rows.filter(pc.equal(rows.column("scope"), Kind.MENTION))
    return Forgotten(
        secrets=_secrets_of(dataset) if times else (),
        times=times,
        dialogues=frozenset(rows.column("dialogue_key").to_pylist()),
        mentioned=frozenset(looked_for.column("dialogue_key").to_pylist()),
        latest=max(lost, default=_NEVER),
        version=int(dataset.version),
    )


def read_again(layout: Layout, known: Forgotten, tenant: str | None = None) -> Forgotten:
    """The marks of a store as they are now; what was read before if nothing was forgotten since."""
    is_new = int(layout.dataset("forgotten").version) != known.version
    return read_forgotten(layout, tenant) if is_new else known


def _secrets_of(dataset: lance.LanceDataset) -> tuple[str, ...]:
    found = dataset.config()
    return tuple(found[name] for name in sorted(found) if name.startswith(SECRET))


def read_secrets(layout: Layout) -> tuple[str, ...]:
    """The store's keys; none before anything was forgotten."""
    return _secrets_of(layout.dataset("forgotten"))


def add_secrets(layout: Layout, new: Sequence[str] = ()) -> tuple[str, ...]:
    """Add keys, or make the first one; returns all, in order.

    Raises:
        ConflictError: other processes were faster every time.
    """
    for _ in range(RETRIES):
        dataset = layout.dataset("forgotten")
        present = _secrets_of(dataset)
        missing = [secret for secret in new if secret not in present]
        if not missing and present:
            return present
        missing = missing or [secrets.token_hex(16)]
        try:
            with translated(f"add a key to {layout.uri}"):
                dataset.update_config({SECRET + uuid.uuid4().hex: value for value in missing})
        except ConflictError:
            continue
    raise ConflictError(f"Could not add a key to {layout.uri}: others change it; try again.")


def add_marks(
    layout: Layout, tenant: str, dialogue_key: str, marks: Iterable[Mark], at: datetime
) -> None:
    """Remember for good what is forgotten of one dialogue.

    The time that is stored is later than that of every mark before, whatever clocks say, so that
    what came last counts.
    """
    secret = add_secrets(layout)[0]
    latest = max(read_forgotten(layout).times.values(), default=_NEVER)
    if latest > _NEVER:
        at = max(at, _time(latest + 1))
    _append(layout, [_row(secret, tenant, dialogue_key, mark, at) for mark in marks])


def lift_marks(layout: Layout, forgotten: Forgotten, sessions: Iterable[Mapping[str, str]]) -> None:
    """Let what was forgotten of some sessions count for them no more.

    The time that is stored is that of the latest mark that is known, so a mark that another process
    sets meanwhile is not lifted unseen.

    Args:
        layout: the store.
        forgotten: what was forgotten up to now; at least one mark.
        sessions: ``tenant``, ``dialogue_key`` and ``session_key`` of each.
    """
    secret, at = forgotten.secrets[0], _time(max(forgotten.latest, 0))
    rows = [
        _row(secret, s["tenant"], s["dialogue_key"], Mark(Kind.RESTORED, (s["session_key"],)), at)
        for s in sessions
    ]
    _append(layout, rows)


def _time(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _row(
    secret: str, tenant: str, dialogue_key: str, mark: Mark, at: datetime
) -> dict[str, object]:
    return {
        "tenant": tenant,
        "scope": str(mark.kind),
        "key": keyed(secret, mark.kind, *mark.parts),
        "dialogue_key": keyed(secret, Kind.DIALOGUE, dialogue_key),
        "forgotten_at": at,
    }


def _append(layout: Layout, rows: Sequence[Mapping[str, object]]) -> None:
    with translated(f"write {len(rows)} marks to forgotten of {layout.uri}"):
        table = pa.Table.from_pylist(list(rows), FORGOTTEN)
        lance.write_dataset(table, layout.dataset("forgotten"), mode="append")
