"""What is known of each turn for one query, part by part, before anything is added up.

Words and vectors against the whole memory pick candidates: BM25 of every turn, and cosines of every
turn and triplet (in a large memory of their shadows, see :mod:`glong.retrieval.shadow`). So do
names and times: of the turns that share a name with the query, or were said when it says, the best.
All finer parts are computed for the candidates only. Pure.

Shapes: T turns, E edges, N entities, C candidates.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from glong.config import HybridConfig
from glong.retrieval.asked import Asked
from glong.retrieval.index import MemoryIndex, closed_turns
from glong.retrieval.pagerank import personalised_pagerank
from glong.retrieval.query import N_RECENT, Query
from glong.retrieval.ranks import largest
from glong.retrieval.terms import count_first_person, terms
from glong.retrieval.times import asks_when
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
_DAY_S = 86_400.0
_FADES_DAYS = 180.0
_OF_EACH = 4
"""One of so many candidates is added for each name, and for the time, of a query."""
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


@dataclass(frozen=True, slots=True, eq=False)
class _Like:
    """How like the query is everything: words of turns, and cosines, or nearly so.

    Attributes:
        words: (T,) BM25 of a turn, over its largest.
        turns: (T,) cosines.
        edges: (E,) cosines.
        later: (T,) what was said after the time asked for; ``None`` where no time is.
    """

    words: Floats
    turns: Floats
    edges: Floats
    later: NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """A closer look at candidates.

    Attributes:
        edges: (n,) the candidates' edges.
        owners: (n,) position of each edge's candidate.
        edge_cosine: (n,) exact ones.
        cosine: (C,) exact ones.
        cosine_beside: (C, 3) of the turns before, after and two before; 0 for none or a later one.
        near: (C,) words and a share of the cosine.
        near_beside: (C, 3) the same of the turns beside.
    """

    edges: Places
    owners: Places
    edge_cosine: Floats
    cosine: Floats
    cosine_beside: Floats
    near: Floats
    near_beside: Floats


def candidates(index: MemoryIndex, query: Query, config: HybridConfig) -> Candidates:
    """The turns worth a closer look, and what is known of each."""
    words, words_near, words_session = _words(index, query)
    later = None if query.as_of_s is None else index.said_s > query.as_of_s
    like = _Like(words, *index.shadow.similarities(query.vector), later)
    asked = Asked.of(index, query)
    chosen = _chosen(index, asked, _base(index, like, config), config)
    look = _looked(index, query, like, chosen)
    parts = {
        "words": words[chosen],
        "words_near": words_near[chosen],
        "words_session": words_session[index.session[chosen]],
        "date": asked.dates(index, chosen),
        "linked": _linked(index, look),
    }
    parts |= _dense(look, index.around[chosen])
    parts |= dict(zip(("before", "after", "before_that"), look.near_beside.T, strict=True))
    parts |= {"speaker": asked.speaks(chosen), "name": asked.shares(chosen)}
    parts |= {name: values[chosen] for name, values in index.form.items()}
    parts["says_time"] *= asks_when(query.text)
    parts["own_words"] = parts["first_person"] * (count_first_person(query.text) > 0)
    parts["asks_for"] = parts["asks"] * parts["after"]
    parts |= _stored(index, query, chosen)
    if config.pagerank:
        parts["pagerank"] = _ranked(index, like)[chosen]
    return Candidates(chosen, {name: parts[name] for name in _let_in(config)})


@lru_cache(maxsize=256)
def _let_in(config: HybridConfig) -> tuple[str, ...]:
    """The parts that its switches let in."""
    return tuple(
        name for switch, names in PARTS.items() if getattr(config, switch) for name in names
    )


def _base(index: MemoryIndex, like: _Like, config: HybridConfig) -> Floats:
    """(T,) the sum that picks candidates; -inf for later turns."""
    base = np.zeros(index.graph.n_turns, np.float32)
    if config.lexical:
        base += like.words
    if config.dense_turns:
        base += _DENSE_SHARE * like.turns
    if config.dense_triplets:
        base += _TRIPLET_SHARE * index.best_edge(like.edges)
    if like.later is not None:
        base[like.later] = -np.inf
    return base


def _words(index: MemoryIndex, query: Query) -> list[Floats]:
    """(T,) BM25 of every turn alone, (T,) with its neighbours, (n_sessions,) of its session."""
    asked = tuple(dict.fromkeys(terms(query.text)))
    found = [_scaled(scores) for scores in index.lexicon.scores(asked)]
    earlier = {t for text in query.recent[-N_RECENT:] for t in terms(text)} - set(asked)
    if earlier:
        share = np.float32(max(_RECENT_SHARE, 1 / max(1, len(asked))))
        said_before = index.lexicon.scores(earlier)
        found = [one + share * _scaled(two) for one, two in zip(found, said_before, strict=True)]
    return found


def _looked(index: MemoryIndex, query: Query, like: _Like, chosen: Places) -> _Look:
    """The exact cosines that candidates need; what came from shadows gave way to them."""
    graph, beside = index.graph, index.beside[chosen]
    edges, owners = index.edges_of_all(chosen)
    if index.shadow.is_exact:
        cosine, edge_cosine = like.turns, like.edges[edges]
    else:
        looked_at = np.zeros(graph.n_turns + 1, np.bool_)
        looked_at[chosen] = looked_at[beside] = True  # -1 is the one too many
        wanted = np.flatnonzero(looked_at[:-1])
        cosine = np.zeros(graph.n_turns, np.float32)
        cosine[wanted] = graph.turn_vectors.take(wanted, axis=0) @ query.vector
        edge_cosine = graph.edge_vectors.take(edges, axis=0) @ query.vector
    own, sides = cosine[chosen], _gathered(cosine, beside)
    words_beside = _gathered(like.words, beside)
    if like.later is not None:
        later = like.later[beside]  # of none, -1, whatever: it is 0 already
        sides[later] = words_beside[later] = 0
    return _Look(
        edges,
        owners,
        edge_cosine,
        own,
        sides,
        like.words[chosen] + _DENSE_SHARE * own,
        words_beside + _DENSE_SHARE * sides,
    )


def _dense(look: _Look, lengths: Floats) -> dict[str, Floats]:
    """Cosine with each candidate, with it and its neighbours, and with the best of its triplets.

    ``lengths``, (C,), are those of a candidate's vector with its neighbours' added.
    """
    own, sides = look.cosine, look.cosine_beside
    around = (own + np.float32(0.5) * (sides[:, 0] + sides[:, 1])) / lengths
    triplet = np.zeros(len(own), np.float32)
    np.maximum.at(triplet, look.owners, look.edge_cosine)
    return {"turn": own, "around": around.astype(np.float32), "triplet": triplet}


def _scaled(scores: Floats) -> Floats:
    """Divided by the largest; 1 is the best of this memory."""
    highest = scores.max(initial=0)
    return scores / highest if highest > 0 else scores


def _gathered(values: Floats, places: Places) -> Floats:
    """Values at the places; 0 where the place is -1."""
    if not len(values):
        return np.zeros(places.shape, np.float32)
    taken: Floats = values[places]
    taken[places < 0] = 0
    return taken


def _chosen(index: MemoryIndex, asked: Asked, score: Floats, config: HybridConfig) -> Places:
    """The best turns, and those beside them; none whose score is -inf."""
    n = max(config.n_candidates, config.k)
    if len(score) <= n:
        return np.flatnonzero(score > -np.inf)
    best = _highest(score, n)
    chosen = np.zeros(len(score) + 1, np.bool_)
    chosen[best] = True
    if config.neighbours:
        chosen[index.beside[best, :2]] = True  # -1 is the one too many
    for turns in _pointed_at(index, asked, config):
        chosen[_best(score, turns, n // _OF_EACH)] = True
    turns = np.flatnonzero(chosen[:-1])
    return turns[score[turns] > -np.inf]


def _pointed_at(index: MemoryIndex, asked: Asked, config: HybridConfig) -> Iterator[Places]:
    """Turns that a name or a time of the query leads to, whatever their words."""
    if config.names:
        yield from asked.named
    if config.times and asked.spans:
        yield np.flatnonzero(asked.said_then(index))


def _best(score: Floats, turns: Places, n: int) -> Places:
    """The n turns of the highest score."""
    return turns[_highest(score[turns], n)] if 0 < n < len(turns) else turns


def _highest(score: Floats, n: int) -> NDArray[np.intp]:
    """Places of the n highest, in no order."""
    return np.argpartition(score, len(score) - n)[len(score) - n :]


def _linked(index: MemoryIndex, look: _Look) -> Floats:
    """How much of the best turns' score reaches a candidate over entities that both name.

    One hop of the graph, both directions; an entity of many facts passes less on to each.
    """
    heads, tails = index.graph.heads, index.graph.tails
    own = look.near
    seeds = largest(own, _N_SEEDS)
    is_seed = np.zeros(len(own), np.bool_)
    is_seed[seeds] = True
    theirs = is_seed[look.owners]
    edges, sent = look.edges[theirs], own[look.owners[theirs]]
    passed = np.zeros(index.graph.n_entities, np.float32)
    for ends in (heads[edges], tails[edges]):
        np.maximum.at(passed, ends, sent * index.damping[ends] ** 2)
    linked = np.zeros(len(own), np.float32)
    for ends in (heads[look.edges], tails[look.edges]):
        np.maximum.at(linked, look.owners, passed[ends])
    linked[seeds] = 0
    return linked


def _ranked(index: MemoryIndex, like: _Like) -> Floats:
    """(T,) PageRank from what is most like the query and not later than asked for."""
    turns, edges = like.words + _DENSE_SHARE * like.turns, like.edges
    if like.later is not None:
        turns = np.where(like.later, np.float32(0), turns)
        edges = np.where(like.later[index.graph.edge_turn], np.float32(0), edges)
    return personalised_pagerank(index, turns, edges)


def _stored(index: MemoryIndex, query: Query, chosen: Places) -> dict[str, Floats]:
    """What the store says whatever is asked: importance, age, whether its facts still hold."""
    closed = index.closed
    if query.as_of_s is not None:
        still = holds_at(index.validity, query.as_of_s) | (index.validity.closed_by < 0)
        closed = closed_turns(index.graph, still)
    age_s = np.maximum(0, query.now_s - index.graph.turn_times_s[chosen])
    recency = np.fmax(0, np.exp(age_s / (-_FADES_DAYS * _DAY_S))).astype(np.float32)
    return {"weight": index.weight[chosen], "recency": recency, "closed": closed[chosen]}
