"""The methods of a benchmark by name: ours, the paper's, the baselines, and the ablation.

``glong`` is the preset ``HYBRID``; ``glong_<part>_off`` is it with one part switched off, or
``glong_<part>_on`` with one that it leaves out.
"""

from dataclasses import fields, replace

from glong.config import HYBRID, PAPER, HybridConfig, RetrievalConfig
from glong.errors import ConfigError
from glong.evaluation.baselines import (
    BASELINE_SETTINGS,
    Found,
    Method,
    Ranker,
    bm25,
    dense,
    turns_hybrid,
)
from glong.evaluation.hipporag import HIPPORAG, PUBLISHED, hipporag_ppr
from glong.retrieval import MemoryIndex, Query, retrieve

__all__ = [
    "ABLATION",
    "DEFAULT_METHODS",
    "FULL_CONTEXT",
    "OURS",
    "PAPER_METHODS",
    "by_config",
    "methods_by_name",
]

OURS = "glong"
PAPER_METHODS = ("paper", "paper_2_hops")
"""Their prompt has triplets without ages."""
FULL_CONTEXT = "full_context"
"""No retrieval: the whole dialogue in the prompt. It has tokens and nothing else."""
DEFAULT_METHODS = (
    OURS,
    "paper",
    "bm25",
    "dense",
    "turns_hybrid",
    "hipporag_ppr",
    FULL_CONTEXT,
)


def _switched() -> dict[str, HybridConfig]:
    """Each part of ``HYBRID`` the other way round, by the method's name."""
    parts = {f.name: getattr(HYBRID, f.name) for f in fields(HYBRID)}
    return {
        f"{OURS}_{part}_{'off' if on else 'on'}": replace(HYBRID, **{part: not on})
        for part, on in parts.items()
        if isinstance(on, bool)
    }


_SWITCHED = _switched()
ABLATION = tuple(_SWITCHED)


def by_config(config: RetrievalConfig | HybridConfig) -> Method:
    """Retrieval with a preset, asked anew for every number of memories, as a user would.

    For ``PAPER`` that sets the coarse step to ``max(5, k)``.
    """

    def method(index: MemoryIndex) -> Ranker:
        def ranker(query: Query) -> Found:
            return lambda n_memories: retrieve(index, query, config.at_k(n_memories))

        return ranker

    return method


def methods_by_name(names: tuple[str, ...], benchmark: str) -> dict[str, Method | None]:
    """The methods in the order of their names; ``None`` for ``full_context``, which ranks nothing.

    Args:
        names: as a user gives them.
        benchmark: whose recipes the baselines take.

    Raises:
        ConfigError: a name that is none, or none at all.
    """
    settings = BASELINE_SETTINGS[benchmark]
    known: dict[str, Method | None] = {
        OURS: by_config(HYBRID),
        "paper": by_config(PAPER),
        "paper_2_hops": by_config(replace(PAPER, hops=2)),
        "bm25": bm25(settings),
        "dense": dense,
        "turns_hybrid": turns_hybrid(settings),
        "hipporag_ppr": hipporag_ppr(HIPPORAG),
        "hipporag_ppr_published": hipporag_ppr(PUBLISHED),
        FULL_CONTEXT: None,
        **{name: by_config(config) for name, config in _SWITCHED.items()},
    }
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        allowed = ", ".join(known)
        raise ConfigError(f"methods are {', '.join(names)!r}; allowed, with commas: {allowed}.")
    return {name: known[name] for name in names}
