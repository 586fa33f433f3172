"""Does a store keep its own rules? Read from its rows, never from what a writer reported.

Works through the store in groups of dialogues, so that memory holds one group (or the largest
dialogue), not the store. An id is a hash over its session or dialogue, so uniqueness within a group
is uniqueness.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from glong import ids
from glong.entities import normalise
from glong.errors import StoreError
from glong.store.assembly import vectors
from glong.store.forgotten import Forgotten, read_forgotten
from glong.store.layout import Layout, read_meta
from glong.store.reading import Named, Scope, read_manifest, read_visible
from glong.tables import BUILT, FAILED, IDENTITY, stored_schemas

__all__ = ["Violation", "verify"]

GROUP_ROWS = 20_000
"""Rows of turns, entities and edges read at once: 30 MB with 384-dimensional vectors."""
UNIT_TOLERANCE = 1e-3
WEIGHT_TOLERANCE = 1e-6
VECTOR_TABLES = ("turns", "entities", "edges")


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that some rows of one table break.

    Attributes:
        table: its name.
        rule: a short snake_case word.
        detail: what is wrong, with the first example.
        n: rows (or sessions, for rules about sessions) that break it.
    """

    table: str
    rule: str
    detail: str
    n: int


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The visible rows of some dialogues; ``frames`` hold all columns but the vectors."""

    manifest: pl.DataFrame
    frames: dict[str, pl.DataFrame]
    norms: dict[str, pl.Series]
    forgotten: Forgotten


def verify(layout: Layout) -> list[Violation]:
    """Check every rule; an empty list is a sound store.

    Raises:
        StoreError: the store cannot be read at all.
    """
    found = [*_check_metadata(layout), *_check_manifest(layout)]
    for group in _groups(layout):
        for rule in _RULES:
            found += rule(group)
    return _summed(found)


def _summed(found: Sequence[Violation]) -> list[Violation]:
    """One a (table, rule), with the first detail and the sum of the counts."""
    sums: dict[tuple[str, str], Violation] = {}
    for one in found:
        first = sums.get((one.table, one.rule))
        n = one.n + (first.n if first else 0)
        detail = first.detail if first else one.detail
        sums[one.table, one.rule] = Violation(one.table, one.rule, detail, n)
    return list(sums.values())


def _violation(
    table: str, rule: str, what: str, bad: pl.DataFrame, id_column: str
) -> list[Violation]:
    """One violation if there are bad rows, with the first one's id as example."""
    if bad.is_empty():
        return []
    first = bad.get_column(id_column).sort()[0]
    return [Violation(table, rule, f"{what}; first: {id_column} {first}", bad.height)]


def _check_metadata(layout: Layout) -> Iterator[Violation]:
    schemas = stored_schemas(layout.meta.dimension)
    for table in layout.tables:
        dataset = layout.dataset(table)
        try:
            meta = read_meta(dataset)
        except StoreError as error:
            yield Violation(table, "metadata", str(error), 1)
            continue
        if meta != layout.meta:
            yield Violation(
                table, "metadata", f"{meta} differs from that of sessions, {layout.meta}", 1
            )
        if not dataset.schema.equals(schemas[table], check_metadata=False):
            yield Violation(table, "schema", "columns differ from what this glong writes", 1)


def _check_manifest(layout: Layout) -> list[Violation]:
    columns = ("session_key", "dialogue_key", "tenant", "dialogue_id", "session_id", "status")
    rows = _frame(read_manifest(layout, Scope(), columns=columns))
    names = rows.select("tenant", "dialogue_id", "session_id").rows()
    keys = pl.Series([ids.session_key(*name) for name in names], dtype=pl.String)
    dialogues = pl.Series([ids.dialogue_key(*name[:2]) for name in names], dtype=pl.String)
    wrong = (rows["session_key"] != keys) | (rows["dialogue_key"] != dialogues)
    status = ~rows["status"].is_in([BUILT, FAILED])
    found = _violation(
        "sessions", "keys", "keys are not the hashes of the ids", rows.filter(wrong), "session_key"
    )
    what = "status is neither built nor failed"
    found += _violation("sessions", "status", what, rows.filter(status), "session_key")
    return found + _duplicates("sessions", rows, "session_key")


