"""The work of ``reindex_benchmark`` on Ray's workers: encode the questions, ask one dialogue."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import ray

from glong.config import EncoderSpec
from glong.evaluation.asking import Asking, Judgement, ask_dialogue
from glong.evaluation.methods import methods_by_name
from glong.evaluation.questions import Question
from glong.models.load import load_encoder
from glong.retrieval import query_text
from glong.store import Store
from glong.types import Vectors

__all__ = ["DialogueTask", "ask", "encode_questions", "on_workers"]

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DialogueTask:
    """The questions of one dialogue.

    Attributes:
        store_uri: where the index is.
        version: of the index, so that every task reads the same.
        tenant: whose.
        benchmark: whose recipes the baselines take.
        questions: all of one dialogue.
        vectors: (n_questions, dimension) of their texts.
        methods: names.
        ks: cut-offs.
        user_speaker: see :class:`~glong.evaluation.asking.Asking`.
    """

    store_uri: str
    version: int
    tenant: str
    benchmark: str
    questions: tuple[Question, ...]
    vectors: Vectors
    methods: tuple[str, ...]
    ks: tuple[int, ...]
    user_speaker: str


def ask(task: DialogueTask) -> list[Judgement]:
    """Every question of one dialogue by every method; reads the store, writes nothing."""
    store = Store.open(task.store_uri)
    graph = store.read_graph(task.tenant, task.questions[0].dialogue_id, task.version)
    asking = Asking(
        ks=task.ks,
        user_speaker=task.user_speaker,
        clock=time.perf_counter,
    )
    methods = methods_by_name(task.methods, task.benchmark)
    return ask_dialogue(graph, task.questions, task.vectors, methods, asking)


def encode_questions(task: tuple[EncoderSpec, tuple[str, ...]]) -> Vectors:
    """Vectors (n_questions, dimension) of all questions, once, in one batch."""
    spec, texts = task
    return load_encoder(spec).encode([query_text(text) for text in texts])


def on_workers(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
    """The results in the order of the tasks, each a task of Ray with a CPU of its own."""
    remote = ray.remote(num_cpus=1)(function)
    references = [remote.remote(task) for task in tasks]
    for reference in references:
        result: Result = ray.get(reference)
        yield result
