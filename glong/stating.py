"""Facts that a person states: put together, and written as a session of rows.

A shell over :mod:`glong.store.facts` and :func:`glong.build.stated_rows`.
"""

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from glong.build import stated_rows
from glong.errors import NotFoundError
from glong.graph import MemoryGraph
from glong.protocols import Encoder
from glong.store import Store
from glong.store.facts import Fact, Stated, edit_stated, fact_of, with_fact, without_fact
from glong.types import Edge

__all__ = ["corrected", "edge_of", "session_start", "state"]


def session_start(store: Store, tenant: str, dialogue_id: str, session_id: str) -> datetime | None:
    """When a session started; ``None`` where no time is known.

    Raises:
        NotFoundError: there is no such session.
    """
    rows = store.sessions_of(tenant, dialogue_id)
    rows = rows.filter(pc.equal(rows.column("session_id"), session_id))
    if rows.num_rows == 0:
        raise NotFoundError(f"Dialogue {dialogue_id!r} has no session {session_id!r}.")
    start: datetime | None = rows.column("started_at")[0].as_py()
    return start


def edge_of(graph: MemoryGraph, dialogue_id: str, edge_id: str) -> Edge:
    """An edge by its id.

    Raises:
        NotFoundError: there is no such edge.
    """
    if edge_id not in graph.edge_ids:
        raise NotFoundError(f"Dialogue {dialogue_id!r} has no edge {edge_id!r}; check the id.")
    return graph.edge(graph.edge_ids.index(edge_id))


def corrected(old: Edge, changes: Mapping[str, str], stated_by: str, now: datetime) -> Fact:
    """What an edge should have said, for the same time.

    Args:
        old: the edge.
        changes: ``subject``, ``relation`` or ``object`` -> what it should be.
        stated_by: who says so.
        now: the time where the edge has none.

    Raises:
        ConfigError: a part is empty.
    """
    said = {"subject": old.subject, "relation": old.relation, "object": old.object, **changes}
    time = old.created_at or now
    return fact_of(said["subject"], said["relation"], said["object"], time, stated_by)


def state(
    store: Store,
    tenant: str,
    encoder: Encoder,
    session: Stated,
    new: Fact,
    *,
    instead_of: int | None = None,
) -> str:
    """Write the facts of a reserved session, a new one among them.

    Args:
        store: where.
        tenant: whose.
        encoder: makes the vectors.
        session: names the session; what it holds is read.
        new: the fact.
        instead_of: turn index of a fact that it takes the place of.

    Returns:
        The edge id of the new fact.

    Raises:
        ConflictError: other writers were faster every time, or a purge holds the store.
    """
    index = -1

    def change(stated: Stated) -> Stated:
        nonlocal index
        kept = stated if instead_of is None else without_fact(stated, instead_of)
        changed, index = with_fact(kept, new)
        return changed

    def rows(stated: Stated) -> pa.Table:
        return stated_rows(tenant, stated.session(), stated.triplets(), encoder)

    return edit_stated(store, tenant, session, change, rows).edge_id(tenant, index)
