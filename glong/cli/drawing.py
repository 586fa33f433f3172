"""``graph``: a memory, or what is around a question or an entity of it, as a picture."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from glong.cli.exits import DONE
from glong.cli.opening import (
    check_dialogue,
    open_memory,
    open_store,
    question_of,
    writing_to,
)
from glong.cli.text import show
from glong.errors import ConfigError
from glong.types import Hit

if TYPE_CHECKING:
    from glong.drawing import Drawing
    from glong.graph import MemoryGraph

__all__ = ["MAX_EDGES", "MAX_EDGES_AROUND", "graph"]

PICTURES = (".html", ".htm", ".png")
MAX_EDGES, MAX_EDGES_AROUND = 500, 60
"""Facts drawn of a whole memory, and around a question or an entity, if nothing is said."""


def graph(args: argparse.Namespace) -> int:
    """Write the picture that was asked for."""
    from glong.drawing import caption, save_png, to_html

    out = Path(args.out)
    if out.suffix.lower() not in PICTURES:
        raise ConfigError(f"--out is {args.out!r}; allowed: a file ending in .html or .png.")
    if args.max_edges is not None and args.max_edges < 1:
        raise ConfigError(f"--max-edges is {args.max_edges}; allowed: 1 or more.")
    drawing = _drawing(args)
    with writing_to(args.out):
        if out.suffix.lower() == ".png":
            save_png(drawing, out)
        else:
            out.write_text(to_html(drawing), encoding="utf-8")
    show(args, {"out": args.out} | asdict(drawing.picture), f"{out}: {caption(drawing)}")
    return DONE


def _drawing(args: argparse.Namespace) -> "Drawing":
    from glong.drawing import arrange, picture_of
    from glong.validity import entity_index, intervals

    memory, hits = _graph_and_hits(args)
    around = args.query or args.entity or ""
    picture = picture_of(
        memory,
        intervals(memory),
        f"{args.dialogue}: {around}" if around else args.dialogue,
        max_links=args.max_edges or (MAX_EDGES_AROUND if around else MAX_EDGES),
        hits=hits,
        entity=entity_index(memory, args.entity) if args.entity else None,
    )
    return arrange(picture)


def _graph_and_hits(args: argparse.Namespace) -> "tuple[MemoryGraph, tuple[Hit, ...]]":
    """One dialogue's graph; models are loaded only where there is a query."""
    check_dialogue(args)
    if not args.query:
        return open_store(args).read_graph(args.tenant, args.dialogue), ()
    with open_memory(args) as memory:
        result = memory.retrieve(args.dialogue, args.query, touch=False, **question_of(args))
        return memory.graph(args.dialogue, version=result.store_version), result.hits
