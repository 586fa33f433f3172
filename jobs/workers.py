"""Training on several Ray workers: a job's own loop inside Ray Train.

Each worker takes its share of every step's batches; gradients are averaged; worker 0 writes the
checkpoints, below ``--out``, which all nodes have to see.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glong.errors import ConfigError, GlongError
from jobs.exits import interrupt_on_sigterm

__all__ = ["agreed", "train_on_workers"]

Train = Callable[[Any, Callable[[Any], Any], int], object]
"""(task, what wraps the module that a step runs, this worker's number) -> anything."""


def train_on_workers(
    task: Any, train: Train, *, name: str, n_workers: int, n_threads: int, work: Path
) -> None:
    """Train to the end; the result is the last checkpoint.

    Args:
        task: what a worker needs; every value can travel.
        train: trains in its own process; a function of a module.
        name: of the job.
        n_workers: processes.
        n_threads: of torch in each; 0: as many as torch takes.
        work: folder for what Ray writes.

    Raises:
        ConfigError: Ray is not installed.
        GlongError: a worker failed.
        KeyboardInterrupt: told to end.
    """
    try:
        import ray
        from ray.train import RunConfig, ScalingConfig, TrainingFailedError
        from ray.train.torch import TorchTrainer
    except ImportError as error:
        raise ConfigError(f'{error}. Install it with: pip install "glong[ray]"') from error
    joined = ray.is_initialized()
    if not joined:
        ray.init(address=os.environ.get("RAY_ADDRESS") or "local", log_to_driver=True)
        interrupt_on_sigterm()
    use_gpu = ray.cluster_resources().get("GPU", 0) >= n_workers  # type: ignore[no-untyped-call]
    trainer = TorchTrainer(
        _worker,
        train_loop_config={"task": task, "train": train, "n_threads": n_threads},
        scaling_config=ScalingConfig(num_workers=n_workers, use_gpu=use_gpu),
        run_config=RunConfig(name=name, storage_path=str(work / "ray")),
    )
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    try:
        trainer.fit()
    except SystemExit as error:  # Ray Train's own answer to Ctrl-C, with status 0
        raise KeyboardInterrupt from error
    except (ray.exceptions.RayError, TrainingFailedError) as error:
        raise GlongError(f"A training worker failed: {error}") from error
    finally:
        signal.signal(signal.SIGINT, on_ctrl_c)
        if not joined:
            ray.shutdown()


def agreed(decision: bool) -> bool:
    """Worker 0's decision, in all of them: else one would wait for a step that no other makes."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return decision
    told = [decision]
    dist.broadcast_object_list(told, src=0)
    return told[0]


def _worker(config: dict[str, Any]) -> None:
    """One worker; runs in its own process."""
    import torch
    from ray.train import get_context
    from ray.train.torch import prepare_model

    if config["n_threads"]:
        torch.set_num_threads(config["n_threads"])
    config["train"](config["task"], prepare_model, get_context().get_world_rank())
