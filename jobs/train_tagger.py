"""Train the tagger, the extractor for machines without a GPU, from a data folder.

Two trainings, one after another. A *teacher* learns PersonaExt's relations on their gold spans and
then names the verbs of plain sentences; the *tagger* learns everything: see
:mod:`glong.training.datasets`. A stopped run goes on where it was when the same command runs again.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from glong._version import __version__
from glong.errors import ConfigError
from jobs.checks import check_at_least, check_folders
from jobs.exits import EXIT_STATUS, run_to_end
from jobs.training import check_plots

__all__ = ["main"]

EPILOG = f"""\
{EXIT_STATUS}
A run that --minutes stopped has a checkpoint and no model yet.

example:
  python jobs/train_tagger.py --data ../shared/data --out .scratch/tagger --minutes 75
"""


def parser() -> argparse.ArgumentParser:
    """Every option with its default and unit."""
    p = argparse.ArgumentParser(
        prog="train_tagger.py",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--data", required=True, type=Path, help="folder with personaext, msc, ...")
    p.add_argument("--out", required=True, type=Path, help="folder for checkpoints and the result")
    p.add_argument(
        "--sources",
        choices=("default", "research"),
        default="default",
        help="default: PersonaExt, MSC and Synthetic-Persona-Chat; research: DialogRE too, for"
        " non-commercial use (default: default)",
    )
    p.add_argument(
        "--start",
        type=Path,
        metavar="FOLDER",
        help="start from this trained tagger, with its relations, instead of from MiniLM",
    )
    p.add_argument("--epochs", type=int, default=2, help="passes over all turns (default: 2)")
    p.add_argument(
        "--teacher-epochs", type=int, default=2, help="of the teacher, over PersonaExt (default: 2)"
    )
    p.add_argument(
        "--composed", type=int, default=8000, metavar="N", help="made exchanges (default: 8000)"
    )
    p.add_argument(
        "--batch-pieces", type=int, default=1500, help="padded word pieces a step (default: 1500)"
    )
    p.add_argument(
        "--limit",
        type=int,
        default=0,
        help="only N dialogues, evenly spread; all of DialogRE in any case (default: 0 = all)",
    )
    p.add_argument("--seed", type=int, default=20, help="of weights and order (default: 20)")
    p.add_argument(
        "--looks",
        type=int,
        default=4,
        metavar="N",
        help="score so often, evenly spread, for the card's learning curve (default: 4)",
    )
    p.add_argument("--threads", type=int, default=0, help="of torch (default: 0 = all cores)")
    p.add_argument(
        "--minutes",
        type=float,
        default=0.0,
        help="stop after so long, resumable (default: 0 = never)",
    )
    p.add_argument(
        "--summary", type=Path, metavar="FILE", help="write the scores there as JSON, last of all"
    )
    p.set_defaults(evaluate_only=None)
    p.add_argument("--version", action="version", version=f"glong {__version__}")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job.

    Returns:
        The exit status.
    """
    args = parser().parse_args(argv)

    def work() -> dict[str, Any]:
        check_folders(args)
        check_at_least(args, _LOWEST)
        check_plots()
        return _train(args)

    return run_to_end(work, args.summary)


_LOWEST = {
    "epochs": 1, "teacher_epochs": 1, "composed": 0, "batch_pieces": 64, "limit": 0, "seed": 0,
    "looks": 1, "threads": 0, "minutes": 0,
}  # fmt: skip


