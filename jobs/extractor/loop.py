"""The training loop. A stopped run goes on as if it had not stopped."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from glong.errors import ConfigError
from glong.ids import text_hash
from jobs.extractor.batches import Example, collate
from jobs.extractor.model import answer_loss, trained
from jobs.training import check_same, learning_rate, plan_epoch, save_checkpoint

__all__ = ["Loop", "Settings"]

_MOST_WARMUP = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What decides every number of a run, beside the data.

    Attributes:
        model: name of the base model.
        quantization: of its weights, ``none`` or ``nf4``.
        rank: of the adapter.
        alpha: the adapter's factor is alpha / rank.
        epochs: passes over all lessons.
        batch_tokens: most padded tokens of a worker's step, beside the prompt's shared beginning.
        batch_rows: most lessons of a worker's step; 0: as many as fit.
        seed: of the adapter's first weights and of the order.
        learning_rate: the highest, reached after a tenth of the run or 100 steps; cosine to 0.
        clip: highest norm of the gradient.
        weight_decay: of AdamW.
        n_workers: processes that share a step.
    """

    model: str
    quantization: str
    rank: int
    alpha: int
    epochs: int
    batch_tokens: int
    batch_rows: int
    seed: int
    learning_rate: float
    clip: float = 1.0
    weight_decay: float = 0.0
    n_workers: int = 1


@dataclass(frozen=True, slots=True)
class _Rate:
    steps: int
    warmup_steps: int
    learning_rate: float


class Loop:
    """Model, optimiser and place in the data.

    Args:
        model: with a new adapter, trained in place.
        examples: in any order; the seed decides theirs.
        prefix: with which every prompt begins.
        settings: of the run.
        pad_id: fills.
        wrap: makes the module that a step runs (several workers wrap it).
        rank: this worker's number, from 0.

    Raises:
        ConfigError: an epoch has fewer batches than there are workers.
    """

    def __init__(
        self,
        model: Any,
        examples: Sequence[Example],
        prefix: Sequence[int],
        settings: Settings,
        pad_id: int,
        *,
        wrap: Callable[[Any], Any] = lambda module: module,
        rank: int = 0,
    ) -> None:
        self.model = model
        self.step = 0
        self.losses: list[float] = []
        self.looks: list[dict[str, float]] = []
        self._examples, self._settings, self._pad_id = examples, settings, pad_id
        self._n_prefix, self._rank = len(prefix), rank
        self._data = text_hash("data", *(f"{e.prompt}{e.answer}" for e in examples))
        self._module = wrap(answer_loss(model, prefix))
        self._batches = [b for epoch in range(settings.epochs) for b in self._plan(epoch)]
        n_steps = len(self._batches) // settings.n_workers
        warmup = min(_MOST_WARMUP, max(1, n_steps // 10))
        self._rate = _Rate(n_steps, warmup, settings.learning_rate)
        self._optimizer = torch.optim.AdamW(
            list(trained(model).values()), lr=0.0, weight_decay=settings.weight_decay
        )

    def _plan(self, epoch: int) -> list[list[int]]:
        settings = self._settings
        # A prefix that is read once a step takes no room in a row.
        lengths = [example.n_tokens - self._n_prefix for example in self._examples]
        batches = plan_epoch(
            lengths, settings.batch_tokens, settings.seed, epoch, settings.batch_rows
        )
        if len(batches) < settings.n_workers:
            raise ConfigError(
                f"--workers is {settings.n_workers}; allowed: {len(batches)}, the batches of an"
                " epoch."
            )
        return batches[: len(batches) // settings.n_workers * settings.n_workers]

    @property
    def n_steps(self) -> int:
        """Steps of the whole run."""
        return self._rate.steps

    def run(self) -> Iterator[int]:
        """Train to the last step; yields the number of steps done after each."""
        while self.step < self.n_steps:
            batch = self._batches[self.step * self._settings.n_workers + self._rank]
            self._step([self._examples[i] for i in batch])
            yield self.step

    def _step(self, examples: Sequence[Example]) -> None:
        self.model.train()
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(self.step, self._rate)
        loss = self._module(collate(examples, self._n_prefix, self._pad_id))
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained(self.model).values(), self._settings.clip)
        self._optimizer.step()
        self.losses.append(float(loss.detach()))
        self.step += 1

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with: settings, data and steps."""
        return {**asdict(self._settings), "n_steps": self.n_steps, "data": self._data}

    def save(self, path: Path) -> None:
        """Write everything that a resumed run needs, to a new name first."""
        save_checkpoint(
            {
                "settings": self._identity(),
                "adapter": {name: p.detach() for name, p in trained(self.model).items()},
                "optimizer": self._optimizer.state_dict(),
                "step": self.step,
                "losses": self.losses,
                "looks": self.looks,
            },
            path,
        )

    def resume(self, path: Path) -> None:
        """Go on where :meth:`save` was.

        Raises:
            ConfigError: the checkpoint is of a run with other settings or data.
        """
        saved = torch.load(path, map_location="cpu", weights_only=True)
        check_same(path, saved["settings"], self._identity())
        with torch.no_grad():
            for name, parameter in trained(self.model).items():
                parameter.copy_(saved["adapter"][name])
        self._optimizer.load_state_dict(saved["optimizer"])
        self.step, self.losses, self.looks = saved["step"], saved["losses"], saved["looks"]
