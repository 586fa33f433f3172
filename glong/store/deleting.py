"""Rows are deleted by hashes alone, some hundred at a time: Lance keeps predicates for a while."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from glong.store.layout import Layout, translated

__all__ = ["delete_by", "delete_where", "delete_writes", "deletions", "one_of"]

VALUES_A_DELETE = 1_000
"""Hashes in one predicate: 36 KB of text."""


def delete_where(layout: Layout, table: str, predicates: Iterable[str]) -> int:
    """Delete the rows that match any of the predicates; returns how many.

    Raises:
        ConflictError: a writer was faster.
        StoreError: the table cannot be written.
    """
    n = 0
    for where in predicates:
        with translated(f"delete from {table} of {layout.uri}"):
            n += int(layout.dataset(table).delete(where)["num_deleted_rows"])
    return n


def delete_by(layout: Layout, table: str, column: str, values: Sequence[str]) -> int:
    """Delete the rows that have one of the hashes in a column; returns how many."""
    starts = range(0, len(values), VALUES_A_DELETE)
    parts = (values[start : start + VALUES_A_DELETE] for start in starts)
    return delete_where(layout, table, (one_of(column, part) for part in parts))


def delete_writes(layout: Layout, table: str, writes: Collection[tuple[str, str]]) -> int:
    """Delete the rows of some (session key, batch id) pairs; returns how many."""
    return delete_where(layout, table, deletions(writes))


def deletions(writes: Collection[tuple[str, str]]) -> Iterator[str]:
    """Predicates that together match exactly the rows of the (session key, batch id) pairs."""
    sessions = defaultdict(list)
    for session_key, batch_id in sorted(writes):
        sessions[batch_id].append(session_key)
    for batch_id, keys in sessions.items():
        for start in range(0, len(keys), VALUES_A_DELETE):
            listed = one_of("session_key", keys[start : start + VALUES_A_DELETE])
            yield f"batch_id = '{batch_id}' AND {listed}"


def one_of(column: str, values: Iterable[str]) -> str:
    """A predicate: the column has one of these hashes."""
    listed = ", ".join(f"'{value}'" for value in sorted(values))
    return f"{column} IN ({listed})"
