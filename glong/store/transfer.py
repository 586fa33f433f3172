"""Stored sessions weighed or embedded again, and moved from an export or another store.

Everything is written in waves through :meth:`~glong.store.Store.append_wave`, so what was forgotten
stays so. Each function can be stopped anywhere and be called again: what is done is not done twice.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glong.errors import ConfigError, ModelError
from glong.protocols import Encoder, Scorer
from glong.store.deleting import delete_by
from glong.store.forgotten import FAILED_COLUMNS, add_secrets
from glong.store.lease import writing
from glong.store.leaving_out import BY_HAND, leave_out, replace_column
from glong.store.origins import Marks, Tables, in_parts
from glong.store.regroup import read_built
from glong.store.store import Store
from glong.store.sweeping import sweep
from glong.store.waves import Wave, append_rows
from glong.tables import BUILT, FAILURES, built_schema, nested
from glong.types import Triplet, Vectors
from glong.weighting import normalise, triplet_text, turn_text

__all__ = ["add_rows", "embedded_texts", "reweigh"]


def reweigh(
    store: Store, scorer: Scorer, now: datetime, tenant: str | None = None
) -> Iterator[int]:
    """Weigh the edges of all visible sessions again; yields the sessions of each wave.

    Those that this scorer has weighed, those that failed and facts by hand are left as they are.
    A session without edges only learns that it was weighed, so that no build takes it for stale.
    Only what is stored is read: edges that were forgotten count no more in a session's S_max.

    Raises:
        ModelError: the scorer gave something that is no score.
        ConflictError: a purge holds the store.
    """
    manifest = store.manifest(tenant)
    done = pc.is_in(
        manifest["scorer"], value_set=pa.array([scorer.fingerprint, BY_HAND], pa.string())
    )
    todo = pc.and_(pc.invert(done), pc.equal(manifest["status"], BUILT))
    for part in in_parts(manifest.filter(todo)):
        built = _with_scores(read_built(store.layout, part), scorer)
        over = tuple(part["batch_id"].to_pylist())
        none = FAILURES.empty_table()
        store.append_wave(Wave(uuid.uuid4().hex, now, built, none, over=over, add=False))
        store.routine()
        yield part.num_rows


def _with_scores(built: pa.Table, scorer: Scorer) -> pa.Table:
    texts = [[_edge_text(e) for e in edges] for edges in _rows(built, "edges", _EDGE)]
    scores = [np.asarray(s, dtype=np.float64) for s in scorer.weigh(texts)]
    if [len(s) for s in scores] != [len(t) for t in texts]:
        raise ModelError("The scorer did not give one score an edge.", hint="Check its weights.")
    values = {
        "score": np.concatenate([np.zeros(0), *scores]),
        "weight": np.concatenate([np.zeros(0), *map(normalise, scores)]),
    }
    built = _with_fields(built, "edges", values)
    tops = [float(s.max()) if len(s) else None for s in scores]
    built = replace_column(built, "max_score", pa.array(tops, pa.float64()))
    return replace_column(
        built, "scorer", pa.array([scorer.fingerprint] * built.num_rows, pa.string())
    )


_EDGE = ("subject", "relation", "object")


def _rows(built: pa.Table, name: str, columns: Iterable[str]) -> list[list[dict[str, Any]]]:
    """The nested rows of each session, with some of their columns."""
    lists = built[name].combine_chunks()
    rows = pa.Table.from_struct_array(lists.flatten()).select(list(columns)).to_pylist()
    left = iter(rows)
    return [[next(left) for _ in range(n or 0)] for n in pc.list_value_length(lists).to_pylist()]


def _edge_text(edge: Mapping[str, str]) -> str:
    return triplet_text(Triplet(edge["subject"], edge["relation"], edge["object"], 0))


def _with_fields(built: pa.Table, name: str, values: Mapping[str, Any]) -> pa.Table:
    """Put other values into fields of a nested column."""
    lists = built[name].combine_chunks()
    kind = built.schema.field(name).type.value_type
    rows = pa.Table.from_struct_array(lists.flatten())
    arrays = [
        pa.array(values[field.name], field.type)
        if field.name in values
        else rows[field.name].combine_chunks()
        for field in kind
    ]
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_pylist()
    return replace_column(
        built, name, nested(pa.StructArray.from_arrays(arrays, fields=list(kind)), lengths)
    )


def embedded_texts(built: pa.Table) -> dict[str, list[str]]:
    """What the vectors of turns, entities and edges are of, in the order of their rows."""
    turns, entities, edges = (
        [row for of_session in _rows(built, name, columns) for row in of_session]
        for name, columns in (
            ("turns", ("speaker", "text")),
            ("entities", ("name",)),
            ("edges", _EDGE),
        )
    )
    return {
        "turns": [turn_text(turn["speaker"], turn["text"]) for turn in turns],
        "entities": [entity["name"] for entity in entities],
        "edges": [_edge_text(edge) for edge in edges],
    }


def _with_vectors(built: pa.Table, encoder: Encoder) -> pa.Table:
    for name, texts in embedded_texts(built).items():
        if not texts:
            continue
        built = _with_fields(built, name, {"vector": _column(encoder.encode(texts))})
    return replace_column(
        built, "encoder", pa.array([encoder.fingerprint] * built.num_rows, pa.string())
    )


def _column(vectors: Vectors) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def add_rows(store: Store, tables: Tables, now: datetime, encoder: Encoder | None) -> Iterator[int]:
    """Add everything to a store; yields the sessions of each wave that were not there.

    A session that is there with other content or of other models is replaced, unless it is built
    again meanwhile. Marks come first and once more at the end: what was forgotten there, before or
    meanwhile, is left out here and taken out of what is here.

    Args:
        store: where to.
        tables: what.
        now: the present, aware.
        encoder: embeds what has no vectors of the store's encoder.

    Raises:
        ConfigError: vectors are to be made and there is no encoder, or another one.
        ConflictError: a purge holds the store.
    """
    embeds = tables.encoder != store.meta.encoder
    if embeds and (encoder is None or encoder.fingerprint != store.meta.encoder):
        raise ConfigError(
            f"The store {store.uri} has vectors of encoder {store.meta.encoder}, the rows have"
            f" {tables.encoder or 'none'}; give the models of the store."
        )
    _add_marks(store, tables.marks())
    _sweep(store)  # also where no mark is new: an earlier run may have been stopped here
    present, forgotten = _Present.of(store), store.forgotten()
    for built in tables.parts:
        forgotten = store.forgotten(known=forgotten)
        left = leave_out(built, forgotten).built
        part, over = present.new(_set_encoder(left, store.meta.encoder))
        if part.num_rows:
            part = _with_vectors(part, encoder) if embeds and encoder else part
            wave = Wave(uuid.uuid4().hex, now, part, FAILURES.empty_table(), over=over)
            store.append_wave(wave, forgotten)
            store.routine()
        yield part.num_rows
    _add_failures(store, tables.failures, now)
    _add_accesses(store, tables.accesses)
    if _add_marks(store, tables.marks()):
        _sweep(store)


def _add_marks(store: Store, marks: Marks) -> int:
    """Returns how many are new; a purge must not clean up files that are about to be named."""
    if marks.secrets:
        with writing(store.layout):
            add_secrets(store.layout, marks.secrets)
    return _append_new(store, "forgotten", marks.rows)


def _sweep(store: Store) -> None:
    """Take out of the store what its marks match, failures that belong to no session too."""
    with writing(store.layout):
        keys = (store.visible(t, columns=["dialogue_key"]) for t in ("sessions", "failures"))
        sweep(store.layout, pa.concat_tables(keys)["dialogue_key"].to_pylist())
        failures = store.layout.dataset("failures").to_table(
            columns=list(FAILED_COLUMNS), filter="session_key = ''"
        )
        kept = store.forgotten().without(failures)["failure_id"].combine_chunks()
        lost = pc.invert(pc.is_in(failures["failure_id"], value_set=kept))
        ids = failures["failure_id"].filter(lost).to_pylist()
        delete_by(store.layout, "failures", "failure_id", ids)


def _add_failures(store: Store, failures: pa.Table, now: datetime) -> None:
    """Failures that belong to no session here and are not there yet."""
    there = store.layout.dataset("failures").to_table(columns=["failure_id"])["failure_id"]
    known = pc.is_in(failures["failure_id"], value_set=there.combine_chunks())
    new = failures.filter(pc.invert(known))
    if new.num_rows:
        none = built_schema(store.meta.dimension).empty_table()
        store.append_wave(Wave(uuid.uuid4().hex, now, none, new))


def _add_accesses(store: Store, accesses: pa.Table) -> None:
    """Accesses of edges that are here: others may have been forgotten."""
    if accesses.num_rows:
        edges = store.visible("edges", columns=["edge_id"])["edge_id"].combine_chunks()
        here = pc.is_in(accesses["edge_id"], value_set=edges)
        _append_new(store, "accesses", accesses.filter(here))


def _set_encoder(built: pa.Table, encoder: str) -> pa.Table:
    return replace_column(built, "encoder", pa.array([encoder] * built.num_rows, pa.string()))


_SAME = ("session_key", "content_hash", "extractor", "scorer", "encoder", "status", "n_edges")


@dataclass(frozen=True, slots=True, eq=False)
class _Present:
    """The sessions that a store had when it was read: rows, and the place of each by its key."""

    rows: pa.Table
    places: Mapping[str, int]

    @classmethod
    def of(cls, store: Store) -> "_Present":
        rows = store.manifest(columns=[*_SAME, "batch_id"])
        keys = rows["session_key"].to_pylist()
        return cls(rows, {key: place for place, key in enumerate(keys)})

    def new(self, built: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
        """Those not there, or not with this content and of these models; batches they replace."""
        places = [self.places.get(key) for key in built["session_key"].to_pylist()]
        there = self.rows.take(pa.array(places, pa.int64()))
        rows = (zip(*t.select(_SAME).to_pydict().values(), strict=True) for t in (built, there))
        mask = pa.array([one != other for one, other in zip(*rows, strict=True)], pa.bool_())
        batches = there["batch_id"].filter(mask).drop_null()
        return built.filter(mask), tuple(batches.to_pylist())


def _append_new(store: Store, table: str, rows: pa.Table) -> int:
    """Add rows that are not there yet, by all their columns; returns how many."""
    names = rows.column_names
    with writing(store.layout):
        there = store.layout.dataset(table).to_table(columns=names)
        known = set(zip(*there.to_pydict().values(), strict=True))
        new = [row not in known for row in zip(*rows.to_pydict().values(), strict=True)]
        append_rows(store.layout, {table: rows.filter(pa.array(new, pa.bool_()))})
    return sum(new)
