"""Inputs: files of dialogues, native or as data sets have them -> sessions and failures.

One module a data set, a pure function from a raw record to sessions; :mod:`~glong.sources.files`
reads records, :mod:`~glong.sources.reading` puts the two together. Knows nothing of models or
stores.

A new source is a module with ``recognise(record) -> str`` and ``sessions(record, where) ->
Iterator[Item]`` (see :mod:`~glong.sources.records`), named in the two tables at the top of
:mod:`~glong.sources.reading`.
"""

from importlib import resources
from pathlib import Path

from glong.sources.inputs import SUFFIXES, expand_inputs
from glong.sources.reading import FORMATS, Detection, Reader, detect
from glong.sources.records import MAX_TURN_CHARS

__all__ = [
    "FORMATS",
    "MAX_TURN_CHARS",
    "SUFFIXES",
    "Detection",
    "Reader",
    "detect",
    "expand_inputs",
    "sample_dialogues",
]


def sample_dialogues() -> Path:
    """The sample dialogues that ship with glong: native form, written for this project."""
    return Path(str(resources.files("glong"))) / "data" / "sample_dialogues.jsonl"
