"""Built sessions made by hand, correct in every rule that ``verify`` checks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from glong import ids
from glong.store import Forgotten, Store, StoreMeta, Wave, reading
from glong.store.forgotten import Kind, Mark, keyed
from glong.store.regroup import read_built
from glong.store.waves import write_wave
from glong.tables import DATA_TABLES, FAILURES, built_schema, failure_struct, record_failures_to
from glong.types import Failure, Place

DIMENSION = 4
META = StoreMeta(encoder="fake-4", dimension=DIMENSION, prompt_version="p1", glong_version="0.1.0")
START = datetime(2026, 1, 5, 10, tzinfo=UTC)
NO_FAILURES = FAILURES.empty_table()


def unit_vector(text: str, dimension: int = DIMENSION) -> Any:
    """The same text gives the same unit vector."""
    vector = np.random.default_rng(list(text.encode())).normal(size=dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def built_session(
    dialogue: str,
    session: str,
    *,
    tenant: str = "default",
    day: int = 0,
    facts: Iterable[tuple[str, str, str]] = (("Mira", "likes", "corn"), ("Mira", "has_pet", "Rex")),
    status: str = "built",
    content: str = "c1",
    failures: Iterable[Failure] = (),
    timed: bool = True,
    dimension: int = DIMENSION,
) -> dict[str, Any]:
    """One row of ``built_schema`` as a dict: one turn and one edge a fact."""
    dialogue_key = ids.dialogue_key(tenant, dialogue)
    key = ids.session_key(tenant, dialogue, session)
    start = START + timedelta(days=day) if timed else None
    facts = list(facts)
    scores = [1.0 + i for i in range(len(facts))]
    top = max(scores, default=None)
    names = sorted({name for s, _, o in facts for name in (s, o)})
    turns, edges = [], []
    for i, (subject, relation, obj) in enumerate(facts):
        text = f"{subject} {relation} {obj}"
        turns.append(
            {
                "turn_id": ids.turn_id(key, i),
                "turn_index": i,
                "speaker": subject,
                "text": text,
                "time": start,
                "vector": unit_vector("turn " + text, dimension),
            }
        )
        edges.append(
            {
                "edge_id": ids.edge_id(key, i, (subject.lower(), relation, obj.lower())),
                "head_id": ids.entity_id(dialogue_key, subject.lower()),
                "tail_id": ids.entity_id(dialogue_key, obj.lower()),
                "subject": subject,
                "relation": relation,
                "object": obj,
                "turn_index": i,
                "turn_id": ids.turn_id(key, i),
                "score": scores[i],
                "weight": scores[i] / max(scores),
                "created_at": start,
                "accessed_at": start,
                "vector": unit_vector(text, dimension),
            }
        )
    entities = [
        {
            "entity_id": ids.entity_id(dialogue_key, name.lower()),
            "name": name,
            "aliases": [name.upper()],
            "vector": unit_vector(name, dimension),
        }
        for name in names
    ]
    nested = [failure_struct(f, ids.failure_id(key, f)) for f in failures]
    return {
        "session_key": key,
        "tenant": tenant,
        "dialogue_id": dialogue,
        "session_id": session,
        "dialogue_key": dialogue_key,
        "started_at": start,
        "status": status,
        "content_hash": content,
        "extractor": "x",
        "scorer": "s",
        "encoder": "fake-4",
        "n_turns": len(turns),
        "n_triplets": len(facts),
        "n_edges": len(edges),
        "n_entities": len(entities),
        "n_failures": len(nested),
        "max_score": top,
        "turns": turns,
        "entities": entities,
        "edges": edges,
        "failures": nested,
    }


def built(*sessions: dict[str, Any], dimension: int = DIMENSION) -> pa.Table:
    """Rows of ``built_schema``."""
    return pa.Table.from_pylist(list(sessions), built_schema(dimension))


def wave(batch_id: str, *sessions: dict[str, Any], replace: bool = False) -> Wave:
    """A wave without record failures."""
    return Wave(batch_id, START, built(*sessions), NO_FAILURES, replace)


def broken_line(line: int) -> Failure:
    """A failure of reading one line of an input."""
    return Failure("read", "missing_field", "no speaker", "{}", Place("in.jsonl", line, "turns"))


def record_failures(*failures: Failure, batch_id: str = "b0") -> pa.Table:
    """Failures that belong to no session, as rows of the table."""
    structs = [failure_struct(f, ids.record_failure_id("default", f)) for f in failures]
    return record_failures_to(structs, "default", batch_id)


def forgotten(dialogue_key: str, *marks: Mark) -> Forgotten:
    """Marks of one dialogue, as they would be read from a store."""
    secret = "0f" * 16
    dialogue = frozenset({keyed(secret, Kind.DIALOGUE, dialogue_key)})
    times = {keyed(secret, mark.kind, *mark.parts): 1 for mark in marks}
    looked_for = dialogue if any(m.kind is Kind.MENTION for m in marks) else frozenset[str]()
    return Forgotten((secret,), times, dialogue, looked_for, latest=1)


def new_store(path: object) -> Store:
    """An empty store."""
    return Store.create_or_open(str(path), META)


def rewritten(store: Store, batch_id: str = "anew") -> None:
    """Another names every session anew, with the same rows, and deletes those of before."""
    rows = read_built(store.layout, store.manifest())
    write_wave(store.layout, Wave(batch_id, START, rows, NO_FAILURES, replace=True))
    for table in DATA_TABLES:
        store.layout.dataset(table).delete(f"batch_id != '{batch_id}'")


def when_read(
    patch: pytest.MonkeyPatch,
    table: str,
    other: Callable[[], object],
    columns: Sequence[str] | None = None,
) -> None:
    """Have something else happen right before visible rows of a table are read for once."""
    real = reading.iter_visible

    def late(layout: Any, name: str, scope: Any, named: Any, wanted: Any) -> Iterator[Any]:
        if name == table and (columns is None or list(wanted) == list(columns)):
            patch.setattr(reading, "iter_visible", real)
            other()
        return real(layout, name, scope, named, wanted)

    patch.setattr(reading, "iter_visible", late)
