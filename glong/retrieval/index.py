"""One memory ready to be searched: its graph and what is computed of it once."""

from dataclasses import dataclass

from glong.graph import MemoryGraph

__all__ = ["MemoryIndex"]


@dataclass(frozen=True, slots=True, eq=False)
class MemoryIndex:
    """What every query over one graph shares; made once a graph, then only read."""

    graph: MemoryGraph

    @classmethod
    def of(cls, graph: MemoryGraph) -> "MemoryIndex":
        """Index a graph."""
        return cls(graph)
