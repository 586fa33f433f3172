"""The store as one object; each method is a few lines over the modules beside it."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from glong.errors import ConflictError, NotFoundError, StoreError
from glong.graph import MemoryGraph
from glong.ids import dialogue_key
from glong.store.checks import Violation, verify
from glong.store.compaction import Compaction, compact
from glong.store.export import export_dialogue, export_tables
from glong.store.forgetting import Target, forget, restore_sessions
from glong.store.forgotten import Forgotten, read_again, read_forgotten
from glong.store.layout import Layout, StoreMeta, create_or_open_layout, open_layout
from glong.store.lease import alone, writing
from glong.store.leaving_out import leave_out
from glong.store.purge import Purge, is_purge_due, purge, purge_version
from glong.store.reading import (
    Scope,
    iter_visible,
    read_graph,
    read_manifest,
    read_named,
    read_visible,
    session_order,
)
from glong.store.status import Status, read_status
from glong.store.sweeping import sweep
from glong.store.upkeep import run_routine
from glong.store.waves import (
    FragmentBatch,
    Wave,
    append_rows,
    commit_wave_fragments,
    write_wave,
    write_wave_fragments,
)
from glong.tables import ACCESSES, MANIFEST, built_schema
from glong.types import Receipt

__all__ = ["Store"]

TOUCHES_A_ROUTINE = 16
"""Each touch adds a file, and a read looks into every one: 0.2 ms each. Upkeep takes some 30 ms."""


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """An open store; holds no connection, may be shared by threads.

    ``open`` and ``create_or_open`` make one. Every call reads the latest state unless it takes a
    ``version``, which is one of the table ``sessions``.
    """

    layout: Layout

    @classmethod
    def open(cls, uri: str, *, storage_options: Mapping[str, str] | None = None) -> "Store":
        """Open a store that exists.

        Args:
            uri: folder or object-store URI.
            storage_options: for the object store, with Lance's keys.

        Raises:
            StoreError: there is none, or it cannot be reached.
            SchemaError: it is of another format version, or no store of glong.
        """
        return cls(open_layout(uri, storage_options))

    @classmethod
    def create_or_open(
        cls, uri: str, meta: StoreMeta, *, storage_options: Mapping[str, str] | None = None
    ) -> "Store":
        """Open a store, or make one; two processes may do so at once.

        Raises:
            SchemaError: it was made with another encoder, dimension or format version.
            StoreError: it cannot be reached or made.
        """
        return cls(create_or_open_layout(uri, meta, storage_options))

    @property
    def uri(self) -> str:
        """Absolute path or object-store URI."""
        return self.layout.uri

    @property
    def meta(self) -> StoreMeta:
        """What the store was made with."""
        return self.layout.meta

    @property
    def version(self) -> int:
        """Latest version of the table ``sessions``."""
        return int(self.layout.dataset("sessions").version)

    # Writing

    def append_wave(self, wave: Wave, forgotten: Forgotten | None = None) -> int:
        """Commit a wave: data rows, then the manifest; returns the new version.

        What was forgotten is left out, unless the wave restores it.

        Args:
            wave: what to write.
            forgotten: what the caller knows of it for all tenants of the wave. What was forgotten
                since is left out too, also by a wave that restores what is known.

        Raises:
            StoreError: a session stands twice in it, or the store cannot be written.
            ConflictError: other writers were faster every time, or a purge holds the store.
        """
        with writing(self.layout):
            built = wave.built.cast(built_schema(self.meta.dimension))
            forgotten = self._present(forgotten, built if wave.restore else None)
            failures = forgotten.without(wave.record_failures)
            left = leave_out(built, forgotten).built
            wave = dataclasses.replace(wave, built=left, record_failures=failures)
            write_wave(self.layout, wave)
            return self._settle(built["dialogue_key"], forgotten.version)

    def _present(self, known: Forgotten | None, restored: pa.Table | None) -> Forgotten:
        """The marks as they are once those known of restored sessions are lifted."""
        known = read_forgotten(self.layout) if known is None else known
        if restored is not None:
            restore_sessions(self.layout, known, restored)
        return read_again(self.layout, known)

    def _settle(self, dialogue_keys: pa.ChunkedArray, forgotten_version: int) -> int:
        """Take out again what was forgotten while it was being written; returns the version."""
        if int(self.layout.dataset("forgotten").version) != forgotten_version:
            sweep(self.layout, pc.unique(dialogue_keys).to_pylist())
        return self.version

    def write_fragments(
        self, built: pa.Table, batch_id: str, built_at: datetime, *, restore: bool = False
    ) -> FragmentBatch:
        """On a worker: write the rows of built sessions as files that nothing names yet.

        What was forgotten is left out, unless it is to be restored.
        """
        with writing(self.layout):
            forgotten = read_forgotten(self.layout)
            built = built.cast(built_schema(self.meta.dimension))
            left = built if restore else leave_out(built, forgotten).built
            batch = write_wave_fragments(self.layout, left, batch_id, built_at)
            return dataclasses.replace(batch, forgotten_version=forgotten.version)

    def commit_fragments(
        self,
        batches: Sequence[FragmentBatch],
        record_failures: pa.Table,
        *,
        replace: bool = False,
        restore: bool = False,
        forgotten: Forgotten | None = None,
    ) -> int:
        """On the driver: commit what workers wrote as one wave, each batch once.

        ``record_failures``, ``replace`` and ``restore`` are those of a
        :class:`~glong.store.waves.Wave`; ``forgotten`` is as in :meth:`append_wave`.

        Raises:
            ConflictError: a purge holds the store, or removed the files since they were written.
        """
        with writing(self.layout):
            oldest = min((batch.forgotten_version for batch in batches), default=0)
            if batches and oldest < purge_version(self.layout):
                raise ConflictError(
                    f"A purge of {self.uri} removed files that were written and not yet committed;"
                    " nothing was committed. Run the job again."
                )
            if restore and forgotten is not None:  # workers left out nothing of what is restored
                oldest = min(oldest, forgotten.version)
            rows = pa.concat_tables([MANIFEST.empty_table(), *(b.manifest for b in batches)])
            present = self._present(forgotten, rows if restore else None)
            failures = present.without(record_failures)
            commit_wave_fragments(self.layout, batches, failures, replace=replace)
            return self._settle(rows["dialogue_key"], oldest)

    def touch(
        self, tenant: str, dialogue_id: str, edge_ids: Sequence[str], accessed_at: datetime
    ) -> None:
        """Record that edges were retrieved; the latest time counts from the next load on.

        Edges that were forgotten since they were retrieved are left out. Now and then upkeep of
        ``accesses`` runs here, since an application that only asks has no other place for it.

        Raises:
            ConflictError: a purge holds the store; try again when it has ended.
        """
        key = dialogue_key(tenant, dialogue_id)
        if not edge_ids:
            return
        with writing(self.layout):
            if read_forgotten(self.layout, tenant).touches(key):
                edges = self.visible("edges", dialogue_key=key, columns=["edge_id"])["edge_id"]
                known = set(edges.to_pylist())
                edge_ids = [edge_id for edge_id in edge_ids if edge_id in known]
            self._append_accesses(tenant, key, edge_ids, accessed_at)
        with contextlib.suppress(StoreError):  # of upkeep, which stays due, not of what was asked
            # By the table's version, which goes on where processes touch once each.
            if int(self.layout.dataset("accesses").version) % TOUCHES_A_ROUTINE == 0:
                self.routine(["accesses"])

    def _append_accesses(
        self, tenant: str, key: str, edge_ids: Sequence[str], accessed_at: datetime
    ) -> None:
        n = len(edge_ids)
        columns = [[tenant] * n, [key] * n, list(edge_ids), [accessed_at] * n]
        append_rows(self.layout, {"accesses": pa.table(columns, schema=ACCESSES)})

    # Reading

    def manifest(
        self,
        tenant: str | None = None,
        *,
        dialogue_keys: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        version: int | None = None,
    ) -> pa.Table:
        """Rows of ``sessions``, of one tenant or all; of some dialogues alone, by the index."""
        keys = None if dialogue_keys is None else tuple(dialogue_keys)
        return read_manifest(self.layout, Scope(tenant, keys), columns=columns, version=version)

    def visible(
        self,
        table: str,
        *,
        tenant: str | None = None,
        dialogue_key: str | None = None,
        version: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Visible rows of a table as one Arrow table."""
        scope = _scope(tenant, dialogue_key)
        if table == "sessions":
            return read_manifest(self.layout, scope, columns=columns, version=version)
        named = read_named(self.layout, scope, version)
        return read_visible(self.layout, table, scope, named, columns)

    def iter_visible(
        self,
        table: str,
        *,
        tenant: str | None = None,
        version: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Visible rows by batches, for tables that do not fit in memory.

        A failure that several runs met may come more than once here.
        """
        scope = Scope(tenant)
        named = read_named(self.layout, scope, version)
        return iter_visible(self.layout, table, scope, named, columns)

    def read_graph(self, tenant: str, dialogue_id: str, version: int | None = None) -> MemoryGraph:
        """One dialogue's graph.

        Raises:
            NotFoundError: the tenant has no session of this dialogue.
        """
        return read_graph(self.layout, tenant, dialogue_id, version)

    def dialogues(self, tenant: str) -> pa.Table:
        """One row a dialogue, by id, with ``n_sessions, n_turns, n_edges, first_at, last_at``."""
        columns = ("dialogue_id", "started_at", "n_turns", "n_edges")
        rows = self.manifest(tenant, columns=columns).group_by("dialogue_id")
        sums = rows.aggregate(
            [
                ([], "count_all"),
                ("n_turns", "sum"),
                ("n_edges", "sum"),
                ("started_at", "min"),
                ("started_at", "max"),
            ]
        )
        names = ["dialogue_id", "n_sessions", "n_turns", "n_edges", "first_at", "last_at"]
        return sums.rename_columns(names).sort_by("dialogue_id")

    def sessions_of(self, tenant: str, dialogue_id: str) -> pa.Table:
        """Manifest rows of one dialogue, by start and id.

        Raises:
            NotFoundError: the tenant has no session of this dialogue.
        """
        scope = Scope(dialogue_keys=(dialogue_key(tenant, dialogue_id),))
        rows = read_manifest(self.layout, scope)
        if rows.num_rows == 0:
            raise NotFoundError(f"Tenant {tenant!r} has no dialogue {dialogue_id!r} in {self.uri}.")
        return session_order(rows)

    def export_dialogue(self, tenant: str, dialogue_id: str) -> dict[str, Any]:
        """One memory as a JSON document; see :func:`glong.store.export.export_dialogue`.

        Raises:
            NotFoundError: the tenant has no session of this dialogue.
        """
        return export_dialogue(self.layout, tenant, dialogue_id)

    # Forgetting

    def forgotten(self, tenant: str | None = None, known: Forgotten | None = None) -> Forgotten:
        """What was forgotten and stays so, of one tenant or all; every writer is held against it.

        ``forgotten.strip(tenant, session)`` is a session without it.

        Args:
            tenant: whose; ``None`` for all.
            known: what was read of it before; given back if nothing was forgotten since.
        """
        if known is None:
            return read_forgotten(self.layout, tenant)
        return read_again(self.layout, known, tenant)

    def forget(self, tenant: str, target: Target, at: datetime) -> Receipt:
        """Forget for readers and for later builds; :meth:`purge` then removes it from the disk.

        Raises:
            NotFoundError: the tenant has no such thing.
            ConflictError: a purge holds the store; try again when it has ended.
        """
        with writing(self.layout):
            return forget(self.layout, tenant, target, at)

    def purge(self, now: datetime) -> Purge:
        """Remove from the disk what no reader sees: forgotten rows, garbage, old versions, indexes.

        Takes the store alone: writers are refused with a ``ConflictError`` until it ends. Versions
        before it can no longer be read. May be killed anywhere and be run again.

        Raises:
            ConflictError: another purge holds the store, or writers did not end in time.
        """
        with alone(self.layout) as lease:
            return purge(self.layout, now, lease.renew)

    @property
    def purge_due(self) -> bool:
        """Whether anything was forgotten since the last purge."""
        return is_purge_due(self.layout)

    # Keeping

    def routine(self, tables: Sequence[str] | None = None) -> tuple[str, ...]:
        """Upkeep that is due, beside running writers; returns what was done, as ``TABLE WORK``.

        Args:
            tables: only of these; ``None`` for all.
        """
        try:
            with writing(self.layout):
                return run_routine(self.layout, self.layout.tables if tables is None else tables)
        except ConflictError:  # a purge holds the store; what is due stays due
            return ()

    def compact(self, *, now: datetime, grace: timedelta = timedelta(hours=1)) -> Compaction:
        """Delete garbage, merge files, refresh indexes, drop old versions.

        Args:
            now: the present, aware.
            grace: younger rows and versions are left alone; longer than any read or wave takes.

        Raises:
            ConflictError: a writer was faster.
        """
        with writing(self.layout):
            return compact(self.layout, now=now, grace=grace)

    def status(self) -> Status:
        """Counts of rows, garbage, versions, files and index coverage."""
        return read_status(self.layout)

    def verify(self) -> list[Violation]:
        """Rules that the store breaks; empty if it is sound."""
        return verify(self.layout)

    def export(
        self, out_dir: Path, tenant: str | None = None, with_vectors: bool = False
    ) -> dict[str, int]:
        """Write ``TABLE.jsonl`` of every table into a folder; returns rows by table."""
        return export_tables(self.layout, out_dir, tenant=tenant, with_vectors=with_vectors)


def _scope(tenant: str | None, dialogue: str | None) -> Scope:
    return Scope(tenant, None if dialogue is None else (dialogue,))
