"""Training the scorer on several Ray workers: see :mod:`jobs.workers`."""

from jobs import workers
from jobs.scorer.run import Task, train_here

__all__ = ["train_on_workers"]


def train_on_workers(task: Task) -> None:
    """Train to the end; the result is the last checkpoint.

    Raises:
        ConfigError: Ray is not installed.
        GlongError: a worker failed.
    """
    workers.train_on_workers(
        task,
        train_here,
        name="train_scorer",
        n_workers=task.settings.n_workers,
        n_threads=task.args.threads,
        work=task.work,
    )
