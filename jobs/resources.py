"""Which share of a machine each stage gets: pure, decided on the driver before anything starts.

A stage's actors hold one model each. On one machine the shares are fractions that leave room for
the reading tasks (without it the pipeline waits for ever); on a cluster each stage grows from
``min_actors`` to ``max_actors`` by itself. The custom resources are those of the node groups in
``cluster.yaml``: where a cluster offers them, a stage goes to the nodes that are meant for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor

from glong.config import ModelsConfig
from glong.errors import ConfigError

__all__ = [
    "CUSTOM_RESOURCES",
    "MIN_CPUS",
    "READ_CPUS",
    "WRITE_CPUS",
    "Plan",
    "StageResources",
    "parse_actors",
    "plan_resources",
]

CUSTOM_RESOURCES = {"extract": "glong_extract", "weigh": "glong_weigh", "embed": "glong_embed"}
READ_CPUS = 1.0
"""Of a reading task. Not a choice: Ray Data fuses reading with the cut into small blocks only where
both have its default, and an unfused cut would ask for a CPU of its own."""
WRITE_CPUS = 0.1
"""Of a writing actor: it mostly waits for the disk."""
VLLM_CALLS = 2
"""While the last answers of one call finish, those of the next take the places in the batch."""
MIN_CPUS = 2.0
"""Below it the stages of a build do not fit beside each other."""


@dataclass(frozen=True, slots=True)
class StageResources:
    """What one stage asks of Ray.

    Attributes:
        n_cpus: CPU share of one actor; may be a fraction.
        n_gpus: GPU share of one actor; may be a fraction.
        min_actors: started at once.
        max_actors: the most that autoscaling starts.
        batch_size: sessions a call.
        n_threads: of the numeric libraries inside one actor (Ray would derive it from ``n_cpus``).
        n_calls: at once in one actor; above 1 where the model batches them together.
        custom: custom resources, each in a tiny amount, to pick the node group.
    """

    n_cpus: float
    n_gpus: float
    min_actors: int
    max_actors: int
    batch_size: int
    n_threads: int
    custom: Mapping[str, float]
    n_calls: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The resources of all stages."""

    extract: StageResources
    weigh: StageResources
    embed: StageResources


def parse_actors(text: str) -> tuple[int, int]:
    """``"2"`` or ``"1:8"`` -> (min, max) actors.

    Raises:
        ConfigError: not of that form.
    """
    low, _, high = text.partition(":")
    try:
        bounds = int(low), int(high or low)
    except ValueError:
        bounds = 0, 0
    if not 1 <= bounds[0] <= bounds[1]:
        raise ConfigError(
            f"actors is {text!r}; allowed: N or MIN:MAX, whole numbers, 1 <= MIN <= MAX."
        )
    return bounds


def plan_resources(
    config: ModelsConfig,
    cluster: Mapping[str, float],
    actors: Mapping[str, tuple[int, int]] | None = None,
) -> Plan:
    """Shares for the models on what the cluster has now.

    Args:
        config: the models; their back ends tell which stage profits from a GPU.
        cluster: what there is, or what autoscaling can bring: ``CPU``, ``GPU``, custom resources.
        actors: stage -> (min, max) actors, where the user says so.

    Raises:
        ConfigError: the cluster is too small to run all stages at once.
    """
    n_cpus, n_gpus = cluster.get("CPU", 0.0), cluster.get("GPU", 0.0)
    if n_cpus < MIN_CPUS:
        raise ConfigError(
            f"The cluster offers {n_cpus:g} CPUs; allowed: {MIN_CPUS:g} or more. Add a node, or"
            f" start Ray with --num-cpus {MIN_CPUS:g}."
        )
    # A sixth of what reading and writing leave for each model stage: a reading task finds room even
    # beside a second job, else both would wait for ever. Threads are set apart from these shares.
    share = (n_cpus - READ_CPUS - WRITE_CPUS) / 6
    wants_gpu = {
        "extract": 1.0 if config.extractor.backend in ("vllm", "transformers") else 0.0,
        "weigh": 0.25 if config.scorer.backend == "t5" else 0.0,
        "embed": 0.25 if config.encoder.backend == "sentence" else 0.0,
    }
    batch_sizes = {
        "extract": config.extractor.batch_size,
        "weigh": config.scorer.batch_size,
        "embed": config.encoder.stage_batch_size,
    }
    stages = {}
    for stage, gpu in wants_gpu.items():
        n_gpu = gpu if n_gpus > 0 else 0.0
        default = (1, max(1, int(n_gpus / gpu)) if n_gpu else max(1, int(n_cpus / 4)))
        low, high = (actors or {}).get(stage, default)
        name = CUSTOM_RESOURCES[stage]
        stages[stage] = StageResources(
            n_cpus=min(1.0, floor(1000 * share / high) / 1000),
            n_gpus=n_gpu,
            min_actors=low,
            max_actors=high,
            batch_size=batch_sizes[stage],
            n_threads=max(1, int(min(n_cpus, 8)) // low),
            custom={name: 0.001} if name in cluster else {},
            n_calls=VLLM_CALLS if (stage, config.extractor.backend) == ("extract", "vllm") else 1,
        )
    return Plan(**stages)
