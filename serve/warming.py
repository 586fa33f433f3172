"""What a replica does before it is ready, so that its first question costs what a later one does.

Imports and tables of words take seconds when they are first needed: a made-up memory is asked in
both profiles, then the store for one that is not there. No memory of a person is read.
"""

from datetime import UTC, datetime

from glong.build import Models, build_rows
from glong.config import PROFILES
from glong.ids import dialogue_key
from glong.models.fake import FakeEncoder, FakeExtractor, FakeScorer
from glong.retrieval import MemoryIndex, query_text
from glong.store.assembly import GRAPH_COLUMNS, assemble_graph
from glong.tables import ACCESSES, explode, manifest_rows
from glong.types import Session, Turn
from serve.reading import Held, Reader
from serve.records import Ask, Question

__all__ = ["made_up_memory", "warm_reader", "warm_search"]

_TENANT, _DIALOGUE, _DIMENSION = "nobody", "made-up", 16
_START = datetime(2026, 1, 5, 10, tzinfo=UTC)


def made_up_memory() -> Held:
    """A memory of a few turns and triplets, through the product's own build."""
    said = (f"Last May I bought a grey greyhound called Pixel {i}. Did you?" for i in range(16))
    turns = tuple(Turn(i, ("Mira", "Tom")[i % 2], text, _START) for i, text in enumerate(said))
    models = Models(FakeExtractor(), FakeScorer(), FakeEncoder(_DIMENSION))
    built = build_rows(_TENANT, [Session(_DIALOGUE, "s1", _START, turns)], models)
    rows = explode(built, "b1", _DIMENSION) | {"accesses": ACCESSES.empty_table()}
    manifest = manifest_rows(built, "b1", _START)
    graph = assemble_graph(
        manifest, **{table: rows[table].select(names) for table, names in GRAPH_COLUMNS.items()}
    )
    return Held(MemoryIndex.of(graph), (0,), frozenset(), 0, 0.0)


def warm_search() -> int:
    """Ask a made-up memory once in every profile; how many hits that gave."""
    held = made_up_memory()
    query = "When did Mira buy the greyhound?"
    vector = FakeEncoder(_DIMENSION).encode([query_text(query)])[0]
    n_hits = 0
    for profile in PROFILES:
        question = Question(tenant=_TENANT, dialogue_id=_DIALOGUE, query=query, profile=profile)
        answered = Reader.answered(held, Ask(question=question, vector=vector, now=_START), 0.0)
        n_hits += len(answered.retrieval.hits)
    return n_hits


def warm_reader(reader: Reader) -> None:
    """Open the tables that a memory is read from.

    Raises:
        StoreError: the store cannot be read.
    """
    reader.stamp()
    nobodys = dialogue_key(_TENANT, _DIALOGUE)
    for table, columns in GRAPH_COLUMNS.items():
        reader.store.visible(table, dialogue_key=nobodys, columns=columns)
