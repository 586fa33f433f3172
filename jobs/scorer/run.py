"""The composition of ``train_scorer``: data, model, loop, export, report."""

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glong.config import EncoderSpec, ExtractorSpec, ScorerSpec, load_models_config
from glong.errors import SourceError
from glong.ids import text_hash
from glong.models.extras import extra
from glong.models.load import load_encoder, load_extractor
from glong.protocols import Extractor, Scorer
from glong.training.summaries import Case, make_pairs
from glong.training.summary_sources import EVALUATION_SETS, evaluation_set, training_set
from jobs.progress import say
from jobs.scorer import report
from jobs.scorer.batches import Example, Limits, encode_pairs
from jobs.scorer.data import cases_of, sentences
from jobs.scorer.loop import Loop, Settings
from jobs.scorer.model import (
    Size,
    export,
    hub_model,
    load_tokenizer,
    n_parameters,
    new_model,
    take_embeddings,
    train_tokenizer,
)
from jobs.training import read_note, spread
from jobs.workers import agreed

__all__ = ["Task", "run", "train_here"]

LOOK_SESSIONS = 92
"""Held-out sessions of a look during training: half of them."""
_LINE_EVERY = 50


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker needs: options, facts, settings; every value can travel.

    Attributes:
        args: checked options.
        cases: training sessions with their facts.
        looks: held-out sessions for looks during training.
        settings: of the loop.
    """

    args: argparse.Namespace
    cases: list[Case]
    looks: list[Case]
    settings: Settings

    @property
    def work(self) -> Path:
        """Checkpoints, vocabulary and facts."""
        return Path(self.args.out).absolute() / "work"

    @property
    def data(self) -> str:
        """Identity of what is learnt from."""
        return text_hash("cases", *map(repr, self.cases), *self.args.tasks)

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint has to agree with, beside the settings."""
        shape = ("base", "embeddings", "vocabulary", "d_model", "layers", "decoder_layers", "heads")
        return {name: getattr(self.args, name) for name in shape} | {"data": self.data}


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Train, export and judge; returns the summary.

    Raises:
        ConfigError, SourceError: an option, a package or a data file; before training.
        ModelError: a model failed.
    """
    with extra("models"):
        import torch
    if args.threads:
        torch.set_num_threads(args.threads)
    models = load_models_config("small", {"encoder": args.encoder})
    args.out.mkdir(parents=True, exist_ok=True)
    if args.evaluate_only:
        return _judge(args, models.encoder, args.evaluate_only, read_note(args.evaluate_only))
    task = _prepare(args)
    began_s = time.monotonic()
    if args.workers > 1:
        from jobs.scorer.distributed import train_on_workers

        train_on_workers(task)
        loop, tokenizer = build(task)
        loop.resume(task.work / CHECKPOINT)
    else:
        loop, tokenizer = train_here(task)
    note = _note(task, loop, time.monotonic() - began_s)
    export(loop.model, tokenizer, args.out / "model", note, task.settings.guided_tokens)
    report.write_json(loop.losses, args.out / "losses.json")
    report.plot_losses(loop.losses, loop.evaluations, args.out / "losses.png")
    return _judge(args, models.encoder, args.out / "model", note)


CHECKPOINT = "checkpoint.pt"


def _prepare(args: argparse.Namespace) -> Task:
    """Facts of the training sessions and of the held-out ones."""
    found = spread(training_set(args.data, args.sources), args.limit)
    extractor = load_extractor(_extractor(args.extractor))
    cases = cases_of(f"train-{args.sources}", found, extractor, args.out / "work")
    looks = _judged_cases(
        args, EVALUATION_SETS[0], load_extractor(_extractor(args.judged_extractor))
    )
    settings = Settings(
        steps=args.steps,
        batch_tokens=args.batch_tokens,
        seed=args.seed,
        learning_rate=args.learning_rate,
        warmup_steps=args.warmup_steps,
        answer=args.answer,
        guidance=args.guidance,
        guided_tokens=args.guided_tokens,
        target_tokens=args.target_tokens,
        other_prefixes=args.other_prefixes,
        n_workers=args.workers,
    )
    return Task(args, cases, looks[:: max(1, len(looks) // LOOK_SESSIONS)], settings)


def _extractor(spec: str) -> ExtractorSpec:
    """From a preset's name or BACKEND[:MODEL]."""
    return load_models_config("small", {"extractor": spec}).extractor


