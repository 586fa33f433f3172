"""The composition of ``train_extractor``: data, model, loop, export, report."""

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from glong.config import ExtractorSpec
from glong.errors import SourceError
from glong.extraction import LLMExtractor
from glong.models.transformers import TransformersGenerator
from glong.prompts import EXTRACTION_PROMPT_VERSION
from glong.protocols import Extractor
from glong.training.judging import Case, evaluation_sets
from jobs.extractor import report
from jobs.extractor.batches import Example, encode, shared_prefix
from jobs.extractor.data import Lesson, draw, lessons, split
from jobs.extractor.loop import Loop, Settings
from jobs.extractor.model import (
    check_nf4,
    export,
    load_base,
    n_parameters,
    new_adapter,
    read_adapter,
)
from jobs.progress import say
from jobs.training import plot_training, read_note, spread, write_json
from jobs.workers import agreed, train_on_workers

__all__ = ["CHECKPOINT", "LONGEST", "Task", "run", "train_here"]

CHECKPOINT = "checkpoint.pt"
LONGEST = 1536
"""Most tokens of a lesson; longer ones are left out: memory grows with the square."""
_LINE_EVERY = 25


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker needs; every value can travel.

    Attributes:
        args: checked options.
        spec: of the extractor, as far as it decides prompts.
        learnt: lessons to train on.
        looks: held-out lessons.
        cases: held-out utterances to extract from.
        settings: of the loop.
    """

    args: argparse.Namespace
    spec: ExtractorSpec
    learnt: list[Lesson]
    looks: list[Lesson]
    cases: list[Case]
    settings: Settings

    @property
    def work(self) -> Path:
        """The checkpoint and the lessons."""
        return Path(self.args.out).absolute() / "work"


@dataclass(slots=True)
class Run:
    """A loop with what its looks need."""

    loop: Loop
    tokenizer: Any
    looks: list[Example]
    prefix: tuple[int, ...]
    extractor: Extractor | None = None


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Train, export and judge; returns the summary.

    Raises:
        ConfigError, SourceError: an option, a package or a data file; before training.
        ModelError: a model failed.
    """
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.quantization == "nf4":
        check_nf4()
    task = _prepare(args)
    if args.evaluate_only:
        return _evaluate_only(task, args.evaluate_only)
    began_s = time.monotonic()
    if args.workers > 1:
        train_on_workers(
            task,
            train_here,
            name="train_extractor",
            n_workers=args.workers,
            n_threads=args.threads,
            work=task.work,
        )
        made = build(task)
        made.loop.resume(task.work / CHECKPOINT)
    else:
        made = train_here(task)
    note = _note(task, made.loop, time.monotonic() - began_s)
    loop, folder = made.loop, args.out / "model"
    export(loop.model, args.model, folder, note)
    write_json(loop.losses, args.out / "losses.json")
    plot_training(
        {"answer": loop.losses}, loop.looks, args.out / "losses.png",
        measure="loss", label="loss (nats)", title="held-out windows",
    )  # fmt: skip
    card = report.model_card(note, loop.looks, args.data, len(task.looks), len(task.cases))
    (folder / "MODEL_CARD.md").write_text(card, encoding="utf-8")
    models = report.models_toml(note, folder)
    (args.out / "models.toml").write_text(models, encoding="utf-8")
    return _summary(task, note, loop.looks)


def _prepare(args: argparse.Namespace) -> Task:
    """The lessons, drawn, and the cases."""
    spec = ExtractorSpec(
        backend="transformers",
        model=args.model,
        window_turns=args.window_turns,
        context_turns=args.context_turns,
        quantization=args.quantization,
    )
    if args.relations is None:
        say("No --relations: facts of raw turns keep their verbs, PersonaExt's keep their names.")
    found = lessons(
        args.data, args.relations, args.out / "work", spec,
        n_composed=args.composed, seed=args.seed,
    )  # fmt: skip
    learnt, looks = split(spread(found, args.limit))
    learnt = draw(learnt, args.max_windows, args.negative_share, random.Random(args.seed))
    # Looks are the same whatever is drawn to learn from.
    looks = draw(looks, args.eval_windows, args.negative_share, random.Random(args.seed))
    if not learnt or not looks:
        raise SourceError(
            f"{len(learnt)} windows are left to train on and {len(looks)} to look at; needed: 1 of"
            " each. Raise --limit or --negative-share."
        )
    cases = next(evaluation_sets(args.data))[1] if args.eval_cases else []
    settings = Settings(
        n_workers=args.workers,
        **{
            name: getattr(args, name)
            for name in (
                "model", "quantization", "rank", "alpha", "epochs", "batch_tokens", "batch_rows",
                "seed", "learning_rate",
            )
        },
    )  # fmt: skip
    counts = ", ".join(f"{name} {n:,}" for name, n in sorted(_sources(learnt).items()))
    n_silent = sum(not one.triplets for one in learnt)
    say(f"{len(learnt):,} windows ({counts}; {n_silent:,} state nothing), {len(looks)} held out.")
    return Task(args, spec, learnt, looks, spread(cases, args.eval_cases), settings)


def _sources(found: Sequence[Lesson]) -> dict[str, int]:
    return dict(Counter(one.source for one in found))


def build(task: Task, wrap: Callable[[Any], Any] = lambda module: module, rank: int = 0) -> Run:
    """A loop at step 0."""
    base, tokenizer = load_base(task.args.model, task.args.quantization)
    model = new_adapter(base, task.args.rank, task.args.alpha, task.args.seed)
    learnt, looks, prefix = _encoded(task, tokenizer)
    pad_id = tokenizer.eos_token_id
    loop = Loop(model, learnt, prefix, task.settings, pad_id, wrap=wrap, rank=rank)
    return Run(loop, tokenizer, looks, prefix)


