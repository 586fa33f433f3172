"""Pictures of a report: which there are, and that they are drawn."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from glong.errors import ConfigError
from glong.evaluation.plots import check_plots, draw_plots
from tests.glong.evaluation.results import report

PNG = b"\x89PNG\r\n"


def test_the_plots_of_a_report(tmp_path: Path) -> None:
    found = draw_plots(report(), tmp_path)
    names = ["recall_at_k.png", "by_category.png", "latency.png", "ablation.png"]
    assert [path.name for path in found] == names
    for path in found:
        assert path.read_bytes()[: len(PNG)] == PNG
        assert path.stat().st_size > 5_000


def test_what_does_not_depend_on_time_is_drawn_alike_twice(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = (
        draw_plots(report(0.001), tmp_path / "a"),
        draw_plots(report(0.25), tmp_path / "b"),
    )
    same = [a.name for a, b in zip(first, second, strict=True) if a.read_bytes() == b.read_bytes()]
    assert same == ["recall_at_k.png", "by_category.png", "ablation.png"]


def test_without_an_ablation_there_is_no_picture_of_it(tmp_path: Path) -> None:
    assert "ablation.png" not in {p.name for p in draw_plots(report() | {"ablation": {}}, tmp_path)}


def test_a_missing_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def no_matplotlib(name: str, *args: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError("No module named 'matplotlib'")
        return imported(name, *args)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    with pytest.raises(ConfigError, match=r"pip install \"glong\[plots\]\""):
        check_plots()
