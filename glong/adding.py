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

import pyarrow as pa
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

__all__ = ["Added", "add_sessions", "given_sessions", "store_meta"]

DIALOGUES_LOOKED_UP = 100
"""Dialogues of a call that are looked up; more take longer than reading the whole manifest."""


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
        restore: build what was forgotten up to now too; for these sessions it is so no more.

    Raises:
        ModelError: a model as a whole is unusable.
    """
    known = known_sessions(_manifest(store, tenant, items), models.fingerprints)
    at_start = forgotten = store.forgotten(tenant)
    planner = Planner(tenant, known, forgotten, rebuild, restore)
    replace = rebuild is Rebuild.ALL or restore
    counts: Counter[str] = Counter()
    for sessions in planner.waves(items, wave_size):
        wave = _wave(tenant, models, sessions, replace=replace, restore=restore)
        # What is forgotten while models run is not what was to be restored.
        store.append_wave(wave, at_start if restore else forgotten)
        store.routine()
        forgotten = store.forgotten(tenant, forgotten)
        counts += _counts(leave_out(wave.built, forgotten))
        counts["n_failures"] += wave.record_failures.num_rows
    counts["n_skipped"] = planner.counts["skipped"] + planner.counts["duplicates"]
    counts["n_forgotten"] += planner.counts["forgotten"]
    counts["n_forgotten_turns"] += planner.counts["forgotten_turns"]
    return Added(**counts)


def _manifest(store: Store, tenant: str, items: Iterable[Session | Failure]) -> pa.Table:
    """What the store knows of the sessions; all of the tenant's where these come as a stream."""
    keys = set()
    if isinstance(items, Sequence):
        sessions = (item for item in items if isinstance(item, Session))
        keys = {ids.dialogue_key(tenant, session.dialogue_id) for session in sessions}
    looked_up = sorted(keys) if 0 < len(keys) <= DIALOGUES_LOOKED_UP else None
    return store.manifest(tenant, dialogue_keys=looked_up, columns=KNOWN_COLUMNS)


def _wave(
    tenant: str,
    models: Models,
    items: Sequence[Session | Failure],
    *,
    replace: bool,
    restore: bool,
) -> Wave:
    """Build one wave."""
    batch_id = uuid.uuid4().hex
    unread = [item for item in items if isinstance(item, Failure)]
    built = build_rows(tenant, [item for item in items if isinstance(item, Session)], models)
    failures = record_failures_to(
        [failure_struct(f, ids.record_failure_id(tenant, f)) for f in unread], tenant, batch_id
    )
    return Wave(batch_id, datetime.now(UTC), built, failures, replace, restore)


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
