"""Pictures of a memory for people: one self-contained HTML page, or a PNG.

``picture_of`` chooses what is shown, ``arrange`` places it, ``to_html`` and ``save_png`` draw it.
"""

from glong.drawing.html import caption, to_html
from glong.drawing.layout import Drawing, arrange
from glong.drawing.picture import Link, Node, Picture, picture_of
from glong.drawing.png import save_png
from glong.drawing.wording import fact_text, history_text, hits_text, shorten, time_text

__all__ = [
    "Drawing",
    "Link",
    "Node",
    "Picture",
    "arrange",
    "caption",
    "fact_text",
    "history_text",
    "hits_text",
    "picture_of",
    "save_png",
    "shorten",
    "time_text",
    "to_html",
]
