"""Hits by number become records."""

from glong.graph import MemoryGraph
from glong.retrieval.query import Scored
from glong.types import Hit
from glong.validity import Validity, fact

__all__ = ["hit_of"]


def hit_of(graph: MemoryGraph, scored: Scored, validity: Validity) -> Hit:
    """A hit by number as a record."""
    edges = tuple(fact(graph, validity, edge) for edge in scored.edges)
    session_id = graph.turn_session_ids[scored.turn]
    return Hit(graph.turn(scored.turn), session_id, edges, scored.score, dict(scored.parts))