def _groups(layout: Layout) -> Iterator[_Group]:
    manifest = read_manifest(layout, Scope())
    forgotten = read_forgotten(layout)
    frame = _frame(manifest)
    sizes = frame.group_by("dialogue_key", maintain_order=True).agg(
        pl.sum_horizontal("n_turns", "n_entities", "n_edges").sum().alias("rows")
    )
    part = (sizes["rows"].cum_sum() - 1) // GROUP_ROWS
    for keys in sizes.with_columns(part=part).partition_by("part", maintain_order=True):
        dialogues = keys["dialogue_key"]
        of_group = frame.filter(pl.col("dialogue_key").is_in(dialogues.implode()))
        yield _read_group(layout, of_group, dialogues, forgotten)


def _read_group(
    layout: Layout, manifest: pl.DataFrame, dialogues: pl.Series, forgotten: Forgotten
) -> _Group:
    scope = Scope(dialogue_keys=tuple(dialogues))
    named = Named.of(manifest.select("session_key", "batch_id").to_arrow().cast(_NAMED))
    frames, norms = {}, {}
    for table in (*VECTOR_TABLES, "failures"):
        rows = read_visible(layout, table, scope, named)
        if table in VECTOR_TABLES:
            norms[table] = _norms(rows)
            rows = rows.drop_columns("vector")
        frames[table] = _frame(rows)
    # A failure of a session that is not in the manifest counts for no session.
    frames["failures"] = frames["failures"].join(manifest, on="session_key", how="semi")
    return _Group(manifest, frames, norms, forgotten)


_NAMED = pa.schema([("session_key", pa.string()), ("batch_id", pa.string())])


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)  # a table never becomes a series
    return frame


def _norms(rows: pa.Table) -> pl.Series:
    """Length of each row's vector; NaN where the vector is missing or not finite."""
    column = rows.column("vector")
    lengths = np.full(rows.num_rows, np.nan)
    present = ~column.is_null().to_numpy()
    lengths[present] = np.linalg.norm(vectors(rows.filter(column.is_valid())), axis=1)
    return pl.Series("norm", lengths)


def _check_counts(group: _Group) -> list[Violation]:
    """The manifest's counts are those of the visible rows: nothing missing, nothing over."""
    found = []
    for table, rows in group.frames.items():
        counts = rows.group_by("session_key").len("found")
        joined = group.manifest.join(counts, on="session_key", how="left")
        bad = joined.filter(pl.col("found").fill_null(0) != pl.col(f"n_{table}").fill_null(-1))
        what = f"sessions whose n_{table} differs from their visible rows"
        found += _violation(table, "count", what, bad, "session_key")
    return found


def _check_vectors(group: _Group) -> list[Violation]:
    found = []
    for table, norms in group.norms.items():
        rows = group.frames[table].with_columns(norms)
        unit = (pl.col("norm") - 1).abs() <= UNIT_TOLERANCE
        bad = rows.filter(~unit | pl.col("norm").is_nan())
        what = "vectors that are missing, not finite or not of unit length"
        found += _violation(table, "unit_vector", what, bad, _ID[table])
    return found


_ID = {"turns": "turn_id", "entities": "entity_id", "edges": "edge_id"}


def _check_weights(group: _Group) -> list[Violation]:
    """Equation (3): w = S / S_max of its session, in (0, 1], and 1 for the largest.

    Where something was forgotten, the largest edge may be gone.
    """
    edges = group.frames["edges"].join(
        group.manifest.select("session_key", "max_score"), on="session_key"
    )
    weight = pl.col("weight").cast(pl.Float64)
    in_range = (weight > 0) & (weight <= 1)
    equal = (weight - pl.col("score") / pl.col("max_score")).abs() <= WEIGHT_TOLERANCE
    touched = [key for key in set(edges["dialogue_key"]) if group.forgotten.touches(key)]
    untouched = edges.filter(~pl.col("dialogue_key").is_in(touched))
    tops = untouched.group_by("session_key").agg(weight.max().alias("top"))
    bad_range, bad_ratio = _failing(edges, in_range), _failing(edges, equal)
    bad_top = _failing(tops, pl.col("top") >= 1 - WEIGHT_TOLERANCE)
    what = "sessions with edges but no weight of 1"
    return [
        *_violation("edges", "weight_range", "weights outside (0, 1]", bad_range, "edge_id"),
        *_violation("edges", "weight_ratio", "weights not score / max_score", bad_ratio, "edge_id"),
        *_violation("edges", "weight_top", what, bad_top, "session_key"),
    ]


