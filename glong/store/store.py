"""The store as one object; each method is a few lines over the modules beside it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from glong.errors import NotFoundError
from glong.graph import MemoryGraph
from glong.ids import dialogue_key
from glong.store.checks import Violation, verify
from glong.store.compaction import Compaction, compact
from glong.store.export import export_tables
from glong.store.layout import Layout, StoreMeta, create_or_open_layout, open_layout
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
from glong.store.upkeep import run_routine
from glong.store.waves import (
    FragmentBatch,
    Wave,
    append_rows,
    commit_wave_fragments,
    write_wave,
    write_wave_fragments,
)
from glong.tables import ACCESSES

__all__ = ["Store"]


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

    def append_wave(self, wave: Wave) -> int:
        """Commit a wave: data rows, then the manifest; returns the new version.

        Raises:
            StoreError: a session stands twice in it, or the store cannot be written.
            ConflictError: other writers were faster every time.
        """
        return write_wave(self.layout, wave)

    def write_fragments(self, built: pa.Table, batch_id: str, built_at: datetime) -> FragmentBatch:
        """On a worker: write the rows of built sessions as files that nothing names yet."""
        return write_wave_fragments(self.layout, built, batch_id, built_at)

    def commit_fragments(
        self,
        batches: Sequence[FragmentBatch],
        record_failures: pa.Table,
        *,
        replace: bool = False,
    ) -> int:
        """On the driver: commit what workers wrote as one wave, each batch once."""
        return commit_wave_fragments(self.layout, batches, record_failures, replace=replace)

    def touch(
        self, tenant: str, dialogue_id: str, edge_ids: Sequence[str], accessed_at: datetime
    ) -> None:
        """Record that edges were retrieved; the latest time counts from the next load on."""
        n = len(edge_ids)
        columns = [
            [tenant] * n,
            [dialogue_key(tenant, dialogue_id)] * n,
            list(edge_ids),
            [accessed_at] * n,
        ]
        append_rows(self.layout, {"accesses": pa.table(columns, schema=ACCESSES)})

    # Reading

    def manifest(
        self,
        tenant: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        version: int | None = None,
    ) -> pa.Table:
        """Rows of ``sessions``, of one tenant or all."""
        return read_manifest(self.layout, Scope(tenant), columns=columns, version=version)

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

    def forgotten_keys(self, tenant: str) -> frozenset[str]:
        """Keys of what this tenant has had forgotten, and which stays so."""
        rows = self.visible("forgotten", tenant=tenant, columns=["key"])
        return frozenset(rows.column("key").to_pylist())

    # Keeping

    def routine(self) -> tuple[str, ...]:
        """Upkeep that is due, beside running writers; returns what was done, as ``TABLE WORK``."""
        return run_routine(self.layout)

    def compact(self, *, now: datetime, grace: timedelta = timedelta(hours=1)) -> Compaction:
        """Delete garbage, merge files, refresh indexes, drop old versions.

        Args:
            now: the present, aware.
            grace: younger rows and versions are left alone; longer than any read or wave takes.

        Raises:
            ConflictError: a writer was faster.
        """
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
