"""The tagger's training loop. A stopped run goes on as if it had not stopped."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glong.ids import text_hash
from glong.models.tagger_input import pad
from glong.models.tagger_net import TaggerNet
from jobs.tagger.loss import batch_loss
from jobs.tagger.targets import Example
from jobs.training import check_same, plan_epoch, save_checkpoint

__all__ = ["Look", "Loop", "Settings"]

_WARMUP = 200
_BELIEF_PIECES = 4000


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides every number of a run, beside the data.

    Attributes:
        epochs: passes over all examples.
        batch_pieces: most padded word pieces of a step.
        seed: of order and dropout; whoever makes the network seeds its heads.
        relations_only: train no span head.
        encoder_rate: highest learning rate of MiniLM's layers.
        head_rate: of the heads.
        clip: highest norm of the gradient.
        weight_decay: of AdamW.
    """

    epochs: int
    batch_pieces: int
    seed: int
    relations_only: bool = False
    encoder_rate: float = 1.5e-4
    head_rate: float = 7e-4
    clip: float = 5.0
    weight_decay: float = 0.01


@dataclass(frozen=True, slots=True)
class Look:
    """Scores of the network after ``step`` steps: set -> measure -> value."""

    step: int
    sets: dict[str, dict[str, float]]


class Loop:
    """Network, optimiser and place in the data.

    ``looks`` are scores on the way, each with its step; whoever trains adds them.
    """

    def __init__(
        self, net: TaggerNet, learnt: Sequence[Example], settings: Settings, pad_id: int
    ) -> None:
        self.net = net
        self.step = 0
        self.losses: list[float] = []
        self.looks: list[Look] = []
        self._learnt, self._settings, self._pad_id = learnt, settings, pad_id
        self._data = text_hash("examples", *map(repr, learnt))
        lengths = [len(one.pieces.ids) for one in learnt]
        self._batches = [
            batch
            for epoch in range(settings.epochs)
            for batch in plan_epoch(lengths, settings.batch_pieces, settings.seed, epoch)
        ]
        heads = [p for name, p in net.named_parameters() if not name.startswith("encoder.")]
        body = [p for p in net.encoder.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(
            [
                {"params": body, "lr": settings.encoder_rate},
                {"params": heads, "lr": settings.head_rate},
            ],
            weight_decay=settings.weight_decay,
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimizer, self._share)
        torch.manual_seed(settings.seed)

    def settings_as_dict(self) -> dict[str, float]:
        """For the model card."""
        return asdict(self._settings)

    @property
    def n_steps(self) -> int:
        """Steps of the whole run."""
        return len(self._batches)

    def _share(self, step: int) -> float:
        """Linear warm-up, then a cosine to 0."""
        warmup = min(_WARMUP, max(1, self.n_steps // 10))
        if step < warmup:
            return (step + 1) / warmup
        done = (step - warmup) / max(1, self.n_steps - warmup)
        return 0.5 * (1 + math.cos(math.pi * done))

    def run(self) -> Iterator[int]:
        """Train to the last step; yields the number of steps done after each."""
        while self.step < self.n_steps:
            batch = [self._learnt[i] for i in self._batches[self.step]]
            self.net.train()
            loss = batch_loss(self.net, batch, self._pad_id, self._settings.relations_only)
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self._settings.clip)
            self._optimizer.step()
            self._schedule.step()
            self.losses.append(float(loss.detach()))
            self.step += 1
            yield self.step

    def believe(self, asked: Sequence[Example]) -> Tensor:
        """(n, n_relations) probabilities of the first target's span of each example."""
        lengths = [len(one.pieces.ids) for one in asked]
        answers = torch.zeros((len(asked), self.net.relation.out_features))
        self.net.eval()
        for batch in plan_epoch(lengths, _BELIEF_PIECES, 0, 0):
            with torch.inference_mode():
                inputs = pad([asked[i].pieces for i in batch], self._pad_id)
                words = self.net.words(inputs)
                targets = [asked[i].targets[0] for i in batch]
                spans = torch.tensor([(row, t.first, t.last) for row, t in enumerate(targets)])
                said = self.net.describe(words, inputs.is_word, spans)
            answers[torch.tensor(batch)] = said.relation.softmax(1)
        return answers

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with: settings, data and steps."""
        return {**asdict(self._settings), "n_steps": self.n_steps, "data": self._data}

    def save(self, path: Path) -> None:
        """Write everything that a resumed run needs, to a new name first."""
        save_checkpoint(
            {
                "settings": self._identity(),
                "net": self.net.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "schedule": self._schedule.state_dict(),
                "step": self.step,
                "losses": self.losses,
                "looks": [asdict(look) for look in self.looks],
                "random": torch.get_rng_state(),
            },
            path,
        )

    def resume(self, path: Path) -> None:
        """Go on where :meth:`save` was.

        Raises:
            ConfigError: the checkpoint is of a run with other settings or other data.
        """
        saved = torch.load(path, weights_only=True)
        check_same(path, saved["settings"], self._identity())
        self.net.load_state_dict(saved["net"])
        self._optimizer.load_state_dict(saved["optimizer"])
        self._schedule.load_state_dict(saved["schedule"])
        self.step, self.losses = saved["step"], saved["losses"]
        self.looks = [Look(**look) for look in saved["looks"]]
        torch.set_rng_state(saved["random"])
