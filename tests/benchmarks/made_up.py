"""Memories made up for the benchmarks: words by Zipf's law, two speakers who are in most facts.

One memory goes through the product's own build, with fake models. A store of many memories takes
one built memory over and over, each time under other keys and with other vectors: rows as a build
writes them, made many times as fast.
"""

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glong import ids
from glong.build import Models, build_rows
from glong.memory import store_meta
from glong.models.fake import FakeEncoder, FakeScorer
from glong.store import Store, Wave
from glong.tables import FAILURES, built_schema
from glong.types import Extraction, Session, Triplet, Turn, Vectors

__all__ = ["DIMENSION", "EDGES_A_MEMORY", "fill_with_many", "fill_with_one"]

DIMENSION = 384
EDGES_A_MEMORY = 500
"""Of each memory in a store of many."""
TENANT = "default"
_TURNS_PER_SESSION = 25
_SESSIONS_PER_WAVE, _MEMORIES_PER_WAVE = 200, 100
_N_WORDS = 5_000
_START = datetime(2026, 1, 5, 10, tzinfo=UTC)
_SPEAKERS = ("Mira", "Tom")
_RELATIONS = ("like_food", "have_pet", "visit", "live_in", "work_at", "buy", "plan_to", "not_visit")
_N_VECTORS = 32_768


class FactOfEachTurn:
    """An extractor for made-up turns, whose first words are a fact: subject, relation, object."""

    fingerprint = "fact-of-each-turn"

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        """One fact a turn."""
        return [Extraction(tuple(map(_fact, session.turns)), n_windows=1) for session in sessions]


def _fact(turn: Turn) -> Triplet:
    subject, relation, first, second, *_ = turn.text.split()
    return Triplet(subject, relation, f"{first} {second}", turn.index)


def _models() -> Models:
    return Models(FactOfEachTurn(), FakeScorer(), FakeEncoder(DIMENSION))


def _sessions(dialogue_id: str, n_edges: int) -> Iterator[Session]:
    """A session a day, a fact a turn; two facts of three are of a speaker."""
    words = np.random.default_rng(0)
    for number in range(n_edges // _TURNS_PER_SESSION):
        drawn = np.minimum(words.zipf(1.3, (_TURNS_PER_SESSION, 14)), _N_WORDS)
        turns = []
        for index, row in enumerate(drawn):
            said = [f"w{word}" for word in row]
            subject = _SPEAKERS[index % 2] if index % 3 else said[0]
            relation = _RELATIONS[int(row[1]) % len(_RELATIONS)]
            text = " ".join([subject, relation, *said[2:]])
            turns.append(Turn(index, _SPEAKERS[index % 2], text))
        start = _START + timedelta(days=number)
        yield Session(dialogue_id, f"session-{number:06}", start, tuple(turns))


def fill_with_one(uri: str, n_edges: int) -> Store:
    """A store of one memory, ``dialogue-0``, by waves with upkeep as a build writes it."""
    models = _models()
    store = Store.create_or_open(uri, store_meta(models))
    sessions = list(_sessions("dialogue-0", n_edges))
    for first in range(0, len(sessions), _SESSIONS_PER_WAVE):
        wave = sessions[first : first + _SESSIONS_PER_WAVE]
        _append(store, build_rows(TENANT, wave, models))
    return store


def fill_with_many(uri: str, n_edges: int) -> Store:
    """A store of memories of ``EDGES_A_MEMORY`` edges, ``dialogue-0`` and on."""
    models = _models()
    store = Store.create_or_open(uri, store_meta(models))
    pattern = build_rows(TENANT, list(_sessions("pattern", EDGES_A_MEMORY)), models)
    random = np.random.default_rng(0)
    vectors = random.standard_normal((_N_VECTORS, DIMENSION), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    numbers = range(n_edges // EDGES_A_MEMORY)
    for first in range(0, len(numbers), _MEMORIES_PER_WAVE):
        wave = numbers[first : first + _MEMORIES_PER_WAVE]
        rows = [_another(pattern, number, vectors, random) for number in wave]
        _append(store, pa.concat_tables(rows))
    return store


def _another(
    pattern: pa.Table, number: int, vectors: Vectors, random: np.random.Generator
) -> pa.Table:
    """A built memory under another number's keys, with vectors from anywhere in the pool."""
    name = f"dialogue-{number}"
    n, session_ids = pattern.num_rows, pattern.column("session_id").to_pylist()
    keys = [ids.session_key(TENANT, name, session_id) for session_id in session_ids]
    columns = {
        "dialogue_id": pa.array([name] * n),
        "dialogue_key": pa.array([ids.dialogue_key(TENANT, name)] * n),
        "session_key": pa.array(keys),
    }
    for table in ("turns", "entities", "edges"):
        lists = pattern.column(table).combine_chunks()
        start = int(random.integers(0, _N_VECTORS - len(lists.values)))
        rows = _under(lists.values, f"{number:08x}", vectors[start:])
        columns[table] = pa.ListArray.from_arrays(lists.offsets, rows)
    schema = built_schema(DIMENSION)
    return pa.table([columns.get(c, pattern.column(c)) for c in schema.names], schema=schema)


def _under(rows: pa.StructArray, prefix: str, vectors: Vectors) -> pa.StructArray:
    """The same rows with ids that begin with the prefix, and with the first of the vectors."""
    columns = []
    for field, column in zip(rows.type, rows.flatten(), strict=True):
        if field.name.endswith("_id"):
            column = pc.binary_replace_slice(column, 0, len(prefix), prefix)
        elif field.name == "vector":
            flat = pa.array(vectors[: len(rows)].reshape(-1))
            column = pa.FixedSizeListArray.from_arrays(flat, DIMENSION)
        columns.append(column)
    return pa.StructArray.from_arrays(columns, fields=list(rows.type))


def _append(store: Store, built: pa.Table) -> None:
    store.append_wave(Wave(uuid.uuid4().hex, _START, built, FAILURES.empty_table()))
    store.routine()
