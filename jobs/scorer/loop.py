"""The training loop: losses, schedule, checkpoints. A stopped run goes on as if it had not stopped.

Two losses: the answer's cross-entropy, without label smoothing, and *guidance*: for each of the
first summary tokens the cross-entropy between the facts that the target is about (equal shares) and
the facts' shares of the last decoder layer's cross-attention. The second makes attention say what
the weight is used for; without it a small model spreads its attention nearly evenly. In training
the words already written are the target's own, so that a later token could follow them and choose
nothing; some examples therefore read the words of another one's target instead.

Adafactor with steps relative to each matrix: AdamW at one rate for all needed about four times as
many steps, since T5's embeddings start a hundred times as large as its projections.

The answer's loss counts little: at a factor of 1 it takes the encoder's few layers for itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glong.errors import ConfigError
from jobs.scorer.batches import (
    IGNORED,
    Batch,
    Example,
    collate,
    plan_epoch,
    with_other_prefixes,
)
from jobs.training import check_same, learning_rate, save_checkpoint

if TYPE_CHECKING:
    import torch

__all__ = ["Loop", "Settings", "losses"]

_SMALL = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What decides every number of a run, beside the data and the model's shape.

    Attributes:
        steps: optimiser steps of the whole run; the learning rate ends there.
        batch_tokens: most padded tokens of a batch.
        seed: of weights, order, names and dropout.
        learning_rate: the highest, reached after the warm-up; times the root mean square of a
            matrix.
        warmup_steps: steps of linear rise; then a cosine down to 0.
        answer: factor of the answer's loss.
        guidance: factor of the attention loss; 0 leaves it out.
        guided_tokens: summary tokens, from the first, whose attention counts: M of the scorer.
        target_tokens: most tokens of a target; longer ones are cut.
        other_prefixes: share of the examples whose decoder reads another target's words.
        clip: highest norm of the gradient.
        n_workers: processes that share a step.
    """

    steps: int
    batch_tokens: int
    seed: int
    learning_rate: float = 2e-2
    warmup_steps: int = 30
    answer: float = 0.1
    guidance: float = 4.0
    guided_tokens: int = 8
    target_tokens: int = 8
    other_prefixes: float = 0.5
    clip: float = 1.0
    n_workers: int = 1


def losses(model: Any, batch: Batch, device: str, n_guided: int) -> tuple[Any, Any]:
    """Answer loss and guidance of one batch, scalars with gradients.

    Args:
        model: a T5 in eager attention.
        batch: of B examples.
        device: of the model.
        n_guided: summary tokens whose attention counts; 0: guidance is 0.
    """
    import torch

    labels = torch.from_numpy(batch.labels).to(device)
    out = model(
        input_ids=torch.from_numpy(batch.source).to(device),
        attention_mask=torch.from_numpy(batch.mask).to(device),
        decoder_input_ids=torch.from_numpy(batch.prefix).to(device),
        labels=labels,
        output_attentions=n_guided > 0,
        use_cache=False,
    )
    if not n_guided:
        return out.loss, out.loss.new_zeros(())
    favoured = torch.from_numpy(batch.favoured).to(device)[:, None]
    owners = torch.from_numpy(batch.owners).to(device)
    written = (labels != IGNORED)[:, :n_guided]
    attention = out.cross_attentions[-1][:, :, :n_guided]
    shares = fact_shares(attention, owners, favoured.shape[-1])
    distance = -(favoured * (shares + _SMALL).log()).sum(dim=-1)  # (B, T)
    return out.loss, distance[written].mean()


def fact_shares(attention: "torch.Tensor", owners: "torch.Tensor", n_facts: int) -> "torch.Tensor":
    """Each fact's share of the attention that facts get from a summary token: equation (1), sum 1.

    Args:
        attention: (B, H, T, N) of the last decoder layer.
        owners: (B, N) fact of each source token, ``n_facts`` where none.
        n_facts: F.

    Returns:
        (B, T, F).
    """
    mass = attention.mean(dim=1)  # (B, T, N)
    places = owners[:, None].expand_as(mass)
    facts = mass.new_zeros(*mass.shape[:2], n_facts + 1).scatter_add(2, places, mass)[..., :n_facts]
    return facts / (facts.sum(dim=-1, keepdim=True) + _SMALL)