def _judged_cases(args: argparse.Namespace, name: str, extractor: Extractor) -> list[Case]:
    """An evaluation set with the facts that a build would find."""
    sessions = spread(evaluation_set(args.data, name), args.limit)
    return cases_of(name, sessions, extractor, args.out / "work")


def build(
    task: Task, wrap: Callable[[Any], Any] = lambda model: model, rank: int = 0
) -> tuple[Loop, Any]:
    """A loop at step 0, and the tokeniser.

    Raises:
        SourceError: the data gives no pair.
    """
    import torch

    args = task.args
    if args.base:
        model, tokenizer = hub_model(args.base)
    else:
        folder = task.work / f"vocabulary-{args.vocabulary}-{task.data[:12]}"
        if not (folder / "tokenizer.json").exists():
            train_tokenizer(sentences(task.cases), args.vocabulary, folder)
        tokenizer = load_tokenizer(folder)
        size = Size(args.d_model, args.layers, args.decoder_layers, args.heads)
        model = new_model(size, len(tokenizer), args.seed)
        if args.embeddings == "minilm":
            take_embeddings(model, tokenizer)
    model.to("cuda" if torch.cuda.is_available() else "cpu")

    def data(epoch: int) -> list[Example]:
        pairs = make_pairs(task.cases, args.seed * 1000 + epoch, args.tasks)
        examples = encode_pairs(pairs, tokenizer, Limits(target=args.target_tokens))
        if not examples:
            raise SourceError(
                f"No training pair came of {len(task.cases)} sessions; a pair needs facts that the"
                " reference mentions and facts that it does not. Use another --extractor."
            )
        return examples

    loop = Loop(
        model, data, task.settings, model.config.pad_token_id,
        wrap=wrap, rank=rank, identity=task.identity,
    )  # fmt: skip
    return loop, tokenizer


def train_here(
    task: Task, wrap: Callable[[Any], Any] = lambda model: model, rank: int = 0
) -> tuple[Loop, Any]:
    """Train in this process, from the last checkpoint on if there is one."""
    loop, tokenizer = build(task, wrap, rank)
    path = task.work / CHECKPOINT
    if path.exists():
        loop.resume(path)
        say(f"Going on from step {loop.step} of {task.settings.steps}.")
    elif rank == 0:
        say(f"{n_parameters(loop.model):,} parameters, {task.settings.steps} steps.")
    began_s = time.monotonic()
    first = loop.step
    for step in loop.run():
        last = step == task.settings.steps or _is_late(task, began_s)
        if rank == 0:
            _after_step(task, loop, tokenizer, last, (time.monotonic() - began_s) / (step - first))
        if last:
            break
    return loop, tokenizer


def _is_late(task: Task, began_s: float) -> bool:
    minutes = task.args.minutes
    return bool(minutes) and agreed(time.monotonic() - began_s > 60 * minutes)


def _after_step(task: Task, loop: Loop, tokenizer: Any, last: bool, step_s: float) -> None:
    """Lines, looks and checkpoints, each at its own pace."""
    if loop.step % _LINE_EVERY == 0 or last:
        recent = loop.losses[-_LINE_EVERY:]
        answer, guidance = (sum(x) / len(recent) for x in zip(*recent, strict=True))
        say(
            f"step {loop.step}: answer {answer:.3f}, guidance {guidance:.3f}, {step_s:.2f} s a step"
        )
    if loop.step % task.args.eval_every == 0 or last:
        look = report.weight_auc(task.looks, live_scorer(loop.model, tokenizer, task.settings))
        loop.evaluations.append({"step": loop.step, **look})
        say(f"step {loop.step}: AUC of w {look['auc']:.3f} on held-out MSC")
    if loop.step % task.args.checkpoint_every == 0 or last:
        loop.save(task.work / CHECKPOINT)


