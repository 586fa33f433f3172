"""Where everything stands in a picture: hubs as discs that do not overlap, leaves around them.

A memory of a dialogue is a few hubs (the speakers) with hundreds of things that only one of them
touches. Those stand on a ring around their hub with their names pointing outwards, so that nothing
crosses; what several touch stands between the hubs. Deterministic: no random start.

Units are pixels of the picture at its own size, y downwards.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glong.drawing.discs import free_angles, place_discs
from glong.drawing.picture import Link, Node, Picture
from glong.drawing.wording import shorten

__all__ = ["Drawing", "Label", "PlacedLink", "PlacedNode", "arrange"]

LONGEST_NAME = 28
NAME_PX, RELATION_PX, CHARACTER_PX = 11, 9, 5.5
MOST_EXTRA_PX = 24
"""Half of it, at most, a heavy node's name is larger than others."""
LEAF_GAP_PX = 14
"""Along the ring: a line of text and a little air."""
LONGEST_SPOKE_PX = 140
"""Of a ring whose leaves would have room on a smaller one."""
MARGIN_PX = 30


@dataclass(frozen=True, slots=True)
class Label:
    """Text at (x, y), turned by ``angle`` degrees; ``anchor`` is its start, middle or end."""

    text: str
    x: float
    y: float
    size_px: float
    angle: float = 0.0
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node as a circle with its name."""

    node: Node
    x: float
    y: float
    radius: float
    label: Label


@dataclass(frozen=True, slots=True)
class PlacedLink:
    """A link as a quadratic curve, start, control, end; a loop's control stands above its node."""

    link: Link
    start: tuple[float, float]
    control: tuple[float, float]
    end: tuple[float, float]
    label: Label


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture with every place; everything lies within (0, 0) and (width, height)."""

    picture: Picture
    width: float
    height: float
    nodes: tuple[PlacedNode, ...]
    links: tuple[PlacedLink, ...]


def arrange(picture: Picture) -> Drawing:
    """Place a picture's nodes, links and labels."""
    hub_of = _hubs(picture)
    xy, outwards = _positions(picture, hub_of)
    nodes = [_placed(node, xy[i], outwards.get(i)) for i, node in enumerate(picture.nodes)]
    corners = np.array([point for node in nodes for point in _extent(node)] or [(0.0, 0.0)])
    shift = MARGIN_PX - corners.min(axis=0)
    width, height = corners.max(axis=0) + shift + MARGIN_PX
    xy = xy + shift
    nodes = [_placed(node, xy[i], outwards.get(i)) for i, node in enumerate(picture.nodes)]
    return Drawing(
        picture, float(width), float(height), tuple(nodes), _links(picture, nodes, hub_of)
    )


def _hubs(picture: Picture) -> dict[int, int]:
    """Leaf -> the only node it touches. Of two nodes that only touch each other one is a hub."""
    touched: dict[int, set[int]] = defaultdict(set)
    for link in picture.links:
        if link.head != link.tail:
            touched[link.head].add(link.tail)
            touched[link.tail].add(link.head)
    found: dict[int, int] = {}
    for node, others in touched.items():
        (other, *more) = others
        weights = [(picture.nodes[i].weight, -i) for i in (node, other)]
        if not more and (len(touched[other]) > 1 or weights[0] < weights[1]):
            found[node] = other
    return found


def _positions(
    picture: Picture, hub_of: dict[int, int]
) -> tuple[NDArray[np.float64], dict[int, float]]:
    """Positions (n, 2), and for each leaf the direction away from its hub, in radians."""
    cores = [i for i in range(len(picture.nodes)) if i not in hub_of]
    place = {core: i for i, core in enumerate(cores)}
    leaves, relation_of = _leaves(picture, hub_of)
    names = [node.name for node in picture.nodes]
    rings = {hub: _ring_px([relation_of[i] for i in found]) for hub, found in leaves.items()}
    discs = [
        rings[i] + max(_width_px(names[leaf]) for leaf in leaves[i]) + NAME_PX
        if i in leaves
        else max(25.0, _width_px(names[i]) / 2)
        for i in cores
    ]
    ends = {(link.head, link.tail) for link in picture.links if link.head != link.tail}
    links = [(place[h], place[t]) for h, t in sorted(ends) if h in place and t in place]
    xy = np.zeros((len(picture.nodes), 2))
    xy[cores] = place_discs(discs, links)
    outwards = {}
    for hub, found in leaves.items():
        others = [cores[b if a == place[hub] else a] for a, b in links if place[hub] in (a, b)]
        taken = [math.atan2(dy, dx) for dx, dy in xy[others] - xy[hub]]
        for leaf, angle in zip(found, free_angles(len(found), taken), strict=True):
            outwards[leaf] = angle
            xy[leaf] = xy[hub] + rings[hub] * np.array([math.cos(angle), math.sin(angle)])
    return xy, outwards