class Loop:
    """Model, optimiser and place in the data.

    Args:
        model: a T5 in eager attention, float32; trained in place.
        data: epoch -> its examples, the same on every call.
        settings: of the run.
        pad_id: fills sources.
        wrap: makes the model that a step runs (several workers wrap it).
        rank: this worker's number, from 0.
        identity: what a checkpoint has to agree with beside the settings, such as the data.
    """

    def __init__(
        self,
        model: Any,
        data: Callable[[int], Sequence[Example]],
        settings: Settings,
        pad_id: int,
        *,
        wrap: Callable[[Any], Any] = lambda model: model,
        rank: int = 0,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        from transformers.optimization import Adafactor

        self.model = model
        self.step, self.epoch, self.place = 0, 0, 0
        self.losses: list[tuple[float, float]] = []
        self.evaluations: list[dict[str, float]] = []
        self._data, self._settings, self._pad_id, self._rank = data, settings, pad_id, rank
        self._identity = asdict(settings) | dict(identity or {})
        self._run: Any = wrap(model)
        self._device = str(next(model.parameters()).device)
        untyped: Any = Adafactor
        self._optimizer = untyped(
            model.parameters(), lr=0.0, scale_parameter=True, relative_step=False
        )

    def run(self) -> Iterator[int]:
        """Train to the last step; yields the number of steps done after each."""
        while self.step < self._settings.steps:
            examples = self._data(self.epoch)
            batches = plan_epoch(
                examples, self._settings.batch_tokens, self._settings.seed, self.epoch
            )
            n_workers = self._settings.n_workers
            if len(batches) < n_workers:
                raise ConfigError(
                    f"--workers is {n_workers}; allowed: {len(batches)}, the batches of an epoch."
                )
            while self.place + n_workers <= len(batches) and self.step < self._settings.steps:
                batch = batches[self.place + self._rank]
                self._step(collate([examples[i] for i in batch], self._pad_id))
                self.place += n_workers
                yield self.step
            if self.step < self._settings.steps:
                self.epoch, self.place = self.epoch + 1, 0

    def _step(self, batch: Batch) -> None:
        import torch

        self.model.train()
        settings = self._settings
        torch.manual_seed(int(np.random.SeedSequence(self._place()).generate_state(1)[0]))
        rng = np.random.default_rng(self._place())
        batch = with_other_prefixes(batch, settings.other_prefixes, rng)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(self.step, settings)
        answer, guidance = losses(
            self._run, batch, self._device, settings.guided_tokens if settings.guidance > 0 else 0
        )
        self._optimizer.zero_grad(set_to_none=True)
        (settings.answer * answer + settings.guidance * guidance).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        self._optimizer.step()
        self.losses.append((float(answer.detach()), float(guidance.detach())))
        self.step += 1

    def _place(self) -> list[int]:
        """What dropout and prefixes of a step are drawn from: a resumed run draws the same."""
        return [self._settings.seed, self._rank, self.step]

    def save(self, path: Path) -> None:
        """Write everything that a resumed run needs, to a new name first."""
        save_checkpoint(
            {
                "settings": self._identity,
                "model": self.model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "place": (self.step, self.epoch, self.place),
                "losses": self.losses,
                "evaluations": self.evaluations,
            },
            path,
        )

    def resume(self, path: Path) -> None:
        """Go on where :meth:`save` was.

        Raises:
            ConfigError: the checkpoint is of a run with other settings or other data.
        """
        import torch

        saved = torch.load(path, map_location=self._device, weights_only=True)
        check_same(path, saved["settings"], self._identity)
        self.model.load_state_dict(saved["model"])
        self._optimizer.load_state_dict(saved["optimizer"])
        self.step, self.epoch, self.place = saved["place"]
        self.losses, self.evaluations = [tuple(x) for x in saved["losses"]], saved["evaluations"]
