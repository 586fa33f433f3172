"""Sessions -> rows of the store, in four steps that batch jobs, serving and embedded use share.

``prepare`` (ids) -> ``extract_rows`` -> ``weigh_rows`` -> ``embed_rows``; ``build_rows`` is all.
Each step takes and returns one Arrow table with one row a session, same order, same number of
rows, and needs one model at most, so that a pipeline can put each on its own workers. Pure but for
the models: the same sessions and fingerprints give the same rows, whatever the batch. Knows
    nothing of stores or Ray.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glong import ids
from glong.entities import Names, normalise, resolve_triplets
from glong.errors import ModelError
from glong.protocols import Encoder, Extractor, Scorer
from glong.store.leaving_out import BY_HAND
from glong.tables import (
    BUILT,
    EXTRACTED,
    FAILED,
    PENDING,
    WEIGHED,
    built_schema,
    failure_struct,
    nested,
    row_types,
    sessions_from,
    sessions_to,
    struct_rows,
    triplet_structs,
    triplets_from,
    with_columns,
)
from glong.types import Extraction, Failure, Session, Triplet, Vectors
from glong.weighting import normalise as normalise_scores
from glong.weighting import triplet_text, turn_text

__all__ = [
    "BUILT",
    "FAILED",
    "PENDING",
    "Fingerprints",
    "Models",
    "build_rows",
    "embed_rows",
    "extract_rows",
    "prepare",
    "stated_rows",
    "weigh_rows",
]

ITEM_KINDS = frozenset({"copied_example", "malformed_triplet", "unknown_turn"})
"""Failures of one item of an answer that was read; all others are of a whole window."""


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Identities of the three models; what a stored session was made with."""

    extractor: str
    scorer: str
    encoder: str


@dataclass(frozen=True, slots=True)
class Models:
    """The three models of construction, loaded."""

    extractor: Extractor
    scorer: Scorer
    encoder: Encoder

    @property
    def fingerprints(self) -> Fingerprints:
        """Identities of the three."""
        return Fingerprints(
            self.extractor.fingerprint, self.scorer.fingerprint, self.encoder.fingerprint
        )


def prepare(tenant: str, sessions: Sequence[Session]) -> pa.Table:
    """Sessions -> ``SESSION`` rows with their keys and content hash."""
    return sessions_to([(_identity(tenant, session), session) for session in sessions])


def _identity(tenant: str, session: Session) -> dict[str, str]:
    return {
        "tenant": tenant,
        "dialogue_id": session.dialogue_id,
        "session_id": session.session_id,
        "dialogue_key": ids.dialogue_key(tenant, session.dialogue_id),
        "session_key": ids.session_key(tenant, session.dialogue_id, session.session_id),
        "content_hash": ids.content_hash(session),
    }


def extract_rows(rows: pa.Table, extractor: Extractor) -> pa.Table:
    """``SESSION`` rows -> ``EXTRACTED`` rows: triplets with resolved names, failures, status."""
    sessions = sessions_from(rows)
    extractions = extractor.extract(sessions)
    keys = rows.column("session_key").to_pylist()
    columns: dict[str, list[Any]] = {name: [] for name in EXTRACTED.names}
    for session, extraction, key in zip(sessions, extractions, keys, strict=True):
        triplets, unnamed = resolve_triplets(session, extraction.triplets)
        status = _status(extraction)
        failures = (*extraction.failures, *unnamed)
        columns["triplets"].append(triplet_structs(triplets if status == BUILT else ()))
        columns["failures"].append(_failure_structs(key, failures))
        columns["extractor"].append(extractor.fingerprint)
        columns["status"].append(status)
        columns["n_triplets"].append(len(extraction.triplets) if status == BUILT else 0)
        columns["tokens_in"].append(extraction.usage.tokens_in)
        columns["tokens_out"].append(extraction.usage.tokens_out)
        columns["n_windows"].append(extraction.n_windows)
    return with_columns(rows, EXTRACTED, columns)


def _status(extraction: Extraction) -> str:
    """Pending if any cause may pass, failed if nothing at all could be read, else built."""
    if any(failure.transient for failure in extraction.failures):
        return PENDING
    unread = sum(failure.kind not in ITEM_KINDS for failure in extraction.failures)
    if not extraction.triplets and unread >= max(1, extraction.n_windows):
        return FAILED
    return BUILT


def _failure_structs(session_key: str, failures: Sequence[Failure]) -> list[dict[str, Any]]:
    """Failures with their ids; equal ones are one."""
    by_id = {ids.failure_id(session_key, failure): failure for failure in failures}
    return [failure_struct(failure, failure_id) for failure_id, failure in by_id.items()]


def weigh_rows(rows: pa.Table, scorer: Scorer) -> pa.Table:
    """``EXTRACTED`` rows -> ``WEIGHED`` rows: the raw score S of each triplet, equation (2).

    Raises:
        ModelError: a score is not a finite number above 0, which no later step could repair.
    """
    triplets = triplets_from(rows)
    scores = scorer.weigh([[triplet_text(t) for t in of_session] for of_session in triplets])
    for of_session, values in zip(triplets, scores, strict=True):
        if len(values) != len(of_session) or not np.all(np.isfinite(values) & (values > 0)):
            raise ModelError(
                f"The scorer gave {values!r} for {len(of_session)} triplets;"
                " allowed: one finite number above 0 each.",
                hint="Check the scorer's weights (glong doctor).",
            )
    columns: dict[str, list[Any]] = {
        "scores": scores,
        "scorer": [scorer.fingerprint] * rows.num_rows,
    }
    return with_columns(rows, WEIGHED, columns)