def _encoded(task: Task, tokenizer: Any) -> tuple[list[Example], list[Example], tuple[int, ...]]:
    """Lessons to train on, lessons to look at, and the beginning that all share."""
    parts = [encode(part, tokenizer, task.spec) for part in (task.learnt, task.looks)]
    learnt, looks = ([one for one in part if one.n_tokens <= LONGEST] for part in parts)
    if n_left_out := sum(map(len, parts)) - len(learnt) - len(looks):
        say(f"{n_left_out} windows of more than {LONGEST} tokens are left out.")
    if not learnt or not looks:
        raise SourceError(
            f"Every window is longer than {LONGEST} tokens; give fewer --window-turns."
        )
    return learnt, looks, shared_prefix(learnt + looks)


def train_here(
    task: Task, wrap: Callable[[Any], Any] = lambda module: module, rank: int = 0
) -> Run:
    """Train in this process, from the last checkpoint on if there is one."""
    made = build(task, wrap, rank)
    loop, path = made.loop, task.work / CHECKPOINT
    if path.exists():
        loop.resume(path)
        say(f"Going on from step {loop.step} of {loop.n_steps}.")
    elif rank == 0:
        say(f"{n_parameters(loop.model):,} parameters learn, {loop.n_steps} steps.")
        _look(task, made, n_cases=0)
    began_s, first = time.monotonic(), loop.step
    for step in loop.run():
        passed_s = time.monotonic() - began_s
        late = bool(task.args.minutes) and agreed(passed_s > 60 * task.args.minutes)
        last = step == loop.n_steps or late
        if rank == 0:
            _after_step(task, made, last, passed_s / (step - first))
        if last:
            break
    return made


def _after_step(task: Task, made: Run, last: bool, step_s: float) -> None:
    """Lines, looks and checkpoints, each at its own pace."""
    loop = made.loop
    if loop.step % _LINE_EVERY == 0 or last:
        recent = loop.losses[-_LINE_EVERY:]
        left_min = (loop.n_steps - loop.step) * step_s / 60
        say(
            f"step {loop.step} of {loop.n_steps}: loss {sum(recent) / len(recent):.3f},"
            f" {step_s:.2f} s a step, {left_min:.0f} min left"
        )
    if loop.step % task.args.eval_every == 0 or last:
        _look(task, made, n_cases=len(task.cases))
    if loop.step % task.args.checkpoint_every == 0 or last:
        loop.save(task.work / CHECKPOINT)


def _look(task: Task, made: Run, n_cases: int) -> None:
    """The loss on held-out windows and, if asked, how good extracted triplets are."""
    loop = made.loop
    pad_id = made.tokenizer.eos_token_id
    loss = report.held_out_loss(
        loop.model, made.looks, made.prefix, pad_id, task.args.batch_tokens, task.args.batch_rows
    )
    look = {"step": float(loop.step), "loss": loss}
    if n_cases:
        made.extractor = made.extractor or live_extractor(loop.model, made.tokenizer, task.spec)
        look |= report.judged(loop.model, made.extractor, task.cases[:n_cases])
    loop.looks.append(look)
    figures = ", ".join(f"{name} {value:.3f}" for name, value in look.items() if name != "step")
    say(f"step {loop.step}, held out: {figures}")


def live_extractor(model: Any, tokenizer: Any, spec: ExtractorSpec) -> Extractor:
    """The extractor of inference on a model in training."""
    generator = TransformersGenerator(model.get_base_model(), tokenizer, "in training")
    return LLMExtractor(generator, spec)


def _note(task: Task, loop: Loop, train_s: float) -> dict[str, Any]:
    """How an adapter was made, for ``training.json`` and the card."""
    args = task.args
    return {
        **asdict(task.settings),
        "preset": args.preset,
        "prompt": EXTRACTION_PROMPT_VERSION,
        "relations": "a teacher's names" if args.relations else "verbs",
        "window_turns": args.window_turns,
        "context_turns": args.context_turns,
        "composed": args.composed,
        "max_windows": args.max_windows,
        "limit": args.limit,
        "negative_share": args.negative_share,
        "n_windows": _sources(task.learnt),
        "n_silent_windows": sum(not one.triplets for one in task.learnt),
        "parameters": n_parameters(loop.model),
        "steps": loop.n_steps,
        "steps_done": loop.step,
        "minutes_of_last_run": round(train_s / 60, 1),
        "final_loss": round(sum(loop.losses[-_LINE_EVERY:]) / len(loop.losses[-_LINE_EVERY:]), 4),
    }


def _evaluate_only(task: Task, folder: Path) -> dict[str, Any]:
    """Judge a trained adapter on the same held-out windows."""
    args = task.args
    base, tokenizer = load_base(args.model, args.quantization)
    model = read_adapter(base, folder)
    _, looks, prefix = _encoded(task, tokenizer)
    pad_id = tokenizer.eos_token_id
    note = read_note(folder)
    look = {
        "step": float(note.get("steps_done", 0)),
        "loss": report.held_out_loss(
            model, looks, prefix, pad_id, args.batch_tokens, args.batch_rows
        ),
    }
    if task.cases:
        spec = replace(task.spec, adapter=str(folder))
        look |= report.judged(model, live_extractor(model, tokenizer, spec), task.cases)
    return _summary(task, note, [look])


def _summary(task: Task, note: dict[str, Any], looks: Sequence[dict[str, float]]) -> dict[str, Any]:
    """``extractor.json``."""
    summary = {
        "looks": list(looks),
        "steps_done": note.get("steps_done"),
        "n_looks": len(task.looks),
        "n_cases": len(task.cases),
    }
    write_json(summary, task.args.out / "extractor.json")
    return summary
