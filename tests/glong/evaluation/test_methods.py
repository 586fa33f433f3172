"""Methods by name, and that the ablation switches every part."""

from dataclasses import fields, replace

import pytest

from glong.config import HYBRID, PAPER
from glong.errors import ConfigError
from glong.evaluation.baselines import BASELINE_SETTINGS
from glong.evaluation.methods import (
    ABLATION,
    DEFAULT_METHODS,
    FULL_CONTEXT,
    by_config,
    methods_by_name,
)
from glong.retrieval import MemoryIndex, retrieve
from tests.glong.evaluation.memories import memory, query


def test_the_default_methods_are_there_for_every_benchmark() -> None:
    for benchmark in BASELINE_SETTINGS:
        found = methods_by_name(DEFAULT_METHODS, benchmark)
        assert list(found) == list(DEFAULT_METHODS)
        assert [name for name in found if found[name] is None] == [FULL_CONTEXT]


def test_the_ablation_switches_every_part_once() -> None:
    parts = [f.name for f in fields(HYBRID) if isinstance(getattr(HYBRID, f.name), bool)]
    assert len(ABLATION) == len(parts) > 8
    for part, name in zip(parts, ABLATION, strict=True):
        assert name == f"glong_{part}_{'off' if getattr(HYBRID, part) else 'on'}"


def test_a_switched_method_is_hybrid_without_that_part() -> None:
    index, asked = MemoryIndex.of(memory()), query("Which dog?")
    name = next(name for name in ABLATION if name.endswith("dense_turns_off"))
    method = methods_by_name((name,), "locomo")[name]
    assert method is not None
    assert method(index)(asked)(3) == retrieve(
        index, asked, replace(HYBRID, dense_turns=False, k=3)
    )


def test_the_paper_is_asked_with_a_coarse_step_of_at_least_k() -> None:
    index, asked = MemoryIndex.of(memory()), query("Which dog?")
    found = by_config(PAPER)(index)(asked)
    assert found(6) == retrieve(index, asked, replace(PAPER, k=6, n_semantic=6))
    assert found(1) == retrieve(index, asked, replace(PAPER, k=1))


@pytest.mark.parametrize("names", [("glong", "graphrag"), ()])
def test_an_unknown_method_is_a_usage_error_that_lists_the_known(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="allowed, with commas: glong, paper"):
        methods_by_name(names, "locomo")
