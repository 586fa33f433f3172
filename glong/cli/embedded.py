"""The memories of a store behind the tools of :mod:`glong.tools`."""

from collections.abc import Sequence
from datetime import datetime
from threading import Lock

from glong.adding import Added
from glong.errors import ModelError
from glong.memory import Memory
from glong.tools import Fact, Forgotten, Kept, Recalled, Said, said_document
from glong.types import Edge, Hit

__all__ = ["Embedded"]


class Embedded:
    """One call at a time: the protocol's server has threads, which ``Memory`` does not bear."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = Lock()

    def add_session(
        self,
        dialogue_id: str,
        turns: Sequence[Said],
        *,
        session_id: str,
        started_at: datetime | None,
    ) -> Kept:
        """Remember a session; where all of it had been forgotten, adding it brings it back.

        Raises:
            GlongError: as :meth:`glong.memory.Memory.add_session`, or a model is unavailable.
        """
        given = [said_document(turn) for turn in turns]
        with self._lock:
            for restore in (False, True):
                added = self._memory.add_session(
                    dialogue_id,
                    given,
                    session_id=session_id,
                    started_at=started_at,
                    restore_forgotten=restore,
                )
                if not added.n_forgotten:
                    break
        return _kept(added)

    def retrieve(
        self, dialogue_id: str, query: str, *, recent: Sequence[str], k: int
    ) -> list[Recalled]:
        """What answers a query, best first.

        Raises:
            GlongError: as :meth:`glong.memory.Memory.retrieve`.
        """
        with self._lock:
            found = self._memory.retrieve(dialogue_id, query, recent=recent, k=k)
        return [_recalled(hit) for hit in found.hits]

    def forget(
        self,
        dialogue_id: str,
        *,
        session_id: str | None,
        turn_index: int | None,
        edge_id: str | None,
        entity: str | None,
        turns: bool,
    ) -> Forgotten:
        """Forget a part of a memory, or all of it if no part is named.

        Raises:
            GlongError: as :meth:`glong.memory.Memory.forget`.
        """
        with self._lock:
            receipt = self._memory.forget(
                dialogue_id,
                session_id=session_id,
                turn_index=turn_index,
                edge_id=edge_id,
                entity=entity,
                turns=turns,
            )
        return Forgotten(receipt.scope, dict(receipt.rows))


def _kept(added: Added) -> Kept:
    """What became of one session.

    Raises:
        ModelError: a cause that may pass; nothing was stored.
    """
    if added.n_pending:
        message = "The model that extracts facts is unavailable for now; nothing was stored."
        raise ModelError(message, retryable=True, hint="Add the session again later.")
    if added.n_skipped:
        return Kept("unchanged", 0, 0)
    return Kept("failed" if added.n_failed else "built", added.n_turns, added.n_edges)


def _recalled(hit: Hit) -> Recalled:
    return Recalled(
        speaker=hit.turn.speaker,
        said=hit.turn.text,
        time=hit.turn.time,
        facts=[_fact(edge) for edge in hit.edges],
        session_id=hit.session_id,
        turn_index=hit.turn.index,
        score=hit.score,
    )


def _fact(edge: Edge) -> Fact:
    return Fact(edge.edge_id, edge.subject, edge.relation, edge.object, edge.valid_to)