def _failing(rows: pl.DataFrame, rule: pl.Expr) -> pl.DataFrame:
    """Rows where the rule does not hold; null fails it, NaN counts as above any number."""
    return rows.filter(~rule.fill_null(False))


def _duplicates(table: str, rows: pl.DataFrame, *columns: str) -> list[Violation]:
    bad = rows.group_by(columns).len().filter(pl.col("len") > 1)
    return _violation(
        table, "unique_id", f"values of {', '.join(columns)} that repeat", bad, columns[-1]
    )


def _check_unique(group: _Group) -> list[Violation]:
    return [
        *_duplicates("edges", group.frames["edges"], "edge_id"),
        *_duplicates("turns", group.frames["turns"], "turn_id"),
        *_duplicates("entities", group.frames["entities"], "session_key", "entity_id"),
    ]


def _check_references(group: _Group) -> list[Violation]:
    """Each edge's ends are entities of its session, and its turn is there with its index."""
    edges, entities, turns = (group.frames[name] for name in ("edges", "entities", "turns"))
    found = []
    for end in ("head_id", "tail_id"):
        lost = edges.join(
            entities,
            left_on=["session_key", end],
            right_on=["session_key", "entity_id"],
            how="anti",
        )
        found += _violation(
            "edges", end, f"{end} is no entity of the edge's session", lost, "edge_id"
        )
    lost = edges.join(turns, on=["session_key", "turn_id", "turn_index"], how="anti")
    what = "turn_id and turn_index name no turn of the edge's session"
    return [*found, *_violation("edges", "turn", what, lost, "edge_id")]


def _check_identity(group: _Group) -> list[Violation]:
    """Rows carry the identity that the manifest gives their session."""
    found = []
    for table, rows in group.frames.items():
        bad = rows.join(group.manifest, on=IDENTITY.names, how="anti")
        what = "rows whose tenant, dialogue or session differ from the manifest's"
        found += _violation(table, "identity", what, bad, "session_key")
    return found


def _check_keys(group: _Group) -> list[Violation]:
    """Ids are the hashes of what they name."""
    turns, entities, edges = (group.frames[table] for table in VECTOR_TABLES)
    columns = ("session_key", "turn_index", "subject", "relation", "object")
    hashes = {
        "turns": [ids.turn_id(*row) for row in turns.select("session_key", "turn_index").rows()],
        "entities": [
            ids.entity_id(dialogue, normalise(name))
            for dialogue, name in entities.select("dialogue_key", "name").rows()
        ],
        "edges": [
            ids.edge_id(key, index, (normalise(subject), relation, normalise(obj)))
            for key, index, subject, relation, obj in edges.select(columns).rows()
        ],
    }
    found = []
    for table, expected in hashes.items():
        rows = group.frames[table]
        bad = rows.filter(rows[_ID[table]] != pl.Series(expected, dtype=pl.String))
        what = "ids that are not the hash of what they name"
        found += _violation(table, "keys", what, bad, _ID[table])
    return found


def _check_forgotten(group: _Group) -> list[Violation]:
    """Nothing that was forgotten is visible; a purge takes out what a crash left."""
    found = []
    columns = {"turns": ("speaker", "text"), "edges": ("subject", "relation", "object")}
    for row in group.manifest.select("dialogue_key", "session_key").rows():
        if (marks := group.forgotten.of(*row)) is None:
            continue
        whole = marks.whole()
        for table, matches in (("turns", marks.turn), ("edges", marks.edge)):
            rows = group.frames[table].filter(pl.col("session_key") == row[1])
            lost = [whole or matches(*r) for r in rows.select(columns[table]).rows()]
            bad = rows.filter(pl.Series(lost, dtype=pl.Boolean))
            found += _violation(table, "forgotten", "rows that were forgotten", bad, _ID[table])
    return found


_RULES: tuple[Callable[[_Group], list[Violation]], ...] = (
    _check_counts,
    _check_vectors,
    _check_weights,
    _check_unique,
    _check_references,
    _check_identity,
    _check_keys,
    _check_forgotten,
)
