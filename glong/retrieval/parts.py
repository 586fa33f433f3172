"""What is known of each turn for one query, part by part, before anything is added up.

Words and vectors against the whole memory pick candidates: BM25 of every turn, and cosines of every
turn and triplet (in a large memory of their shadows, see :mod:`glong.retrieval.shadow`). All finer
parts are computed for the candidates only. Pure.

Shapes: T turns, E edges, N entities, C candidates.
"""

import re
import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glong.config import HybridConfig
from glong.retrieval.index import FIRST_PERSON, MemoryIndex
from glong.retrieval.pagerank import personalised_pagerank
from glong.retrieval.query import N_RECENT, Query
from glong.retrieval.terms import is_unspaced, proper_names, terms
from glong.retrieval.times import asks_when, time_spans
from glong.validity import holds_at

__all__ = ["PARTS", "Candidates", "candidates"]

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

PARTS: dict[str, tuple[str, ...]] = {
    "lexical": ("words", "words_near", "words_session"),
    "dense_turns": ("turn", "around"),
    "dense_triplets": ("triplet",),
    "anchors": ("linked",),
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

_DENSE_SHARE, _TRIPLET_SHARE = 0.5, 0.25
"""Of the cosines beside the scaled BM25, in the sum that picks candidates."""
_RECENT_SHARE = 0.3
"""Of the words of the recent dialogue beside the query's, at least: a query of fewer words ("What
was wrong with it?" has one) leans more on what was said before it."""
_BREAK = re.compile(r"[\s,;:!?()\[\]\"/\u00ab\u00bb\u060c\u061f\u0964\u201c-\u201e\u3001\u3002]+")
_DAY_S = 86_400.0
_TOLD_LATER_DAYS, _TOLD_EARLIER_DAYS = 14.0, 3.0
"""How fast a turn's claim to a span of time fades after its end, and before its start."""
_FADES_DAYS = 180.0
_N_SEEDS = 5
"""Best turns whose entities lead on to others."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Turns that may be hits.

    Attributes:
        turns: (C,) index of each, ascending.
        parts: name -> (C,) values; which are there is the configuration's choice.
    """

    turns: Places
    parts: dict[str, Floats]


def candidates(index: MemoryIndex, query: Query, config: HybridConfig) -> Candidates:
    """The turns worth a closer look, and what is known of each."""
    lexical = _words(index, query)
    turn_like, edge_like = index.shadow.similarities(query.vector)
    triplet_like = index.best_edge(edge_like)
    base = (
        lexical["words"] * config.lexical
        + _DENSE_SHARE * turn_like * config.dense_turns
        + _TRIPLET_SHARE * triplet_like * config.dense_triplets
    )
    later = index.said_s > (np.inf if query.as_of_s is None else query.as_of_s)
    chosen = _chosen(index, np.where(later, -np.inf, base), config)
    parts = {name: values[chosen] for name, values in lexical.items()}
    parts |= _dense(index, query, chosen, later)
    near = np.where(later, np.float32(0), lexical["words"] + _DENSE_SHARE * turn_like)
    parts |= _near(index, near, chosen)
    parts |= _named(index, query, chosen)
    parts |= _timed(index, query, chosen)
    parts |= {name: values[chosen] for name, values in index.form.items()}
    parts["says_time"] *= asks_when(query.text)
    parts["own_words"] = parts["first_person"] * _is_own(query.text)
    parts["asks_for"] = parts["asks"] * parts["after"]
    parts["linked"] = _linked(index, near, chosen)
    parts |= _stored(index, query, chosen)
    if config.pagerank:
        known = np.where(later[index.graph.edge_turn], np.float32(0), edge_like)
        parts["pagerank"] = personalised_pagerank(index, near, known)[chosen]
    wanted = [name for switch, names in PARTS.items() if getattr(config, switch) for name in names]
    return Candidates(chosen, {name: parts[name] for name in wanted})


def _words(index: MemoryIndex, query: Query) -> dict[str, Floats]:
    """(T,) BM25 of every turn alone, with its neighbours, and of its session."""
    lexicon = index.lexicon
    asked = tuple(dict.fromkeys(terms(query.text)))
    earlier = [t for text in query.recent[-N_RECENT:] for t in terms(text) if t not in asked]
    share = max(_RECENT_SHARE, 1 / max(1, len(asked)))
    sizes = (index.graph.n_turns, index.graph.n_turns, index.n_sessions)
    turns, near, sessions = (
        _scaled(lexicon.scores(i, asked, n))
        + (share * _scaled(lexicon.scores(i, earlier, n)) if earlier else 0)
        for i, n in enumerate(sizes)
    )
    return {"words": turns, "words_near": near, "words_session": sessions[index.session]}


def _dense(
    index: MemoryIndex, query: Query, chosen: Places, later: NDArray[np.bool_]
) -> dict[str, Floats]:
    """Cosine with each candidate, with it and its neighbours, and with the best of its triplets."""
    graph = index.graph
    wanted = np.unique(np.concatenate([chosen, index.before[chosen], index.after[chosen]]))
    wanted = wanted[(wanted >= 0) & ~later[wanted]]
    cosine = np.zeros(graph.n_turns, np.float32)
    cosine[wanted] = graph.turn_vectors[wanted] @ query.vector
    sides = _gathered(cosine, index.before[chosen]) + _gathered(cosine, index.after[chosen])
    edges, owners = index.edges_of_all(chosen)
    triplet = np.zeros(len(chosen), np.float32)
    np.maximum.at(triplet, owners, graph.edge_vectors[edges] @ query.vector)
    around = (cosine[chosen] + 0.5 * sides) / index.around[chosen]
    return {"turn": cosine[chosen], "around": around.astype(np.float32), "triplet": triplet}


def _scaled(scores: Floats) -> Floats:
    """Divided by the largest; 1 is the best of this memory."""
    highest = scores.max(initial=0)
    return scores / highest if highest > 0 else scores


def _gathered(values: Floats, places: Places) -> Floats:
    """Values at the places; 0 where the place is -1."""
    taken: Floats = np.where(places < 0, np.float32(0), values[places]) if len(values) else values
    return taken


def _chosen(index: MemoryIndex, score: Floats, config: HybridConfig) -> Places:
    """The best turns, and those beside them; none whose score is -inf."""
    n = max(config.n_candidates, config.k)
    if len(score) > n:
        best = np.argpartition(-score, n - 1)[:n]
        beside = np.concatenate([index.before[best], index.after[best]])
        best = np.union1d(best, beside[beside >= 0] if config.neighbours else best)
    else:
        best = np.arange(len(score))
    return best[score[best] > -np.inf]


def _near(index: MemoryIndex, base: Floats, chosen: Places) -> dict[str, Floats]:
    """The sum of the turns beside a candidate."""
    before, after = index.before[chosen], index.after[chosen]
    two_back = np.where(before < 0, -1, index.before[before])
    places = {"before": before, "after": after, "before_that": two_back}
    return {name: _gathered(base, place) for name, place in places.items()}


def _named(index: MemoryIndex, query: Query, chosen: Places) -> dict[str, Floats]:
    """Whether the query names the speaker, and how many other names it shares with the turn."""
    text = unicodedata.normalize("NFKC", query.text).replace("\u2019", "'").casefold()
    found = (word.strip(".'-").removesuffix("'s") for word in _BREAK.split(text))
    words = f" {' '.join(found)} "
    asked = [
        who
        for name, who in index.speakers.items()
        if (name if is_unspaced(name) else f" {name} ") in words
    ]
    speaks = np.logical_or.reduce(asked)[chosen] if asked else np.zeros(len(chosen), np.bool_)
    others = proper_names(query.text) - index.speakers.keys()
    shared = [len(others & index.names[turn]) for turn in chosen] if others else 0
    return {
        "speaker": speaks.astype(np.float32),
        "name": np.broadcast_to(np.asarray(shared, np.float32), chosen.shape),
    }


def _timed(index: MemoryIndex, query: Query, chosen: Places) -> dict[str, Floats]:
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
    return bool(FIRST_PERSON.search(text))


def _linked(index: MemoryIndex, near: Floats, chosen: Places) -> Floats:
    """How much of the best turns' score reaches a candidate over entities that both name.

    One hop of the graph, both directions; an entity of many facts passes less on to each.
    """
    graph = index.graph
    linked = np.zeros(graph.n_turns, np.float32)
    seeds = chosen[np.argsort(-near[chosen], kind="stable")[:_N_SEEDS]]
    edges, owners = index.edges_of_all(seeds)
    ends = np.concatenate([graph.heads[edges], graph.tails[edges]])
    sent = np.tile(near[seeds[owners]], 2) * index.damping[ends] ** 2
    reached, owner = graph.incident_of(ends)
    np.maximum.at(linked, graph.edge_turn[reached], sent[owner])
    linked[seeds] = 0
    return linked[chosen]


def _stored(index: MemoryIndex, query: Query, chosen: Places) -> dict[str, Floats]:
    """What the store says whatever is asked: importance, age, whether its facts still hold."""
    closed = index.closed
    if query.as_of_s is not None:
        still = holds_at(index.validity, query.as_of_s) | (index.validity.closed_by < 0)
        has_any = np.diff(index.edge_starts) > 0
        closed = (has_any & (index.best_edge(still.astype(np.float32)) == 0)).astype(np.float32)
    age_s = np.maximum(0, query.now_s - index.graph.turn_times_s[chosen])
    recency = np.nan_to_num(np.exp(-age_s / (_FADES_DAYS * _DAY_S))).astype(np.float32)
    return {"weight": index.weight[chosen], "recency": recency, "closed": closed[chosen]}
