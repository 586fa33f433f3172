"""Discs in the plane that do not overlap, and free directions around one. Deterministic."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["free_angles", "place_discs"]

GRAVITY = 0.04
"""Of the way to the middle that a disc goes in a round: what is linked to nothing stays near."""
N_ROUNDS = 400
PULLED_ROUNDS = 280
"""Of the rounds; the others only part what overlaps."""


def free_angles(n: int, taken: Sequence[float]) -> list[float]:
    """``n`` directions around a circle, none where one of the ``taken`` leaves it."""
    n_slots = n + len(taken)
    blocked = {round(angle / (2 * math.pi) * n_slots) % n_slots for angle in taken}
    free = [slot for slot in range(n_slots) if slot not in blocked]
    return [2 * math.pi * slot / n_slots for slot in free[:n]]


def place_discs(radii: Sequence[float], links: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """Centres (n, 2) of discs: linked ones close together, none over another.

    Args:
        radii: of the n discs.
        links: pairs of discs; each pulls both ways.
    """
    n = len(radii)
    if n == 0:
        return np.zeros((0, 2))
    radius = np.array(radii)
    linked = np.zeros((n, n), dtype=bool)
    for left, right in links:
        linked[left, right] = linked[right, left] = True
    apart = radius[:, None] + radius[None, :]
    np.fill_diagonal(apart, 0.0)
    # Large discs move less than small ones: the hubs settle, the rest goes around them.
    give = radius[None, :] ** 2 / (radius[:, None] ** 2 + radius[None, :] ** 2)
    xy = _sunflower(radius)
    for round_ in range(N_ROUNDS):
        xy = xy + _moves(xy, linked, apart, give, pull=round_ < PULLED_ROUNDS)
    # In a crowd a little overlap may be left, of some percent: all is spread by that much.
    distance = _distances(xy)[1]
    return xy * max(1.0, float((apart / np.maximum(distance, 1e-9)).max()) * (1 + 1e-9))


def _sunflower(radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest in the middle, the others around it: no two start in one place."""
    turn = np.empty(len(radius))
    turn[np.argsort(-radius, kind="stable")] = np.arange(len(radius))
    away = 2 * radius.mean() * np.sqrt(turn)
    angle = turn * math.pi * (3 - math.sqrt(5))
    return np.column_stack([away * np.cos(angle), away * np.sin(angle)])


def _moves(
    xy: NDArray[np.float64],
    linked: NDArray[np.bool_],
    apart: NDArray[np.float64],
    give: NDArray[np.float64],
    *,
    pull: bool,
) -> NDArray[np.float64]:
    """One step (c, 2): overlapping discs go apart; while ``pull``, linked ones come together."""
    between, distance = _distances(xy)
    unit = between / np.maximum(distance, 1e-9)[:, :, None]
    missing = distance - apart  # below 0: they overlap
    force = np.where(missing < 0, missing * 0.5, 0.0) * give
    if pull:  # shared among a disc's links, so that many of them do not throw it about
        share = 0.2 / np.maximum(linked.sum(axis=1), 1)[:, None]
        force += np.where(linked & (missing > 0), missing * share, 0.0)
    step: NDArray[np.float64] = (force[:, :, None] * unit).sum(axis=1)
    return step - GRAVITY * (xy - xy.mean(axis=0)) if pull else step


def _distances(xy: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """From each to each: vectors (n, n, 2) and their lengths (n, n)."""
    between = xy[None, :, :] - xy[:, None, :]
    return between, np.sqrt((between**2).sum(axis=2))
