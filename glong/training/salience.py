"""Is an importance good? It should rank facts that a summary mentions above those it leaves out.

Knows facts, reference texts and numbers; knows no model. The figure is an AUC over pairs of facts
of one session: the share of pairs (mentioned, not mentioned) whose mentioned fact has the higher
score, ties counted half. 0.5 is chance.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from glong.types import Vectors

__all__ = ["BASELINES", "Auc", "Judged", "auc", "baselines", "content_stems", "mentions", "stem"]

N_RESAMPLES = 1000
"""Bootstrap samples of dialogues behind an interval."""

_WORD = re.compile(r"[a-z0-9']+")
_STOP_WORDS = frozenset(
    """a about after again all also am an and any are as at be because been before being both
    but by can could did do does doing don't for from had has have having he her here hers him
    his how i i'd i'll i'm i've if in into is isn't it it's its just me more most my no nor
    not of off on once one only or other our out over own really she so some such than that
    the their them then there these they this those to too up us very was we were what when
    where which while who will with would you your""".split()  # noqa: SIM905  # a list of words reads better as text
)
_ENDINGS = ("ing", "ed", "ies", "es", "s", "ly")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A light suffix stemmer: ``walks``, ``walked`` and ``walking`` -> ``walk``.

    At least three letters stay; ``ies`` becomes ``y``, a doubled last letter and a last ``e`` go,
    so that ``running`` meets ``run`` and ``hiking`` meets ``hike``.
    """
    word = word.removesuffix("'s").replace("'", "")
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(ending) + ("y" if ending == "ies" else "")
            if ending in ("ing", "ed") and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word.removesuffix("e") if len(word) > 3 else word


def content_stems(text: str) -> frozenset[str]:
    """Stems of the words of a text that are not stop words."""
    words = _WORD.findall(text.lower().replace("\u2019", "'"))
    return frozenset(stem(word) for word in words if word not in _STOP_WORDS) - {""}


def mentions(reference: frozenset[str], object_: str) -> bool | None:
    """Whether a reference mentions a fact: all content words of its object occur there.

    Args:
        reference: :func:`content_stems` of the reference text.
        object_: the object of the fact.

    Returns:
        ``None`` where the object has no content word, so that nothing can be said.
    """
    stems = content_stems(object_)
    return stems <= reference if stems else None


@dataclass(frozen=True, slots=True)
class Judged:
    """The facts of one session with a score each.

    Attributes:
        dialogue_id: what the bootstrap draws.
        mentioned: (n_facts,) whether the reference mentions the fact.
        scores: (n_facts,) higher is more important.
    """

    dialogue_id: str
    mentioned: NDArray[np.bool_]
    scores: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Auc:
    """An AUC over all pairs within sessions, with its bootstrap 95 % interval over dialogues.

    Attributes:
        value: share of pairs in order, 0 to 1; NaN without pairs.
        low: 2.5 % of the resampled values.
        high: 97.5 % of them.
        n_pairs: pairs (mentioned, not mentioned) within sessions.
        n_sessions: sessions that have a pair.
        n_dialogues: dialogues that have a pair.
    """

    value: float
    low: float
    high: float
    n_pairs: int
    n_sessions: int
    n_dialogues: int


def auc(sessions: Sequence[Judged], seed: int = 0, n_resamples: int = N_RESAMPLES) -> Auc:
    """The AUC over pairs within sessions; every pair counts the same.

    Args:
        sessions: facts with scores; a session without a pair adds nothing.
        seed: of the bootstrap.
        n_resamples: bootstrap samples.
    """
    totals: dict[str, list[float]] = {}
    n_sessions = 0
    for session in sessions:
        won, n_pairs = _pairs_in_order(session)
        if n_pairs:
            n_sessions += 1
            total = totals.setdefault(session.dialogue_id, [0.0, 0.0])
            total[0] += won
            total[1] += n_pairs
    if not totals:
        return Auc(np.nan, np.nan, np.nan, 0, 0, 0)
    sums = np.array(list(totals.values()))  # (n_dialogues, 2): pairs in order, pairs
    drawn = np.random.default_rng(seed).integers(len(sums), size=(n_resamples, len(sums)))
    resampled = sums[drawn].sum(axis=1)  # (n_resamples, 2)
    low, high = np.quantile(resampled[:, 0] / resampled[:, 1], [0.025, 0.975])
    won_all, n_all = sums.sum(axis=0)
    return Auc(float(won_all / n_all), float(low), float(high), int(n_all), n_sessions, len(sums))


def _pairs_in_order(session: Judged) -> tuple[float, int]:
    """Pairs whose mentioned fact scores higher, ties half; and all pairs."""
    yes = session.scores[session.mentioned][:, None]
    no = session.scores[~session.mentioned][None, :]
    return float((yes > no).sum() + 0.5 * (yes == no).sum()), yes.size * no.size


BASELINES = ("lead", "length", "brevity", "centrality", "random")


def baselines(
    texts: Sequence[str], vectors: Vectors, rng: np.random.Generator
) -> dict[str, NDArray[np.float64]]:
    """Scores of one session's facts that need no summariser.

    ``lead``: earlier is higher. ``length``: more words are higher, ``brevity`` the reverse.
    ``centrality``: mean cosine with the session's other facts. ``random``: a draw each.

    Args:
        texts: the facts in order.
        vectors: (n_facts, dimension) of unit length.
        rng: of ``random``.

    Returns:
        Name -> (n_facts,).
    """
    n = len(texts)
    length = np.array([len(text.split()) for text in texts], dtype=np.float64)
    similarity = vectors.astype(np.float64) @ vectors.astype(np.float64).T
    return {
        "lead": -np.arange(n, dtype=np.float64),
        "length": length,
        "brevity": -length,
        "centrality": (similarity.sum(axis=1) - np.diag(similarity)) / max(n - 1, 1),
        "random": rng.random(n),
    }
