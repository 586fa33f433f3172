"""Sessions are added to a store in one process: planned, built, written in waves, and counted.

A shell over :mod:`glong.planning` and :mod:`glong.build`: it writes, reads the clock and makes the
random id of each wave. What the store leaves out as forgotten is counted as the store does it.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc

from glong import ids
from glong._version import __version__
from glong.build import PENDING, Models, build_rows
from glong.errors import SourceError
from glong.planning import KNOWN_COLUMNS, Planner, Rebuild, known_sessions
from glong.prompts import EXTRACTION_PROMPT_VERSION
from glong.sources import native
from glong.sources.records import Found
from glong.store import Store, StoreMeta, Wave, is_by_hand, leave_out
from glong.store.leaving_out import LeftOut
from glong.tables import failure_struct, record_failures_to
from glong.types import Failure, Place, Session

__all__ = ["Added", "add_sessions", "given_sessions", "store_meta", "stored_start"]


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


def given_sessions(
    dialogue_id: str,
    session_id: str,
    started_at: str | datetime,
    turns: Sequence[Mapping[str, Any]],
) -> list[Session]:
    """A session as a caller gives it, read as one of an input in the native form.

    Raises:
        SourceError: a turn or a time is not of that form, or the id is reserved.
    """
    session = {
        "session_id": session_id,
        "started_at": started_at.isoformat() if isinstance(started_at, datetime) else started_at,
        "turns": list(turns),
    }
    found = []
    for item in native.sessions({"dialogue_id": dialogue_id, "sessions": [session]}, Place()):
        if isinstance(item, Failure):
            raise SourceError(item.message)
        if isinstance(item, Found):
            found.append(item.session)
    if is_by_hand(str(session_id)):
        raise SourceError(
            f"session_id is {session_id!r}, which is reserved for facts stated by hand; give"
            " the session another id."
        )
    return found


def stored_start(store: Store, tenant: str, dialogue_id: str, session_id: str) -> datetime | None:
    """When a session started as it is stored, so that adding it again without a time does nothing.

    ``None`` where no such session is stored.
    """
    rows = store.manifest(tenant, columns=["session_key", "started_at"])
    key = ids.session_key(tenant, dialogue_id, session_id)
    known = rows.filter(pc.equal(rows.column("session_key"), key)).column("started_at")
    start: datetime | None = next(iter(known.to_pylist()), None)
    return start


def add_sessions(
    store: Store,
    tenant: str,
    models: Models,
    items: Iterable[Session | Failure],
    *,
    wave_size: int,
    rebuild: Rebuild,
    restore: bool,
) -> Added:
    """Build what is pending of a stream of sessions, a wave at a time; store its failures.

    Args:
        store: where to.
        tenant: whose sessions these are.
        models: with which models.
        items: sessions, and failures of reading them.
        wave_size: sessions that are committed together.
        rebuild: which of the sessions already built are built again.
        restore: build what was forgotten too; for these sessions it is so no more.

    Raises:
        ModelError: a model as a whole is unusable.
    """
    manifest = store.manifest(tenant, columns=list(KNOWN_COLUMNS))
    known = known_sessions(manifest, models.fingerprints)
    planner = Planner(tenant, known, store.forgotten(tenant), rebuild, restore)
    replace = rebuild is Rebuild.ALL or restore
    counts: Counter[str] = Counter()
    for wave in planner.waves(items, wave_size):
        counts += _add_wave(store, tenant, models, wave, replace=replace, restore=restore)
    counts["n_skipped"] = planner.counts["skipped"] + planner.counts["duplicates"]
    counts["n_forgotten"] += planner.counts["forgotten"]
    counts["n_forgotten_turns"] += planner.counts["forgotten_turns"]
    return Added(**counts)


def _add_wave(
    store: Store,
    tenant: str,
    models: Models,
    items: Sequence[Session | Failure],
    *,
    replace: bool,
    restore: bool,
) -> Counter[str]:
    """Build and commit one wave; returns the fields of :class:`Added` that it changes."""
    batch_id = uuid.uuid4().hex
    unread = [item for item in items if isinstance(item, Failure)]
    built = build_rows(tenant, [item for item in items if isinstance(item, Session)], models)
    failures = record_failures_to(
        [failure_struct(f, ids.failure_id("", f)) for f in unread], tenant, batch_id
    )
    store.append_wave(Wave(batch_id, datetime.now(UTC), built, failures, replace, restore))
    store.routine()
    counts = _counts(leave_out(built, store.forgotten(tenant)))
    counts["n_failures"] += len(unread)
    return counts


def _counts(left: LeftOut) -> Counter[str]:
    """What a wave added, of what the store does not leave out."""
    built = left.built
    statuses = pc.value_counts(built.column("status")).to_pylist()
    counts = Counter({f"n_{entry['values']}": entry["counts"] for entry in statuses})
    kept = built.filter(pc.not_equal(built.column("status"), PENDING))
    for name in ("n_turns", "n_triplets", "n_edges"):
        counts[name] = int(pc.sum(kept.column(name)).as_py() or 0)
    counts["n_failures"] = int(pc.sum(built.column("n_failures")).as_py() or 0)
    counts["n_forgotten"] = len(left.gone)
    for table in ("turns", "edges"):
        counts[f"n_forgotten_{table}"] = left.rows[table]
    return counts
