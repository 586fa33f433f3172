"""Built sessions without what was forgotten. Pure; every writer passes its rows through here.

The same function makes a stored session forget a part and keeps a part from coming back, so both
end with the same rows. What is left keeps its scores and weights: ``max_score`` stays the session's
largest S, also where its edge is gone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glong import ids
from glong.store.forgotten import Forgotten, SessionMarks
from glong.tables import DATA_TABLES, nested
from glong.types import Session, Turn

__all__ = ["BY_HAND", "LeftOut", "by_hand_id", "is_by_hand", "leave_out", "replace_column"]

BY_HAND = "by-hand"
"""Session id of facts that were stated by hand; extractor and scorer of such sessions too."""
_LOOKED_AT = {
    "turns": ("turn_index", "speaker", "text", "time"),
    "entities": ("entity_id",),
    "edges": ("subject", "relation", "object", "turn_index", "head_id", "tail_id"),
    "failures": ("message", "raw"),
}


def by_hand_id(session_id: str | None = None) -> str:
    """Id of the session that holds the facts stated by hand, of a dialogue or about a session."""
    return BY_HAND if session_id is None else f"{BY_HAND}:{session_id}"


def is_by_hand(session_id: str) -> bool:
    """Whether the id is reserved for facts stated by hand."""
    return session_id == BY_HAND or session_id.startswith(f"{BY_HAND}:")


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """What is left of built sessions, and what is not.

    Attributes:
        built: the sessions that are left, in order, as rows of ``built_schema``.
        gone: keys of the sessions that were left out as a whole.
        changed: keys of those that lost a part.
        rows: table -> rows left out, ``sessions`` included.
    """

    built: pa.Table
    gone: tuple[str, ...]
    changed: tuple[str, ...]
    rows: Counter[str]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Which rows of one session are kept.

    Attributes:
        masks: table -> whether each row is kept.
        content_hash: the session's new one if turns are left out.
        counted: whether as many failures are there as the session is said to have.
    """

    masks: Mapping[str, Sequence[bool]]
    content_hash: str | None = None
    counted: bool = True

    @property
    def complete(self) -> bool:
        return self.counted and all(all(mask) for mask in self.masks.values())


def leave_out(built: pa.Table, forgotten: Forgotten) -> LeftOut:
    """Drop forgotten sessions, turns with their edges, edges, and entities no edge names any more.

    A session that loses a turn or an edge keeps no failures either: raw output of a model may
    repeat any of its turns. One that loses nothing loses the failures that tell a forgotten name.
    """
    keys = built.select(["dialogue_key", "session_key"]).to_pylist() if forgotten else []
    marks = [forgotten.of(row["dialogue_key"], row["session_key"]) for row in keys]
    if not any(marks):
        return LeftOut(built, (), (), Counter())
    flat = {name: _Flat.of(built.column(name).combine_chunks()) for name in DATA_TABLES}
    headings = built.select(
        ["dialogue_id", "session_id", "started_at", "content_hash", "n_failures"]
    )
    kept = {
        place: _decide(of_session, headings.slice(place, 1).to_pylist()[0] | _parts(flat, place))
        for place, of_session in enumerate(marks)
        if of_session is not None
    }
    return _apply(built, flat, kept)


@dataclass(frozen=True, slots=True, eq=False)
class _Flat:
    """One nested column: all its rows, and which are whose."""

    rows: pa.StructArray
    starts: np.ndarray[tuple[int], np.dtype[np.int64]]

    @classmethod
    def of(cls, lists: pa.ListArray) -> "_Flat":
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return cls(lists.flatten(), starts)

    def of_session(self, place: int, columns: Sequence[str]) -> list[dict[str, Any]]:
        start, stop = self.starts[place : place + 2]
        part = pa.Table.from_struct_array(self.rows.slice(start, stop - start))
        rows: list[dict[str, Any]] = part.select(columns).to_pylist()
        return rows


def _parts(flat: Mapping[str, _Flat], place: int) -> dict[str, Any]:
    return {name: flat[name].of_session(place, columns) for name, columns in _LOOKED_AT.items()}