def _leaves(
    picture: Picture, hub_of: dict[int, int]
) -> tuple[dict[int, list[int]], dict[int, str]]:
    """Hub -> its leaves, those of one relation side by side; and each leaf's relation."""
    relation_of = {i: link.relation for link in picture.links[::-1] for i in (link.head, link.tail)}
    leaves: dict[int, list[int]] = defaultdict(list)
    for leaf in sorted(hub_of, key=lambda i: (relation_of[i], picture.nodes[i].name)):
        leaves[hub_of[leaf]].append(leaf)
    return dict(leaves), relation_of


def _ring_px(relations: Sequence[str]) -> float:
    """Radius of a hub's ring: leaves find room along it, the relations' names across it."""
    across = 40 + max(len(relation) for relation in relations) * CHARACTER_PX
    along = len(relations) * LEAF_GAP_PX / (2 * math.pi)
    return max(min(across, LONGEST_SPOKE_PX), along)


def _width_px(name: str) -> float:
    return min(len(name), LONGEST_NAME) * CHARACTER_PX * 1.15


def _placed(node: Node, xy: NDArray[np.float64], outwards: float | None) -> PlacedNode:
    x, y = float(xy[0]), float(xy[1])
    radius = 3.0 + 2.5 * math.sqrt(node.weight)
    name = shorten(node.name, LONGEST_NAME)
    if outwards is None:
        size = NAME_PX + min(radius, MOST_EXTRA_PX) * 0.5
        return PlacedNode(node, x, y, radius, Label(name, x, y - radius - size * 0.7, size))
    away = radius + 4
    label_x, label_y = x + away * math.cos(outwards), y + away * math.sin(outwards)
    angle, turned = _readable(outwards)
    label = Label(name, label_x, label_y, NAME_PX, angle, "end" if turned else "start")
    return PlacedNode(node, x, y, radius, label)


def _readable(direction: float) -> tuple[float, bool]:
    """Degrees for text along a direction, never upside down, and whether it was turned round."""
    degrees = math.degrees(direction) % 360
    turned = 90 < degrees < 270
    return (degrees - 180 if turned else degrees), turned


def _extent(node: PlacedNode) -> list[tuple[float, float]]:
    """Corners that the picture has to hold: of the circle and of the label."""
    length = _width_px(node.label.text) * node.label.size_px / NAME_PX
    along = {"start": (0.0, length), "end": (-length, 0.0), "middle": (-length / 2, length / 2)}
    angle = math.radians(node.label.angle)
    ends = [
        (node.label.x + d * math.cos(angle), node.label.y + d * math.sin(angle))
        for d in along[node.label.anchor]
    ]
    r = node.radius + NAME_PX
    return [(node.x - r, node.y - r), (node.x + r, node.y + r), *ends]


def _links(
    picture: Picture, nodes: Sequence[PlacedNode], hub_of: dict[int, int]
) -> tuple[PlacedLink, ...]:
    """Curves; links between the same two nodes fan out."""
    pairs = [frozenset((link.head, link.tail)) for link in picture.links]
    totals, seen = Counter(pairs), Counter[frozenset[int]]()
    placed = []
    for link, pair in zip(picture.links, pairs, strict=True):
        lane = seen[pair] - (totals[pair] - 1) / 2
        seen[pair] += 1
        if link.head == link.tail:
            placed.append(_loop(link, nodes[link.head], seen[pair]))
        else:
            # A lane is a side of the pair, not of the direction in which the fact points.
            side = lane if link.head < link.tail else -lane
            leaf = next((end for end in (link.head, link.tail) if end in hub_of), None)
            placed.append(_curve(link, nodes, side, leaf))
    return tuple(placed)


def _curve(link: Link, nodes: Sequence[PlacedNode], lane: float, leaf: int | None) -> PlacedLink:
    head, tail = nodes[link.head], nodes[link.tail]
    dx, dy = tail.x - head.x, tail.y - head.y
    length = max(math.hypot(dx, dy), 1e-9)
    ux, uy = dx / length, dy / length
    start = (head.x + ux * head.radius, head.y + uy * head.radius)
    end = (tail.x - ux * tail.radius, tail.y - uy * tail.radius)
    bend = lane * 2.4 * RELATION_PX
    control = ((start[0] + end[0]) / 2 - uy * bend, (start[1] + end[1]) / 2 + ux * bend)
    at = 0.5
    if leaf is not None:  # near the leaf, where spokes are farthest apart
        room = (len(link.relation) * CHARACTER_PX * 0.45 + 10) / length
        at = max(0.5, 1 - room) if leaf == link.tail else min(0.5, room)
    x, y = (
        (1 - at) ** 2 * s + 2 * at * (1 - at) * c + at**2 * e
        for s, c, e in zip(start, control, end, strict=True)
    )
    angle, _ = _readable(math.atan2(dy, dx))
    return PlacedLink(link, start, control, end, Label(link.relation, x, y, RELATION_PX, angle))


def _loop(link: Link, node: PlacedNode, number: int) -> PlacedLink:
    """A fact of a node about itself: a drop below it, each longer than the one before."""
    size = node.radius + 16.0 * number
    start, end = (node.x - node.radius, node.y), (node.x + node.radius, node.y)
    label = Label(link.relation, node.x, node.y + size, RELATION_PX)
    return PlacedLink(link, start, (node.x, node.y + 2 * size), end, label)
