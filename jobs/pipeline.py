"""The composition: files -> sessions -> triplets -> weights -> rows, streaming over Ray."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import ray
import ray.data

from glong.config import ModelsConfig
from jobs.reading import CONTENTS, ReadPlan, list_contents, read_files, repeated
from jobs.resources import WRITE_CPUS, Plan, StageResources
from jobs.stages import EmbedStage, ExtractStage, WeighStage, WriteStage

__all__ = ["Fragments", "build_dataset", "find_repeats", "read_sessions"]


@dataclass(frozen=True, slots=True)
class Fragments:
    """Ask the workers to write the rows: into which store, how many sessions a file.

    ``restore``: what was forgotten too.
    """

    store_uri: str
    sessions: int
    restore: bool = False


def find_repeats(paths: Sequence[str], tenant: str, format_name: str) -> pa.Table:
    """The sessions that stand in several of the files, each as the first of them has it.

    Reads all files: 50,000 turns a second on a core, a hundredth of what building them takes. Here
    two hashes of each session are held, some 100 bytes.
    """
    files = _tasks([[path] for path in paths]).map_batches(
        partial(list_contents, tenant=tenant, format_name=format_name),
        batch_size=1,
        batch_format="pyarrow",
    )
    found = files.iter_batches(batch_size=None, batch_format="pyarrow")
    return repeated(pa.concat_tables([CONTENTS.empty_table(), *found]))


def read_sessions(paths: Sequence[str], read: ReadPlan) -> ray.data.Dataset:
    """Every pending session of the files, with events; nothing runs until it is iterated."""
    # `--limit` counts sessions over all files in order: one task then reads them all.
    return _tasks([list(paths)] if read.limit else [[path] for path in paths]).map_batches(
        partial(read_files, plan=read),
        batch_size=1,
        batch_format="pyarrow",
    )


def _tasks(groups: Sequence[Sequence[str]]) -> ray.data.Dataset:
    """One row, and one task, a group of files: each file alone, or all of them."""
    _configure()
    tasks = [{"file": i, "paths": json.dumps(group)} for i, group in enumerate(groups)]
    return ray.data.from_items(tasks, override_num_blocks=len(tasks))


def build_dataset(
    paths: Sequence[str],
    read: ReadPlan,
    models: ModelsConfig,
    plan: Plan,
    fragments: Fragments | None = None,
) -> ray.data.Dataset:
    """Every pending session as built rows with events; nothing runs until it is iterated."""
    rows = read_sessions(paths, read)
    # Small blocks, so that actors share the work and a wave closes in time.
    rows = rows.repartition(target_num_rows_per_block=plan.extract.batch_size)
    rows = _map(rows, ExtractStage, models.extractor, plan.extract)
    rows = _map(rows, WeighStage, models.scorer, plan.weigh)
    rows = _map(rows, EmbedStage, models.encoder, plan.embed)
    if fragments is None:
        return rows
    return rows.map_batches(
        WriteStage,
        fn_constructor_args=(fragments.store_uri, fragments.restore),
        batch_size=fragments.sessions,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=plan.embed.max_actors),
        num_cpus=WRITE_CPUS,
    )


def _map(
    rows: ray.data.Dataset, stage: type, spec: object, resources: StageResources
) -> ray.data.Dataset:
    return rows.map_batches(
        stage,
        fn_constructor_args=(spec, resources.n_gpus),
        batch_size=resources.batch_size,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(
            min_size=resources.min_actors,
            max_size=resources.max_actors,
            max_concurrent_calls_per_actor=resources.n_calls,
            enable_true_multi_threading=resources.n_calls > 1,
        ),
        num_cpus=resources.n_cpus,
        num_gpus=resources.n_gpus,
        resources=dict(resources.custom),
        runtime_env={"env_vars": _thread_variables(resources.n_threads)},
    )


def _thread_variables(n_threads: int) -> dict[str, str]:
    # Spinning threads of several actors on the same cores double the cost of all of them.
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(n_threads)) | {"OMP_WAIT_POLICY": "passive"}


def _configure() -> None:
    """Settings of Ray Data for this driver: our own progress and errors, small blocks in flight."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.raise_original_map_exception = True  # what Ray wraps it in arrives without it
    context.target_max_block_size = 16 * 1024 * 1024
