"""``retrieve``, ``respond`` and ``history``: what a memory has to say."""

import argparse
from dataclasses import asdict

from glong.cli.exits import DONE
from glong.cli.opening import check_dialogue, open_dialogue, open_store, question_of
from glong.cli.text import show
from glong.drawing.wording import history_text, hits_text

__all__ = ["history", "respond", "retrieve"]


def retrieve(args: argparse.Namespace) -> int:
    """The memories that answer a question."""
    with open_dialogue(args) as memory:
        result = memory.retrieve(args.dialogue, args.query, **question_of(args))
    show(args, asdict(result), hits_text(result.hits))
    return DONE


def respond(args: argparse.Namespace) -> int:
    """An answer to a message, then the memories that it rests on."""
    with open_dialogue(args) as memory:
        response = memory.respond(args.dialogue, args.message, **question_of(args))
    show(args, asdict(response), f"{response.text}\n\n{hits_text(response.memories)}")
    return DONE


def history(args: argparse.Namespace) -> int:
    """Every fact of an entity, in order of time; no model is loaded."""
    from glong import validity

    check_dialogue(args)
    graph = open_store(args).read_graph(args.tenant, args.dialogue)
    facts = validity.history(graph, validity.intervals(graph), args.entity, args.relation)
    show(args, [asdict(fact) for fact in facts], history_text(facts))
    return DONE
