"""What is known of each turn for one query, part by part, before anything is added up.

Rankings of the whole memory come first (words, vectors), all as arrays over its turns; the finer
parts are computed for the best ``config.n_candidates`` only. Pure.

Shapes: T turns, E edges, N entities, C candidates.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glong.config import HybridConfig
from glong.retrieval.index import MemoryIndex
from glong.retrieval.pagerank import personalised_pagerank
from glong.retrieval.query import N_RECENT, Query
from glong.retrieval.terms import proper_names, terms
from glong.retrieval.times import asks_when, time_spans
from glong.validity import holds_at

__all__ = ["PARTS", "Candidates", "candidates"]

Floats = NDArray[np.float32]

PARTS: dict[str, tuple[str, ...]] = {
    "lexical": ("words", "words_near", "words_session"),
    "dense_turns": ("turn", "around"),
    "dense_triplets": ("triplet",),
    "anchors": ("anchor", "linked"),
    "neighbours": ("before", "after", "before_that", "asks_for"),
    "names": ("speaker", "name"),
    "times": ("date", "says_time"),
    "form": ("length", "first_person", "own_words", "asks", "answers"),
    "pagerank": ("pagerank",),
    "weight": ("weight",),
    "recency": ("recency",),
    "validity": ("closed",),
}
"""Switch of :class:`~glong.config.HybridConfig` -> the parts of a score that it lets in."""

_DENSE_SHARE = 0.5
"""Of the cosine beside the scaled BM25, in the sum that picks candidates."""
_RECENT_SHARE = 0.3
"""Of the words of the recent dialogue beside the query's."""
_DAY_S = 86_400.0
_TOLD_LATER_DAYS, _TOLD_EARLIER_DAYS = 14.0, 3.0
"""How fast a turn's claim to a span of time fades after its end, and before its start."""
_N_SEEDS = 5
"""Best turns whose entities lead on to others."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Turns that may be hits.

    Attributes:
        turns: (C,) index of each, ascending.
        parts: name -> (C,) values; which are there is the configuration's choice.
        edge_similarity: (E,) cosine of each triplet with the query.
    """

    turns: NDArray[np.int64]
    parts: dict[str, Floats]
    edge_similarity: Floats


def candidates(index: MemoryIndex, query: Query, config: HybridConfig) -> Candidates:
    """The turns worth a closer look, and what is known of each."""
    graph = index.graph
    everywhere = _everywhere(index, query)
    words, turn = everywhere["words"], everywhere["turn"]
    base = words * config.lexical + _DENSE_SHARE * turn * config.dense_turns
    edge_similarity = graph.edge_vectors @ query.vector
    everywhere["triplet"] = _best_edge(index, edge_similarity)
    chosen = _chosen(index, query, base + 0.25 * everywhere["triplet"], config.n_candidates)
    parts = {name: values[chosen] for name, values in everywhere.items()}
    parts |= _near(index, base, chosen)
    parts |= _named(index, query, chosen)
    parts |= _timed(index, query, chosen)
    parts |= {name: values[chosen] for name, values in index.form.items()}
    parts["says_time"] *= asks_when(query.text)
    parts["own_words"] = parts["first_person"] * _is_own(query.text)
    parts["asks_for"] = parts["asks"] * parts["after"]
    parts |= _linked(index, query, base, chosen, config)
    parts |= _stored(index, query, chosen)
    if config.pagerank:
        parts["pagerank"] = personalised_pagerank(index, base, edge_similarity)[chosen]
    wanted = [name for switch, names in PARTS.items() if getattr(config, switch) for name in names]
    return Candidates(chosen, {name: parts[name] for name in wanted}, edge_similarity)


def _everywhere(index: MemoryIndex, query: Query) -> dict[str, Floats]:
    """Words and vectors against every turn."""
    graph, lexicon = index.graph, index.lexicon
    asked = tuple(dict.fromkeys(terms(query.text)))
    earlier = [t for text in query.recent[-N_RECENT:] for t in terms(text) if t not in asked]
    sizes = (graph.n_turns, graph.n_turns, index.n_sessions)
    turns, near, sessions = (
        _scaled(lexicon.scores(i, asked, n))
        + (_RECENT_SHARE * _scaled(lexicon.scores(i, earlier, n)) if earlier else 0)
        for i, n in enumerate(sizes)
    )
    cosine: Floats = graph.turn_vectors @ query.vector
    sides = _gathered(cosine, index.before) + _gathered(cosine, index.after)
    return {
        "words": turns,
        "words_near": near,
        "words_session": sessions[index.session],
        "turn": cosine,
        "around": (cosine + 0.5 * sides) / index.around,
    }


def _scaled(scores: Floats) -> Floats:
    """Divided by the largest; 1 is the best of this memory."""
    highest = scores.max(initial=0)
    return scores / highest if highest > 0 else scores


def _gathered(values: Floats, places: NDArray[np.int64]) -> Floats:
    """Values at the places; 0 where the place is -1."""
    taken: Floats = np.where(places < 0, np.float32(0), values[places]) if len(values) else values
    return taken


