"""Writing one wave: data rows first, the manifest last: a crash leaves nothing half visible.

A data row counts only if the manifest names its (session_key, batch_id). A restart writes under a
new batch id and lets orphans be. See ARCHITECTURE.md, "Exactly once".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata, write_fragments

from glong.errors import StoreError
from glong.store.layout import Layout, translated
from glong.tables import (
    DATA_TABLES,
    FAILURES,
    MANIFEST,
    built_schema,
    explode,
    manifest_rows,
    split_pending,
)

__all__ = [
    "FragmentBatch",
    "Wave",
    "append_fragments",
    "append_rows",
    "commit_wave_fragments",
    "first_of_each",
    "merge_failures",
    "merge_manifest",
    "write_wave",
    "write_wave_fragments",
]

CONFLICT_RETRIES = 50
REPLACED_IF_DIFFERENT = ("content_hash", "extractor", "scorer", "encoder", "status")
"""Manifest columns of which one must differ for a row to replace the one that is there."""


@dataclass(frozen=True, slots=True, eq=False)
class Wave:
    """What is committed at once.

    Attributes:
        batch_id: fresh random id of this write.
        built_at: when it was built.
        built: rows of ``built_schema``, one a session, no session twice. Of a ``pending`` one only
            the failures are kept.
        record_failures: rows of ``FAILURES`` that belong to no stored session.
        replace: replace the manifest row even where content and fingerprints are equal (``--rebuild
            all``).
        restore: these sessions were given again on purpose: lift what was forgotten of them.
        over: replace only manifest rows of these batches, whatever their content: what was read
            before must be what is replaced.
        add: add sessions that the manifest does not name. Not where all were read before: one that
            is gone was forgotten since.
    """

    batch_id: str
    built_at: datetime
    built: pa.Table
    record_failures: pa.Table
    replace: bool = False
    restore: bool = False
    over: tuple[str, ...] | None = None
    add: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class FragmentBatch:
    """What a worker has written and the driver has yet to commit; small, and can be pickled.

    Attributes:
        manifest: rows of ``MANIFEST``.
        failures: rows of ``FAILURES`` of sessions that stay pending.
        fragments: table name -> JSON of each fragment's metadata (about 400 bytes each).
        forgotten_version: of the table ``forgotten`` that the rows were held against.
    """

    manifest: pa.Table
    failures: pa.Table
    fragments: Mapping[str, tuple[str, ...]]
    forgotten_version: int = 0


def write_wave(layout: Layout, wave: Wave) -> int:
    """Commit a wave from rows; returns the new version of ``sessions``.

    Raises:
        StoreError: a session stands twice in the wave, or the store cannot be written.
        ConflictError: other writers were faster every time.
    """
    built = wave.built.cast(built_schema(layout.meta.dimension))
    settled, pending = split_pending(built, wave.batch_id)
    rows = manifest_rows(settled, wave.batch_id, wave.built_at)
    _check_unique(rows)
    append_rows(layout, explode(settled, wave.batch_id, layout.meta.dimension))
    merge_failures(layout, pa.concat_tables([wave.record_failures.cast(FAILURES), pending]))
    return merge_manifest(layout, rows, replace=wave.replace, over=wave.over, add=wave.add)


def append_rows(layout: Layout, tables: Mapping[str, pa.Table]) -> None:
    """Append to each table; where there is nothing to append no version is made."""
    for name, rows in tables.items():
        if rows.num_rows:
            with translated(f"append {rows.num_rows} rows to {name} of {layout.uri}"):
                lance.write_dataset(rows, layout.dataset(name), mode="append")


def merge_failures(layout: Layout, failures: pa.Table) -> None:
    """Add failures that are not there yet; equal ones have one id."""
    if failures.num_rows == 0:
        return
    with translated(f"write {failures.num_rows} failures to {layout.uri}"):
        merge = layout.dataset("failures").merge_insert("failure_id").when_not_matched_insert_all()
        merge = merge.conflict_retries(CONFLICT_RETRIES).use_index(False)
        merge.execute(first_of_each(failures, "failure_id"))


def merge_manifest(
    layout: Layout,
    rows: pa.Table,
    *,
    replace: bool = False,
    over: Sequence[str] | None = None,
    add: bool = True,
) -> int:
    """Name the sessions in the manifest: from here on their rows are visible.

    A row that is there is replaced if its content, fingerprints or status differ, so of two jobs
    that built the same sessions the first one's rows stay. With ``replace`` it is replaced in any
    case, with ``over`` if it is of one of these batches. Without ``add`` no session is added: one
    that was forgotten since it was read has no row any more, and stays away.

    Returns:
        The version of ``sessions`` that this made.
    """
    dataset = layout.dataset("sessions")
    if rows.num_rows:
        with translated(f"write {rows.num_rows} sessions to the manifest of {layout.uri}"):
            merge = dataset.merge_insert("session_key")
            condition = _of_batches(over) if over is not None else _differs()
            merge = merge.when_matched_update_all(condition=None if replace else condition)
            if add:
                merge = merge.when_not_matched_insert_all()
            # With a BTREE on the key such a merge fails in Lance 14: none is made or used.
            merge.conflict_retries(CONFLICT_RETRIES).use_index(False).execute(rows)
    return int(dataset.version)


def _differs() -> str:
    columns = REPLACED_IF_DIFFERENT
    return " or ".join(f"(target.{name} is distinct from source.{name})" for name in columns)


def _of_batches(batches: Sequence[str]) -> str:
    listed = ", ".join(f"'{batch}'" for batch in sorted(set(batches)))
    return f"target.batch_id IN ({listed})" if listed else "false"


def _check_unique(rows: pa.Table) -> None:
    """Lance would insert a new key as often as the source has it."""
    counts = pc.value_counts(rows.column("session_key"))
    for entry in counts.filter(pc.greater(counts.field("counts"), 1)).to_pylist():
        place = pc.index(rows.column("session_key"), entry["values"]).as_py()
        session = {k: rows.column(k)[place].as_py() for k in ("dialogue_id", "session_id")}
        raise StoreError(
            f"Session {session['session_id']!r} of dialogue {session['dialogue_id']!r} stands"
            f" {entry['counts']} times in one wave; allowed: once. Leave out repeated sessions."
        )


def first_of_each(table: pa.Table, column: str) -> pa.Table:
    """The first row for each value, in order."""
    places = pa.array(range(table.num_rows), pa.int64())
    numbered = pa.table({"value": table.column(column), "row": places})
    firsts = numbered.group_by("value").aggregate([("row", "min")]).column("row_min")
    return table.take(firsts.take(pc.sort_indices(firsts)))


def write_wave_fragments(
    layout: Layout, built: pa.Table, batch_id: str, built_at: datetime
) -> FragmentBatch:
    """On a worker: write the rows as files that no table names yet.

    Raises:
        StoreError: a session stands twice, or the store cannot be written.
    """
    built = built.cast(built_schema(layout.meta.dimension))
    settled, pending = split_pending(built, batch_id)
    rows = manifest_rows(settled, batch_id, built_at)
    _check_unique(rows)
    tables = explode(settled, batch_id, layout.meta.dimension)
    return FragmentBatch(
        rows, pending, {name: _write_files(layout, name, tables[name]) for name in DATA_TABLES}
    )


def _write_files(layout: Layout, name: str, rows: pa.Table) -> tuple[str, ...]:
    if rows.num_rows == 0:
        return ()
    with translated(f"write {rows.num_rows} rows for {name} of {layout.uri}"):
        dataset = layout.dataset(name)
        fragments = write_fragments(
            rows,
            dataset,
            data_storage_version=dataset.data_storage_version,  # else a commit mixes two formats
            storage_options=layout.storage_options,
        )
    return tuple(json.dumps(fragment.to_json()) for fragment in fragments)


def commit_wave_fragments(
    layout: Layout,
    batches: Sequence[FragmentBatch],
    record_failures: pa.Table,
    *,
    replace: bool = False,
) -> int:
    """On the driver: commit what workers wrote; returns the new version of ``sessions``.

    Committing a batch twice would add its rows twice.

    Raises:
        StoreError: a session stands twice in the wave, or the store cannot be written.
        ConflictError: other writers were faster every time.
    """
    rows = pa.concat_tables([MANIFEST.empty_table(), *(batch.manifest for batch in batches)])
    _check_unique(rows)
    append_fragments(layout, batches)
    failures = [record_failures.cast(FAILURES), *(batch.failures for batch in batches)]
    merge_failures(layout, pa.concat_tables(failures))
    return merge_manifest(layout, rows, replace=replace)


def append_fragments(layout: Layout, batches: Sequence[FragmentBatch]) -> None:
    """Append the files of all batches: one commit a table."""
    for name in DATA_TABLES:
        fragments = [text for batch in batches for text in batch.fragments[name]]
        if fragments:
            with translated(f"append {len(fragments)} files to {name} of {layout.uri}"):
                dataset = layout.dataset(name)
                append = lance.LanceOperation.Append(
                    [FragmentMetadata.from_json(text) for text in fragments]
                )
                lance.LanceDataset.commit(
                    dataset,
                    append,
                    read_version=dataset.version,
                    storage_options=layout.storage_options,
                )