def _decide(marks: SessionMarks, session: Mapping[str, Any]) -> _Kept | None:
    """What is kept of one session; ``None`` if nothing is."""
    turns, edges = session["turns"], session["edges"]
    if marks.whole():
        return None
    turn_ok = {turn["turn_index"]: not marks.turn(turn["speaker"], turn["text"]) for turn in turns}
    edge_ok = [  # a session that another replaced while it was read may have lost its turns alone
        turn_ok.get(edge["turn_index"], False)
        and not marks.edge(edge["subject"], edge["relation"], edge["object"])
        for edge in edges
    ]
    kept_edges = [edge for edge, ok in zip(edges, edge_ok, strict=True) if ok]
    if is_by_hand(session["session_id"]):  # such a turn says its fact and nothing else
        stated = {edge["turn_index"] for edge in kept_edges}
        turn_ok = {index: ok and index in stated for index, ok in turn_ok.items()}
    if turns and not any(turn_ok.values()):
        return None
    complete = all(edge_ok) and all(turn_ok.values())
    used = {edge[end] for edge in kept_edges for end in ("head_id", "tail_id")}
    masks = {
        "turns": [turn_ok[turn["turn_index"]] for turn in turns],
        "edges": edge_ok,
        "entities": [complete or row["entity_id"] in used for row in session["entities"]],
        "failures": [
            complete and not marks.failure(row["message"], row["raw"])
            for row in session["failures"]
        ],
    }
    content_hash = None if all(masks["turns"]) else _content_hash(session, masks["turns"])
    # A sweep may take failures of a session that a writer beside it has yet to name.
    return _Kept(masks, content_hash, len(session["failures"]) == session["n_failures"])


def _content_hash(session: Mapping[str, Any], kept: Sequence[bool]) -> str:
    """Hash of the session as a later build will see it, without the forgotten turns.

    A turn without a time was stored with its session's start. Which of two readings the input had
    is told by the hash of the whole; if neither is right, an empty hash has it built again once.
    """
    identity = (session["dialogue_id"], session["session_id"], session["started_at"])
    turns = tuple(
        Turn(t["turn_index"], t["speaker"], t["text"], t["time"]) for t in session["turns"]
    )
    without = tuple(replace(t, time=None) if t.time == session["started_at"] else t for t in turns)
    for reading in (turns, without):
        if ids.content_hash(Session(*identity, reading)) == session["content_hash"]:
            left = tuple(turn for turn, ok in zip(reading, kept, strict=True) if ok)
            return ids.content_hash(Session(*identity, left))
    return ""


def _apply(built: pa.Table, flat: Mapping[str, _Flat], kept: Mapping[int, _Kept | None]) -> LeftOut:
    """Cut the rows that are not kept out of the table."""
    here = pa.array([kept.get(place, True) is not None for place in range(built.num_rows)])
    rows: Counter[str] = Counter()
    for name in DATA_TABLES:
        mask, lengths = _mask(flat[name], name, kept)
        column = nested(flat[name].rows.filter(pa.array(mask)), lengths.tolist())
        built = replace_column(built, name, column)
        built = replace_column(built, f"n_{name}", pa.array(lengths, pa.int32()))
        rows[name] = int(len(mask) - mask.sum())
    hashes = built.column("content_hash").to_pylist()
    for place, of_session in kept.items():
        if of_session is not None and of_session.content_hash is not None:
            hashes[place] = of_session.content_hash
    built = replace_column(built, "content_hash", pa.array(hashes, pa.string()))
    keys = built.column("session_key").to_pylist()
    gone = tuple(keys[place] for place, k in kept.items() if k is None)
    changed = tuple(keys[place] for place, k in kept.items() if k is not None and not k.complete)
    rows["sessions"] = len(gone)
    return LeftOut(built.filter(here), gone, changed, +rows)


def _mask(
    flat: _Flat, name: str, kept: Mapping[int, _Kept | None]
) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Which rows of a nested column are kept, and how many of each session."""
    mask = np.ones(int(flat.starts[-1]), dtype=np.bool_)
    for place, of_session in kept.items():
        start, stop = flat.starts[place : place + 2]
        mask[start:stop] = False if of_session is None else of_session.masks[name]
    counts = np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])
    return mask, np.diff(counts[flat.starts])


def replace_column(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    """The table with other values in one of its columns."""
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), column)
