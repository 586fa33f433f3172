"""Retrieval: a query over one frozen graph. Pure: no clock, no I/O, no mutation."""

from glong.retrieval.paper import Scored, retrieve

__all__ = ["Scored", "retrieve"]