def embed_rows(rows: pa.Table, encoder: Encoder) -> pa.Table:
    """``WEIGHED`` rows -> built rows: turns, entities and edges with ids, weights and vectors."""
    drafts = [
        _draft(session, triplets, identity)
        for session, triplets, identity in zip(
            sessions_from(rows),
            triplets_from(rows),
            rows.select(["dialogue_key", "session_key", "scores"]).to_pylist(),
            strict=True,
        )
    ]
    texts = [text for draft in drafts for text in draft.texts]
    columns = _nested_columns(drafts, encoder.encode(texts), encoder.dimension)
    n = rows.num_rows
    failures = rows.column("failures")
    columns |= {
        "encoder": pa.array([encoder.fingerprint] * n, pa.string()),
        "n_turns": pa.array([len(d.turns["turn_id"]) for d in drafts], pa.int32()),
        "n_edges": pa.array([len(d.edges["edge_id"]) for d in drafts], pa.int32()),
        "n_entities": pa.array([len(d.entities["entity_id"]) for d in drafts], pa.int32()),
        "n_failures": pc.list_value_length(failures),
        "max_score": pa.array([d.max_score for d in drafts], pa.float64()),
        "failures": failures,
    }
    schema = built_schema(encoder.dimension)
    arrays = [columns[f.name] if f.name in columns else rows.column(f.name) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


@dataclass(frozen=True, slots=True)
class _Draft:
    """Rows of one session as columns, without vectors; ``texts`` is what to encode, in order."""

    turns: dict[str, list[Any]]
    entities: dict[str, list[Any]]
    edges: dict[str, list[Any]]
    texts: list[str]
    max_score: float | None


def _draft(session: Session, triplets: Sequence[Triplet], identity: dict[str, Any]) -> _Draft:
    key = identity["session_key"]
    names = Names.of(triplets)
    entity_ids = {name: ids.entity_id(identity["dialogue_key"], name) for name in names.display}
    turn_ids = {turn.index: ids.turn_id(key, turn.index) for turn in session.turns}
    times = {turn.index: turn.time or session.started_at for turn in session.turns}
    scores = np.asarray(identity["scores"], dtype=np.float64)
    turns: dict[str, list[Any]] = {
        "turn_id": list(turn_ids.values()),
        "turn_index": list(turn_ids),
        "speaker": [turn.speaker for turn in session.turns],
        "text": [turn.text for turn in session.turns],
        "time": list(times.values()),
    }
    entities: dict[str, list[Any]] = {
        "entity_id": list(entity_ids.values()),
        "name": list(names.display.values()),
        "aliases": [list(aliases) for aliases in names.aliases.values()],
    }
    contents = [(normalise(t.subject), t.relation, normalise(t.object)) for t in triplets]
    created = [times[t.turn_index] for t in triplets]
    edges: dict[str, list[Any]] = {
        "edge_id": [
            ids.edge_id(key, t.turn_index, c) for t, c in zip(triplets, contents, strict=True)
        ],
        "head_id": [entity_ids[subject] for subject, _, _ in contents],
        "tail_id": [entity_ids[obj] for _, _, obj in contents],
        "subject": [t.subject for t in triplets],
        "relation": [t.relation for t in triplets],
        "object": [t.object for t in triplets],
        "turn_index": [t.turn_index for t in triplets],
        "turn_id": [turn_ids[t.turn_index] for t in triplets],
        "score": scores.tolist(),
        "weight": normalise_scores(scores).tolist(),
        "created_at": created,
        "accessed_at": created,
    }
    texts = [turn_text(turn.speaker, turn.text) for turn in session.turns]
    texts += entities["name"]
    texts += [triplet_text(t) for t in triplets]
    max_score = float(scores.max()) if len(scores) else None
    return _Draft(turns, entities, edges, texts, max_score)


def _nested_columns(drafts: Sequence[_Draft], vectors: Vectors, dimension: int) -> dict[str, Any]:
    """One list column for each of turns, entities and edges; vectors are dealt out in order."""
    parts: dict[str, list[Vectors]] = {"turns": [], "entities": [], "edges": []}
    start = 0
    for draft in drafts:
        for name, id_column in (
            ("turns", "turn_id"),
            ("entities", "entity_id"),
            ("edges", "edge_id"),
        ):
            end = start + len(getattr(draft, name)[id_column])
            parts[name].append(vectors[start:end])
            start = end
    columns = {}
    for name, kind in row_types(dimension).items():
        if name not in parts:
            continue
        values: dict[str, Any] = {
            field.name: [v for draft in drafts for v in getattr(draft, name)[field.name]]
            for field in kind
            if field.name != "vector"
        }
        none = np.zeros((0, dimension), dtype=np.float32)
        values["vector"] = np.concatenate([none, *parts[name]])
        columns[name] = nested(struct_rows(kind, values), [len(part) for part in parts[name]])
    return columns


def build_rows(tenant: str, sessions: Sequence[Session], models: Models) -> pa.Table:
    """All four steps in one process: sessions -> built rows, same order."""
    rows = extract_rows(prepare(tenant, sessions), models.extractor)
    return embed_rows(weigh_rows(rows, models.scorer), models.encoder)


def stated_rows(
    tenant: str, session: Session, triplets: Sequence[Triplet], encoder: Encoder
) -> pa.Table:
    """A session of facts that a person stated, one a turn -> built rows; each has the weight 1."""
    n = len(triplets)
    columns: dict[str, list[Any]] = {
        "triplets": [triplet_structs(triplets)],
        "failures": [[]],
        "extractor": [BY_HAND],
        "status": [BUILT],
        "n_triplets": [n],
        "tokens_in": [0],
        "tokens_out": [0],
        "n_windows": [0],
        "scores": [[1.0] * n],
        "scorer": [BY_HAND],
    }
    return embed_rows(with_columns(prepare(tenant, [session]), WEIGHED, columns), encoder)
