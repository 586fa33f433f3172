"""A drawing as one HTML page: inline SVG, a little inline script, nothing from any network.

Every text of the memory is escaped, and the page's own policy forbids it to load anything. Without
script the picture is there too, with its notes; the script adds zoom, drag and the neighbours of
the node under the pointer.
"""

from html import escape
from importlib.resources import files
from string import Template

from glong.drawing.layout import Drawing, Label, PlacedLink, PlacedNode
from glong.drawing.wording import fact_text, time_text
from glong.types import Hit

__all__ = ["caption", "to_html"]


def to_html(drawing: Drawing) -> str:
    """The page as text."""
    page = files("glong.drawing").joinpath("page.html").read_text(encoding="utf-8")
    return Template(page).substitute(
        title=escape(drawing.picture.title),
        caption=escape(caption(drawing)),
        svg=_svg(drawing),
        hits=_hits(drawing.picture.hits),
    )


def caption(drawing: Drawing) -> str:
    """What is shown and how much was left out, in one line."""
    picture = drawing.picture
    n_closed = sum(link.is_closed for link in picture.links)
    left_out = f"; {picture.n_left_out} lighter facts are left out" if picture.n_left_out else ""
    return (
        f"{len(picture.links)} facts between {len(picture.nodes)} entities, {n_closed} closed by a"
        f" later fact (dashed){left_out}."
    )


def _svg(drawing: Drawing) -> str:
    view = f"0 0 {drawing.width:.0f} {drawing.height:.0f}"
    # Hits last: they lie on top.
    links = [_link(link) for link in sorted(drawing.links, key=lambda placed: placed.link.is_hit)]
    nodes = [_node(place, node) for place, node in enumerate(drawing.nodes)]
    return "\n".join([f'<svg id="memory" viewBox="{view}" role="img">', *links, *nodes, "</svg>"])


def _link(placed: PlacedLink) -> str:
    link = placed.link
    names = ["link", *(["closed"] if link.is_closed else []), *(["hit"] if link.is_hit else [])]
    (x0, y0), (cx, cy), (x1, y1) = placed.start, placed.control, placed.end
    path = f"M{x0:.1f} {y0:.1f}Q{cx:.1f} {cy:.1f} {x1:.1f} {y1:.1f}"
    return (
        f'<g class="{" ".join(names)}" data-ends="{link.head} {link.tail}">'
        f"<title>{escape(link.note)}</title>"
        f'<path d="{path}" stroke-width="{0.6 + 1.6 * link.weight:.2f}"/>{_text(placed.label)}</g>'
    )


def _node(place: int, placed: PlacedNode) -> str:
    kind = "node asked" if placed.node.is_asked else "node"
    note = f"{placed.node.name}\nweight {placed.node.weight:.2f}"
    return (
        f'<g class="{kind}" data-node="{place}"><title>{escape(note)}</title>'
        f'<circle cx="{placed.x:.1f}" cy="{placed.y:.1f}" r="{placed.radius:.1f}"/>'
        f"{_text(placed.label)}</g>"
    )


def _text(label: Label) -> str:
    turn = f' transform="rotate({label.angle:.1f} {label.x:.1f} {label.y:.1f})"'
    return (
        f'<text x="{label.x:.1f}" y="{label.y:.1f}" font-size="{label.size_px:.0f}"'
        f' text-anchor="{label.anchor}"'
        f"{turn if label.angle else ''}>{escape(label.text)}</text>"
    )


def _hits(hits: tuple[Hit, ...]) -> str:
    rows = []
    for hit in hits:
        facts = "".join(f"<b>{escape(fact_text(edge))}</b><br>" for edge in hit.edges)
        said = f"{hit.turn.speaker}, {time_text(hit.turn.time)}: {hit.turn.text}"
        rows.append(f"<li>{facts}{escape(said)} <i>{hit.score:.2f}</i></li>")
    return f"<ol>{''.join(rows)}</ol>" if rows else ""
