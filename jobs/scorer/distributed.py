"""Training on several Ray workers: the loop of ``jobs.scorer.run`` inside Ray Train.

Each worker takes its share of every step's batches; gradients are averaged; worker 0 writes the
checkpoints, below ``--out``, which all nodes have to see.
"""

import os
from typing import Any

from glong.errors import ConfigError, GlongError
from jobs.scorer.run import Task, train_here

__all__ = ["train_on_workers"]


def train_on_workers(task: Task) -> None:
    """Train to the end; the result is the last checkpoint.

    Raises:
        ConfigError: Ray is not installed.
        GlongError: a worker failed.
    """
    try:
        import ray
        from ray.train import RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer
    except ImportError as error:
        raise ConfigError(f'{error}. Install it with: pip install "glong[ray]"') from error
    joined = ray.is_initialized()
    if not joined:
        ray.init(address=os.environ.get("RAY_ADDRESS") or "local", log_to_driver=True)
    use_gpu = ray.cluster_resources().get("GPU", 0) >= task.settings.n_workers  # type: ignore[no-untyped-call]
    trainer = TorchTrainer(
        _worker,
        train_loop_config={"task": task},
        scaling_config=ScalingConfig(num_workers=task.settings.n_workers, use_gpu=use_gpu),
        run_config=RunConfig(name="train_scorer", storage_path=str(task.work / "ray")),
    )
    try:
        trainer.fit()
    except ray.exceptions.RayError as error:
        raise GlongError(f"A training worker failed: {error}") from error
    finally:
        if not joined:
            ray.shutdown()


def _worker(config: dict[str, Any]) -> None:
    """One worker; runs in its own process."""
    import torch
    from ray.train import get_context
    from ray.train.torch import prepare_model

    task: Task = config["task"]
    if task.args.threads:
        torch.set_num_threads(task.args.threads)
    train_here(task, wrap=prepare_model, rank=get_context().get_world_rank())
