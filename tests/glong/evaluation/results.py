"""A small run of the benchmark's core, for the tests of what is made of it."""

from itertools import count
from typing import Any

from glong.evaluation.asking import Asking, Judgement, ask_dialogue
from glong.evaluation.methods import ABLATION, DEFAULT_METHODS, methods_by_name
from glong.evaluation.questions import Benchmark
from glong.evaluation.report import Run, make_report
from tests.glong.evaluation.memories import ENCODER, QUESTIONS, memory

BENCHMARK = Benchmark(
    name="locomo",
    questions=tuple(QUESTIONS),
    traps={"ids_that_name_no_turn": 2},
    notes=("A note.",),
)
METHODS = (*DEFAULT_METHODS, ABLATION[0], ABLATION[3])


def judgements(tick_s: float = 0.001) -> list[Judgement]:
    """Of all questions, as if all were asked of one memory."""
    ticks = count()
    asking = Asking(ks=(1, 3, 5), user_speaker="Mira", clock=lambda: tick_s * next(ticks))
    vectors = ENCODER.encode([q.text for q in QUESTIONS])
    return ask_dialogue(memory(), QUESTIONS, vectors, methods_by_name(METHODS, "locomo"), asking)


def report(tick_s: float = 0.001, *, seed: int = 0) -> dict[str, Any]:
    run = Run(
        data_sha256="0" * 64,
        ks=(1, 3, 5),
        seed=seed,
        settings={"models": "fake", "limit": 0, "paper": {"decay_per_s": 1e-7}},
        environment={"wall_s": tick_s},
    )
    return make_report(BENCHMARK, judgements(tick_s), run)
