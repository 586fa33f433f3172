"""What training jobs share: learning rate, order of batches, checkpoints, loss plot, licences."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from glong.errors import ConfigError
from glong.models.extras import extra

__all__ = [
    "Schedule",
    "check_plots",
    "check_same",
    "learning_rate",
    "licences",
    "plan_epoch",
    "plot_training",
    "read_note",
    "save_checkpoint",
    "spread",
    "write_json",
]

T = TypeVar("T")
_BUCKET_BATCHES = 32
"""Batches whose examples are sorted by length together."""
_SMOOTHED = 25


class Schedule(Protocol):
    """What decides the learning rate of a step."""

    @property
    def steps(self) -> int:
        """Of the whole run."""
        ...

    @property
    def warmup_steps(self) -> int:
        """Until the learning rate is reached."""
        ...

    @property
    def learning_rate(self) -> float:
        """The highest."""
        ...


def learning_rate(step: int, schedule: Schedule) -> float:
    """Linear warm-up, then a cosine to 0 at the last step."""
    if step < schedule.warmup_steps:
        return schedule.learning_rate * (step + 1) / schedule.warmup_steps
    done = (step - schedule.warmup_steps) / max(1, schedule.steps - schedule.warmup_steps)
    return schedule.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def plan_epoch(
    lengths: Sequence[int], batch_tokens: int, seed: int, epoch: int, max_rows: int = 0
) -> list[list[int]]:
    """Indices of the examples of each batch, like lengths together, batches in random order.

    Args:
        lengths: tokens of each example.
        batch_tokens: most padded tokens of a batch; a longer example is alone.
        seed: of the run.
        epoch: passes before this one.
        max_rows: most examples of a batch; 0: as many as fit.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths)).tolist()
    mean = max(1, sum(lengths) // max(1, len(lengths)))
    size = max(1, _BUCKET_BATCHES * batch_tokens // mean)
    batches = [
        batch
        for start in range(0, len(order), size)
        for batch in _cut(
            sorted(order[start : start + size], key=lengths.__getitem__),
            lengths,
            batch_tokens,
            max_rows or len(order),
        )
    ]
    return [batches[i] for i in rng.permutation(len(batches))]


def _cut(
    bucket: Sequence[int], lengths: Sequence[int], batch_tokens: int, max_rows: int
) -> Iterator[list[int]]:
    """Neighbours of a sorted bucket until a batch is full."""
    batch: list[int] = []
    for i in bucket:
        if batch and ((len(batch) + 1) * lengths[i] > batch_tokens or len(batch) == max_rows):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def spread(found: Sequence[T], n: int) -> list[T]:
    """At most ``n`` of them, evenly spread; all for 0."""
    if not n or n >= len(found):
        return list(found)
    return [found[i * len(found) // n] for i in range(n)]


def save_checkpoint(state: Mapping[str, Any], path: Path) -> None:
    """Write to a new name, then rename: a stop in between leaves the checkpoint before."""
    import torch

    made = path.with_name(path.name + ".tmp")
    torch.save(dict(state), made)
    made.rename(path)


def check_plots() -> None:
    """Before a training, that its losses can be drawn after it.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    with extra("plots"):
        import matplotlib  # noqa: F401


def check_same(path: Path, saved: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Whether a checkpoint is of a run with these settings.

    Raises:
        ConfigError: it is not; names the first setting that differs.
    """
    for name in sorted(saved.keys() | ours.keys()):
        if saved.get(name) != ours.get(name):
            raise ConfigError(
                f"{path} is of a run with {name} = {saved.get(name)}, and this one has"
                f" {ours.get(name)}; allowed: the same settings. Give them again, or another --out."
            )


def write_json(value: object, path: Path) -> None:
    """Write to a new name, then rename."""
    made = path.with_name(path.name + ".tmp")
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False, default=str)
    made.write_text(text + "\n", encoding="utf-8")
    made.rename(path)


def read_note(folder: Path) -> dict[str, Any]:
    """How a model that a job exported was made; empty for another model."""
    path = folder / "training.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def licences(data: Path, folders: Mapping[str, str]) -> dict[str, str]:
    """Set -> what the README in its folder below ``data`` says of its licence."""
    found = {}
    for name, folder in folders.items():
        readme = data / folder / "README.md"
        lines = readme.read_text(encoding="utf-8").splitlines() if readme.is_file() else []
        found[name] = _licence(lines)
    return found


def _licence(lines: Sequence[str]) -> str:
    """The item "Licence" of a list, with the lines that go on with it."""
    for number, line in enumerate(lines):
        if line.lower().startswith("- licence") and ":" in line:
            words = [line.split(":", maxsplit=1)[1].strip()]
            for more in lines[number + 1 :]:
                if not more.startswith("  "):
                    break
                words.append(more.strip())
            return " ".join(words)
    return "none stated"


def plot_training(
    losses: Mapping[str, Sequence[float]],
    looks: Sequence[Mapping[str, float]],
    path: Path,
    *,
    measure: str,
    label: str,
    title: str,
    level: float | None = None,
) -> None:
    """Losses by step (thin: each, thick: running mean), and a measure on the held-out part.

    Args:
        losses: name -> the loss of each step, in nats.
        looks: each with ``step`` and the measure; without any there is no such half.
        path: of the PNG.
        measure: key of a look.
        label: of its axis.
        title: of its half.
        level: where a dotted line says "no better than chance".
    """
    with extra("plots"):
        import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = 2 if looks else 1
    figure, axes = plt.subplots(1, n, figsize=(5.5 * n, 4), layout="constrained", squeeze=False)
    left, right = axes[0, 0], axes[0, -1]
    for name, values in losses.items():
        (line,) = left.plot(values, alpha=0.25, linewidth=0.7)
        kernel = np.ones(min(_SMOOTHED, len(values))) / min(_SMOOTHED, len(values))
        means = np.convolve(values, kernel, mode="valid")
        steps = np.arange(len(means)) + len(values) - len(means)
        left.plot(steps, means, color=line.get_color(), label=name)
    left.set(xlabel="step", ylabel="loss (nats)", title="training losses")
    left.legend()
    if looks:
        right.plot([e["step"] for e in looks], [e[measure] for e in looks], marker="o")
        right.set(xlabel="step", ylabel=label, title=title)
    if looks and level is not None:
        right.axhline(level, linestyle=":", color="grey")
    figure.savefig(path, dpi=110)
    plt.close(figure)