def live_scorer(model: Any, tokenizer: Any, settings: Settings) -> Scorer:
    """The scorer on a model in training; leaves its generation settings and mode changed."""
    import torch

    from glong.models.t5 import T5Scorer

    with torch.random.fork_rng(devices=[]):
        spec = ScorerSpec(
            backend="t5", model="in training", max_summary_tokens=settings.guided_tokens
        )
        return T5Scorer(spec, model, tokenizer)


def _note(task: Task, loop: Loop, train_s: float) -> dict[str, Any]:
    """How a model was made, for ``training.json`` and the card."""
    args = task.args
    shape = {k: getattr(loop.model.config, k) for k in ("d_model", "num_layers", "num_heads")}
    return {
        **asdict(task.settings),
        **shape,
        "num_decoder_layers": loop.model.config.num_decoder_layers,
        "vocabulary": loop.model.config.vocab_size,
        "parameters": n_parameters(loop.model),
        "base": args.base or "none (from scratch)",
        "embeddings": "of the base" if args.base else args.embeddings,
        "limit": args.limit,
        "sources": args.sources,
        "tasks": list(args.tasks),
        "extractor": args.extractor,
        "judged_extractor": args.judged_extractor,
        "steps_done": loop.step,
        "minutes_of_last_run": round(train_s / 60, 1),
        "n_sessions": dict(Counter(case.dataset for case in task.cases)),
        "final_losses": [round(x, 4) for x in loop.losses[-1]],
    }


def _judge(
    args: argparse.Namespace, encoder_spec: EncoderSpec, folder: Path, note: dict[str, Any]
) -> dict[str, Any]:
    """AUC on every evaluation set -> ``salience.json`` and, for a model of ours, the card."""
    from glong.models.t5 import T5Scorer

    extractor, encoder = (
        load_extractor(_extractor(args.judged_extractor)),
        load_encoder(encoder_spec),
    )
    scorer = T5Scorer.load(ScorerSpec(backend="t5", model=str(folder)))
    sets = {}
    for name in EVALUATION_SETS:
        cases = _judged_cases(args, name, extractor)
        sets[name] = report.evaluate(cases, scorer, encoder, args.seed)
        say(f"{name}: AUC of w {report.cell(sets[name][report.WEIGHT])}")
    summary = {
        "sets": sets,
        "steps_done": note.get("steps_done"),
        "extractor": extractor.fingerprint,
        "scorer": scorer.fingerprint,
    }
    report.write_json(summary, args.out / "salience.json")
    if note and args.limit == note.get("limit", 0):
        note = note | {"judged_extractor": args.judged_extractor}
        card = report.model_card(
            title=f"T5 scorer, sources {note['sources']}",
            command=_command(args, note),
            note=note,
            sources=report.licences(args.data, sorted(note["n_sessions"])),
            sets=sets,
        )
        (folder / "MODEL_CARD.md").write_text(card, encoding="utf-8")
    say(report.table(sets))
    return summary


def _command(args: argparse.Namespace, note: dict[str, Any]) -> str:
    """The command that made a model, without the paths of this machine."""
    options = {
        "sources": note["sources"],
        "limit": note.get("limit", 0),
        "extractor": note["extractor"],
        "judged-extractor": note["judged_extractor"],
        "tasks": ",".join(note["tasks"]),
        "steps": note["steps"],
        "batch-tokens": note["batch_tokens"],
        "learning-rate": note["learning_rate"],
        "warmup-steps": note["warmup_steps"],
        "answer": note.get("answer", 1.0),
        "guidance": note["guidance"],
        "guided-tokens": note["guided_tokens"],
        "target-tokens": note["target_tokens"],
        "other-prefixes": note["other_prefixes"],
        "seed": note["seed"],
    }
    if note["base"].startswith("none"):
        options |= {
            "embeddings": note["embeddings"],
            "vocabulary": note["vocabulary"],
            "d-model": note["d_model"],
            "layers": note["num_layers"],
            "decoder-layers": note["num_decoder_layers"],
            "heads": note["num_heads"],
        }
    else:
        options["base"] = note["base"]
    words = [f"--{name} {value}" for name, value in options.items()]
    return f"python jobs{os.sep}train_scorer.py --data DATA --out OUT " + " ".join(words)