def _best_edge(index: MemoryIndex, values: Floats) -> Floats:
    """(T,) the largest value among each turn's edges; 0 for a turn without."""
    best = np.zeros(index.graph.n_turns, np.float32)
    starts = index.edge_starts[:-1]
    has_any = index.edge_starts[1:] > starts
    if has_any.any():
        best[has_any] = np.maximum.reduceat(values[index.edge_order], starts[has_any])
    return best


def _chosen(index: MemoryIndex, query: Query, score: Floats, n: int) -> NDArray[np.int64]:
    """The best ``n`` turns, and those beside the best of them; none after ``as_of_s``."""
    if query.as_of_s is not None:
        score = np.where(index.graph.turn_times_s > query.as_of_s, -np.inf, score)
    if len(score) > n:
        best = np.argpartition(-score, n - 1)[:n]
        beside = np.concatenate([index.before[best], index.after[best]])
        best = np.union1d(best, beside[beside >= 0])
    else:
        best = np.arange(len(score))
    return best[score[best] > -np.inf]


def _near(index: MemoryIndex, base: Floats, chosen: NDArray[np.int64]) -> dict[str, Floats]:
    """The sum of the turns beside a candidate."""
    before, after = index.before[chosen], index.after[chosen]
    two_back = np.where(before < 0, -1, index.before[before])
    places = {"before": before, "after": after, "before_that": two_back}
    return {name: _gathered(base, place) for name, place in places.items()}


def _named(index: MemoryIndex, query: Query, chosen: NDArray[np.int64]) -> dict[str, Floats]:
    """Whether the query names the speaker, and how many other names it shares with the turn."""
    words = {word.strip(".,!?'\"").removesuffix("'s") for word in query.text.lower().split()}
    asked = [index.speakers[word] for word in sorted(words & index.speakers.keys())]
    speaks = np.logical_or.reduce(asked)[chosen] if asked else np.zeros(len(chosen), np.bool_)
    others = proper_names(query.text) - index.speakers.keys()
    shared = [len(others & index.names[turn]) for turn in chosen] if others else 0
    return {
        "speaker": speaks.astype(np.float32),
        "name": np.broadcast_to(np.asarray(shared, np.float32), chosen.shape),
    }


def _timed(index: MemoryIndex, query: Query, chosen: NDArray[np.int64]) -> dict[str, Floats]:
    """1 for a turn of the time that the query names, less with the distance to it."""
    times = index.graph.turn_times_s[chosen]
    best = np.zeros(len(chosen))
    for start, end in time_spans(query.text, query.now_s):
        late = np.maximum(0, times - end) / (_TOLD_LATER_DAYS * _DAY_S)
        early = np.maximum(0, start - times) / (_TOLD_EARLIER_DAYS * _DAY_S)
        best = np.maximum(best, np.nan_to_num(np.exp(-late - early)))
    return {"date": best.astype(np.float32)}


def _is_own(text: str) -> bool:
    """Whether the query speaks of the one who asks."""
    return any(word in ("i", "my", "me", "we", "our") for word in text.lower().split())


def _linked(
    index: MemoryIndex,
    query: Query,
    base: Floats,
    chosen: NDArray[np.int64],
    config: HybridConfig,
) -> dict[str, Floats]:
    """Entities near the query, one hop from them, and entities of the best turns.

    ``anchor``: the best similarity of an anchor among a turn's entities, hubs damped. ``linked``:
    how much of the best turns' score reaches it over entities that they share, rarer ones more.
    """
    graph = index.graph
    if not graph.n_edges:
        nothing = np.zeros(len(chosen), np.float32)
        return {"anchor": nothing, "linked": nothing}
    similarity = graph.entity_vectors @ query.vector
    n = min(config.n_anchors, len(similarity))
    best = np.argpartition(-similarity, n - 1)[:n]
    strength = np.zeros_like(similarity)
    strength[best] = similarity[best] * index.damping[best]
    seeds = chosen[np.argsort(-base[chosen], kind="stable")[:_N_SEEDS]]
    reach = np.zeros_like(similarity)
    for turn in seeds:
        edges = index.edges_of(turn)
        ends = np.concatenate([graph.heads[edges], graph.tails[edges]])
        reach[ends] = np.maximum(reach[ends], base[turn] * index.damping[ends] ** 2)
    anchor, linked = (
        _best_edge(index, np.maximum(values[graph.heads], values[graph.tails]))[chosen]
        for values in (strength, reach)
    )
    linked[np.isin(chosen, seeds)] = 0
    return {"anchor": anchor, "linked": linked}


def _stored(index: MemoryIndex, query: Query, chosen: NDArray[np.int64]) -> dict[str, Floats]:
    """What the store says whatever is asked: importance, age, whether its facts still hold."""
    graph, at = index.graph, query.as_of_s
    if at is None:
        closed = index.validity.closed_by >= 0
    else:
        closed = ~holds_at(index.validity, at) & (index.validity.closed_by >= 0)
    still = _best_edge(index, (~closed).astype(np.float32))[chosen]
    has_any = np.diff(index.edge_starts)[chosen] > 0
    age_s = np.maximum(0, query.now_s - graph.turn_times_s[chosen])
    recency = np.nan_to_num(np.exp(-age_s / (180 * _DAY_S))).astype(np.float32)
    return {
        "weight": _best_edge(index, graph.weights)[chosen],
        "recency": recency,
        "closed": (has_any & (still == 0)).astype(np.float32),
    }