def _train(args: argparse.Namespace) -> dict[str, Any]:
    import torch

    from glong.models.tagger_weights import new_net
    from glong.rules import RuleExtractor
    from glong.training.datasets import persona_dialogues, relation_dialogues, training_dialogues
    from jobs.tagger.card import export, judge, judge_loop, write_card
    from jobs.tagger.loop import Loop, Settings
    from jobs.tagger.targets import examples, relation_classes
    from jobs.training import spread, write_json

    deadline_s = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
    if args.threads:
        torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    torch.manual_seed(args.seed)

    pairs = spread(list(persona_dialogues(args.data)), args.limit)
    classes = relation_classes(pairs)
    learnt = examples(pairs, classes, tokenizer)
    settings = Settings(args.teacher_epochs, args.batch_pieces, args.seed, relations_only=True)
    teacher = Loop(new_net(len(classes)), learnt, settings, tokenizer.pad_token_id)
    if not _run(teacher, args.out / "teacher.pt", "teacher", deadline_s):
        return {"finished": False}
    asked = _Asked(teacher, classes, tokenizer, args.out / "believed.pt")
    dialogues = spread(
        training_dialogues(args.data, asked, n_composed=args.composed, seed=args.seed), args.limit
    )
    if args.sources == "research":
        dialogues += relation_dialogues(args.data)
    asked.save()

    classes = _known(args.start) if args.start else relation_classes(dialogues)
    torch.manual_seed(args.seed)
    settings = Settings(args.epochs, args.batch_pieces, args.seed)
    learnt = examples(dialogues, classes, tokenizer)
    net = _started(args.start, len(classes)) if args.start else new_net(len(classes))
    loop = Loop(net, learnt, settings, tokenizer.pad_token_id)
    print(
        f"tagger: {len(learnt)} turns, {len(classes)} relations, {loop.n_steps} steps", flush=True
    )

    def look() -> None:
        loop.looks.append(judge_loop(loop, classes, THRESHOLD, args.data))

    due = {loop.n_steps * (i + 1) // args.looks: look for i in range(args.looks)}
    if not _run(loop, args.out / "tagger.pt", "tagger", deadline_s, due):
        return {"finished": False}
    folder = args.out / "export"
    export(loop, classes, THRESHOLD, folder)
    scores = loop.looks[-1].sets
    patterns = judge(RuleExtractor(), args.data)
    options = {
        name: getattr(args, name)
        for name in (
            "sources", "epochs", "teacher_epochs", "composed", "batch_pieces", "limit", "seed"
        )
    }  # fmt: skip
    if args.start:
        options["start"] = "TAGGER"
    write_card(folder, args.data, loop, dialogues, patterns, options)
    write_json(scores, args.out / "scores.json")
    print(f"tagger: written to {folder}")
    return {"finished": True, "sets": scores}


def _known(folder: Path) -> tuple[str, ...]:
    """The relations of a trained tagger.

    Raises:
        ConfigError: the folder is no such tagger.
    """
    from glong.models.tagger import CONFIG, read_settings

    if not (folder / CONFIG).is_file():
        raise ConfigError(
            f"--start is '{folder}', which has no {CONFIG}; allowed: the export of a"
            " jobs/train_tagger.py. Leave it out to start from MiniLM."
        )
    return tuple(read_settings(folder)["classes"])


def _started(folder: Path, n_relations: int) -> Any:
    """The network of a trained tagger.

    Raises:
        ModelError: its files are not those of its manifest.
    """
    from glong.models.shipped import verify_if_listed
    from glong.models.tagger import WEIGHTS
    from glong.models.tagger_weights import load_net

    return load_net(verify_if_listed(folder) / WEIGHTS, n_relations)


def _tokenizer() -> Any:
    from transformers import AutoTokenizer

    from glong.models.sentence import minilm_folder

    return AutoTokenizer.from_pretrained(str(minilm_folder()), local_files_only=True)


SAVE_EVERY_S = 240.0
THRESHOLD = 0.66
"""Least probability of an object: about two triplets an utterance of PersonaExt."""


def _run(
    loop: Any,
    path: Path,
    name: str,
    deadline_s: float,
    due: Mapping[int, Callable[[], None]] | None = None,
) -> bool:
    """Train to the end or to the deadline; whether it came to the end.

    ``due``: what to do after a step, before its checkpoint.
    """
    due = due or {}
    if path.exists():
        loop.resume(path)
    began_s = saved_s = time.monotonic()
    first = loop.step
    for step in loop.run():
        now_s = time.monotonic()
        if step % 50 == 0 or step == loop.n_steps:
            mean = sum(loop.losses[-50:]) / len(loop.losses[-50:])
            rate = (step - first) / (now_s - began_s)
            left_min = (loop.n_steps - step) / rate / 60
            print(
                f"{name}: step {step} of {loop.n_steps}, loss {mean:.3f}, {left_min:.0f} min left",
                flush=True,
            )
        if step in due:
            print(f"{name}: is scored after step {step}", flush=True)
            due[step]()
        if step in due or now_s > deadline_s or now_s - saved_s > SAVE_EVERY_S:
            loop.save(path)
            saved_s = now_s
        if now_s > deadline_s and step < loop.n_steps:
            print(f"{name}: stopped at step {step}; the same command goes on", flush=True)
            return False
    if loop.step > first:
        loop.save(path)
    return True


class _Asked:
    """A teacher that remembers its answers in a file, so that a resumed run need not ask again."""

    def __init__(self, loop: Any, classes: Sequence[str], tokenizer: Any, path: Path) -> None:
        import torch

        self._loop, self._classes, self._tokenizer, self._path = loop, classes, tokenizer, path
        self._answers: list[Any] = list(torch.load(path)) if path.exists() else []
        self._n_calls = 0

    def __call__(self, pairs: Sequence[Any]) -> list[Mapping[str, float]]:
        """Probabilities of the listed relations for the object of each fact."""
        import torch

        if self._n_calls == len(self._answers):
            print(f"teacher: names {len(pairs)} facts", flush=True)
            asked, kept = self._examples(pairs)
            answers = torch.zeros((len(pairs), len(self._classes)))
            answers[torch.tensor(kept)] = self._loop.believe(asked)
            self._answers.append(answers)
        answers = self._answers[self._n_calls]
        if tuple(answers.shape) != (len(pairs), len(self._classes)):
            raise ConfigError(
                f"{self._path} answers {tuple(answers.shape)} (facts, relations), and"
                f" {(len(pairs), len(self._classes))} are asked; allowed: answers about the same"
                " data with the same rules. Remove it, or give another --out."
            )
        self._n_calls += 1
        return [dict(zip(self._classes, row, strict=True)) for row in answers.tolist()]

    def _examples(self, pairs: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """What the teacher reads, of which pairs: an object behind the last word is not read."""
        from glong.models.tagger_text import TURN_WORDS
        from glong.training.examples import Fact, LabelledDialogue, LabelledTurn, Mention
        from jobs.tagger.targets import examples

        # A stand-in of a class that exists: only the object's place is read.
        dialogues, kept = [], []
        for number, (text, fact) in enumerate(pairs):
            first, end = fact.object.span
            if end <= TURN_WORDS:
                stand_in = Fact(None, self._classes[-1], Mention((first, min(end, first + 8))))
                turn = LabelledTurn("I", text, (stand_in,), True)
                dialogues.append(LabelledDialogue("asked", (turn,)))
                kept.append(number)
        return examples(dialogues, self._classes, self._tokenizer), kept

    def save(self) -> None:
        """Keep the answers; written to a new name first."""
        import torch

        made = self._path.with_name(self._path.name + ".tmp")
        torch.save(self._answers, made)
        made.rename(self._path)


if __name__ == "__main__":
    sys.exit(main())
