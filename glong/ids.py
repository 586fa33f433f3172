"""Ids are hashes of what they name, so two workers that meet one thing write one id.

Parts are joined with a length prefix, so that ("ab", "c") and ("a", "bc") differ.
"""

from hashlib import blake2b

from glong.types import Failure, Session

__all__ = [
    "content_hash",
    "dialogue_key",
    "edge_id",
    "entity_id",
    "failure_id",
    "record_failure_id",
    "session_key",
    "text_hash",
    "turn_id",
]


def _hash(*parts: str) -> str:
    """32 hexadecimal digits (128 bits) over the parts, each with its length."""
    digest = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def dialogue_key(tenant: str, dialogue_id: str) -> str:
    """Key of one memory: what filters and deletes use instead of a person's text."""
    return _hash("dialogue", tenant, dialogue_id)


def session_key(tenant: str, dialogue_id: str, session_id: str) -> str:
    """Primary key of the manifest."""
    return _hash("session", tenant, dialogue_id, session_id)


def turn_id(session: str, index: int) -> str:
    """Id of a turn, from its session key and index."""
    return _hash("turn", session, str(index))


def entity_id(dialogue: str, normalised_name: str) -> str:
    """Id of an entity, from its dialogue key and normalised name."""
    return _hash("entity", dialogue, normalised_name)


def edge_id(session: str, turn_index: int, triplet: tuple[str, str, str]) -> str:
    """Id of an edge, from its session key, turn and normalised content (unique within a turn)."""
    return _hash("edge", session, str(turn_index), *triplet)


def failure_id(session: str, failure: Failure) -> str:
    """Id of a session's failure, from its session key, place and content."""
    place = failure.place
    return _hash(
        "failure", session, failure.stage, failure.kind, place.file, str(place.line), place.field,
        str(failure.turn_index), failure.message, failure.raw,
    )  # fmt: skip


def record_failure_id(tenant: str, failure: Failure) -> str:
    """Id of a failure that belongs to no session: two tenants may read the same broken file."""
    return failure_id(_hash("tenant", tenant), failure)


def content_hash(session: Session) -> str:
    """Hash of all that a rebuild would read: the start and each turn."""
    parts = [str(session.started_at)]
    for turn in session.turns:
        parts += [str(turn.index), turn.speaker, turn.text, str(turn.time)]
    return _hash("content", *parts)


def text_hash(*parts: str) -> str:
    """Hash of any texts, for caches and fingerprints."""
    return _hash("text", *parts)
