"""Accesses on their way to the store: gathered, then written many at a time; the latest counts."""

from collections.abc import Iterable
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from glong.ids import dialogue_key
from glong.store import Store
from glong.store.lease import writing
from glong.store.sweeping import sweep
from glong.store.waves import append_rows
from glong.tables import ACCESSES

__all__ = ["AccessBuffer", "write_accesses"]

MAX_HELD = 100_000
"""Edges whose access is held at most while the store cannot be written; the oldest go first."""

Key = tuple[str, str, str]
"""Tenant, dialogue key, edge id."""


class AccessBuffer:
    """What was retrieved since the last write; for one event loop."""

    def __init__(self) -> None:
        self._latest: dict[Key, datetime] = {}

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, tenant: str, dialogue_id: str, edge_ids: Iterable[str], at: datetime) -> None:
        """Note that edges were retrieved."""
        key = dialogue_key(tenant, dialogue_id)
        for edge_id in edge_ids:
            self._note((tenant, key, edge_id), at)
        while len(self._latest) > MAX_HELD:
            del self._latest[next(iter(self._latest))]

    def _note(self, key: Key, at: datetime) -> None:
        self._latest[key] = max(at, self._latest.get(key, at))

    def take(self) -> pa.Table:
        """All of it as rows of ``accesses``; the buffer is empty then."""
        taken, self._latest = self._latest, {}
        keys = list(zip(*taken, strict=True)) or [(), (), ()]
        columns = [*map(list, keys), list(taken.values())]
        return pa.table(columns, schema=ACCESSES)

    def put_back(self, rows: pa.Table) -> None:
        """Rows that could not be written, for the next time."""
        for row in rows.to_pylist():
            key = (row["tenant"], row["dialogue_key"], row["edge_id"])
            self._note(key, row["accessed_at"])


def write_accesses(store: Store, rows: pa.Table) -> int:
    """Append rows of ``accesses``, but for edges that were forgotten meanwhile; how many.

    One commit for all dialogues, where ``Store.touch`` makes one each.

    Raises:
        ConflictError: a purge holds the store; the same rows can be written when it has ended.
        StoreError: the store cannot be written.
    """
    if rows.num_rows == 0:
        return 0
    with writing(store.layout):
        forgotten = store.forgotten()
        keys = pc.unique(rows.column("dialogue_key")).to_pylist()
        touched = [key for key in keys if forgotten.touches(key)]
        rows = _of_known_edges(store, rows, touched)
        append_rows(store.layout, {"accesses": rows})
        if store.layout.dataset("forgotten").version != forgotten.version:
            sweep(store.layout, keys)
    return int(rows.num_rows)


def _of_known_edges(store: Store, rows: pa.Table, dialogue_keys: Iterable[str]) -> pa.Table:
    for key in dialogue_keys:
        edges = store.visible("edges", dialogue_key=key, columns=["edge_id"]).column("edge_id")
        known = pc.is_in(rows.column("edge_id"), value_set=edges.combine_chunks())
        rows = rows.filter(pc.or_(known, pc.not_equal(rows.column("dialogue_key"), key)))
    return rows
