import subprocess
import sys
from pathlib import Path

import pytest

from glong.config import FAKE_MODELS
from glong.errors import StoreError
from glong.memory import Memory
from serve.reading import Reader
from serve.warming import made_up_memory, warm_reader, warm_search

LATER = """
import sys
from serve.warming import warm_search, made_up_memory
warm_search()
before = set(sys.modules)
warm_search()
print(sorted(set(sys.modules) - before))
"""


def test_the_made_up_memory_has_triplets_and_answers_in_every_profile() -> None:
    graph = made_up_memory().index.graph
    assert (graph.n_turns, graph.n_edges > 3) == (16, True)
    assert warm_search() >= 2


def test_a_warm_search_leaves_nothing_to_import() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATER], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


def test_warming_a_reader_adds_nothing_to_the_store(tmp_path: Path) -> None:
    memory = Memory.open(str(tmp_path / "store"), models=FAKE_MODELS)
    warm_reader(Reader(memory.store))
    assert memory.store.manifest().num_rows == 0


def test_a_store_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    reader = Reader(Memory.open(str(tmp_path / "store"), models=FAKE_MODELS).store)
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        warm_reader(reader)
