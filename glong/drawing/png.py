"""A drawing as a PNG, with matplotlib (extra ``plots``)."""

from pathlib import Path
from typing import TYPE_CHECKING

from glong.drawing.html import caption
from glong.drawing.layout import Drawing, Label, PlacedLink, PlacedNode
from glong.models.extras import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["save_png"]

DPI = 144
PX_PER_INCH = 96.0
HEAD_PX = 40.0
"""Above the picture, for its title and caption."""
HIT, CLOSED, PLAIN, NODE, ASKED = "#d9480f", "#9aa5b1", "#9fb3c8", "#486581", "#f76707"
POINTS_PER_PX = 72 / PX_PER_INCH


def save_png(drawing: Drawing, path: Path) -> None:
    """Write the picture at its own size.

    Raises:
        ConfigError: matplotlib is missing.
        OSError: the file cannot be written.
    """
    with extra("plots"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    width, height = max(drawing.width, 600.0), drawing.height + HEAD_PX
    figure = Figure(figsize=(width / PX_PER_INCH, height / PX_PER_INCH), dpi=DPI)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim((drawing.width - width) / 2, (drawing.width + width) / 2)
    axes.set_ylim(drawing.height, -HEAD_PX)
    left = (drawing.width - width) / 2 + 12
    _write(axes, Label(drawing.picture.title, left, -HEAD_PX + 14, 14, anchor="start"), "#1f2933")
    _write(axes, Label(caption(drawing), left, -HEAD_PX + 32, 10, anchor="start"), "#616e7c")
    for link in sorted(drawing.links, key=lambda placed: placed.link.is_hit):
        _draw_link(axes, link)
    for node in drawing.nodes:
        _draw_node(axes, node)
    FigureCanvasAgg(figure)
    figure.savefig(path, format="png")


def _draw_link(axes: "Axes", placed: PlacedLink) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    link = placed.link
    colour = HIT if link.is_hit else CLOSED if link.is_closed else PLAIN
    curve = Curve([placed.start, placed.control, placed.end], [Curve.MOVETO, *[Curve.CURVE3] * 2])
    axes.add_patch(
        PathPatch(
            curve,
            fill=False,
            edgecolor=colour,
            linewidth=2.2 if link.is_hit else 0.5 + link.weight,
            linestyle=(0, (4, 3)) if link.is_closed else "solid",
            zorder=2 if link.is_hit else 1,
        )
    )
    colour = HIT if link.is_hit else CLOSED if link.is_closed else "#52606d"
    _write(axes, placed.label, colour, is_bold=link.is_hit)


def _draw_node(axes: "Axes", placed: PlacedNode) -> None:
    from matplotlib.patches import Circle

    colour = ASKED if placed.node.is_asked else NODE
    circle = Circle(
        (placed.x, placed.y), placed.radius, facecolor=colour, edgecolor="white", zorder=3
    )
    axes.add_patch(circle)
    _write(axes, placed.label, "#1f2933", is_bold=placed.node.is_asked)


def _write(axes: "Axes", label: Label, colour: str, *, is_bold: bool = False) -> None:
    from matplotlib.patheffects import withStroke

    sides = {"start": "left", "middle": "center", "end": "right"}
    axes.text(
        label.x,
        label.y,
        label.text.replace("$", r"\$"),  # a pair of them would be read as a formula
        fontsize=label.size_px * POINTS_PER_PX,
        color=colour,
        fontweight="bold" if is_bold else "normal",
        rotation=-label.angle,
        rotation_mode="anchor",
        ha=sides[label.anchor],
        va="center_baseline" if label.anchor != "middle" else "center",
        zorder=4,
        # Only what lies over lines: an outline doubles the time of a text.
        path_effects=[withStroke(linewidth=2, foreground="white")] * (label.anchor == "middle"),
    )
