"""Build memories from dialogues in bulk: ``python jobs/build_memory.py --input FILE --store DIR``.

Reads dialogues, extracts triplets, weighs and embeds them on Ray's workers, and commits them to a
Lance store in waves. A job that is stopped anywhere and run again ends with the same visible
tables.
"""

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import ray
from ray.exceptions import RayError, RayTaskError

from glong._version import __version__
from glong.config import ModelsConfig
from glong.errors import ConfigError, GlongError, StoreNotFoundError
from glong.models.load import ModelsIdentity, identify_models
from glong.planning import KNOWN_COLUMNS, Rebuild
from glong.prompts import EXTRACTION_PROMPT_VERSION
from glong.store import Forgotten, Store, StoreMeta
from glong.tables import MANIFEST
from jobs.exits import interrupt_on_sigterm, run_to_end
from jobs.options import Job, check, parser
from jobs.pipeline import Fragments, build_dataset, find_repeats, read_sessions
from jobs.progress import Progress, say
from jobs.reading import ReadPlan
from jobs.resources import MIN_CPUS, plan_resources
from jobs.stages import split_events
from jobs.summary import Tally, describe, summarise
from jobs.waves import WaveLoop

__all__ = ["leaving_ray", "main", "ours"]

STAYS = "what was committed stays. Run the same command again to go on."
FRAGMENT_SESSIONS = 512
"""Sessions whose rows a worker writes to one file a table; fewer make many small files."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    args = parser().parse_args(argv)

    def work() -> dict[str, Any]:
        with leaving_ray():
            numbers = run(check(args))
        say(describe(numbers))
        return numbers

    return run_to_end(
        work,
        args.summary,
        stays=STAYS,
        above_limit=lambda numbers: numbers["failure_rate"] > args.max_failure_rate,
    )


@contextmanager
def leaving_ray() -> Iterator[None]:
    """Leave Ray at the end, unless this process used it before."""
    joined = ray.is_initialized()
    try:
        yield
    finally:
        if not joined:
            ray.shutdown()


def run(job: Job) -> dict[str, Any]:
    """Build what is pending; returns the summary.

    Raises:
        ConfigError, SchemaError: the models cannot be loaded, or the store is of other models.
        GlongError: stopped in the middle; what was committed stays.
    """
    began_s = time.monotonic()
    _connect()
    identity = _identify(job.models)
    store = _store(job, identity)
    try:
        read = _read_plan(job, identity, store)
        tally = (
            _plan_only(job, read) if store is None or job.args.dry_run else _build(job, read, store)
        )
    except RayError as error:
        raise ours(error) from error
    version = store.version if store else 0
    return summarise(tally, identity.fingerprints, version, time.monotonic() - began_s)


def _read_plan(job: Job, identity: ModelsIdentity, store: Store | None) -> ReadPlan:
    args = job.args
    repeats = None
    if len(job.paths) > 1 and not args.limit:  # else one task reads all, and sees what comes twice
        say(f"Comparing the sessions of {len(job.paths):,} files ...")
        repeats = ray.put(find_repeats(job.paths, args.tenant, args.format))
    return ReadPlan(
        tenant=args.tenant,
        format_name=args.format,
        rebuild=job.rebuild,
        limit=args.limit,
        fingerprints=identity.fingerprints,
        manifest=ray.put(_known(store, args.tenant)),
        forgotten=store.forgotten(args.tenant) if store else Forgotten(),
        restore=args.restore_forgotten,
        repeats=repeats,
    )


def _store(job: Job, identity: ModelsIdentity) -> Store | None:
    """The store, made if missing, or ``None`` for a dry run where there is none."""
    meta = StoreMeta(
        encoder=identity.fingerprints.encoder,
        dimension=identity.dimension,
        prompt_version=EXTRACTION_PROMPT_VERSION,
        glong_version=__version__,
    )
    if job.args.dry_run:
        try:
            Store.open(job.args.store)
        except StoreNotFoundError:
            return None
    return Store.create_or_open(job.args.store, meta)


def _known(store: Store | None, tenant: str) -> pa.Table:
    """What the manifest says of the tenant's sessions, for planning."""
    if store is None:
        return MANIFEST.empty_table().select(KNOWN_COLUMNS)
    return store.manifest(tenant, columns=list(KNOWN_COLUMNS))


def _connect() -> None:
    """Join the cluster of ``RAY_ADDRESS`` (a submitted job has it), else start Ray here.

    Raises:
        ConfigError: no cluster answers at that address.
    """
    if ray.is_initialized():  # an import into a process that uses Ray already
        return
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        say("Starting Ray on this machine (set RAY_ADDRESS to use a cluster) ...")
    # Its native log warns on every run that an actor's arguments live as long as this driver does.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # Ray starts its processes by fork and exec, which is safe beside Lance's threads.
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    try:
        ray.init(
            address=address or "local",
            num_cpus=None if address else max(int(MIN_CPUS), os.cpu_count() or 1),
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError) as error:
        raise ConfigError(
            f"RAY_ADDRESS is {address!r}, and no cluster answers there ({error}); give the address"
            " of a running one, or unset it to start Ray on this machine."
        ) from error
    except Exception as error:
        if type(error) is not Exception:
            raise
        # Ray raises a bare one, and nothing else, where a node needs over 30 s to start.
        raise GlongError(f"Ray did not start: {error} Nothing was built; try again.") from error
    interrupt_on_sigterm()
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    # What it logs with a traceback it also raises, and our message says it in a line.
    logging.getLogger("ray.data._internal.execution").setLevel(logging.CRITICAL)


def _identify(models: ModelsConfig) -> ModelsIdentity:
    """Fingerprints of the models, from a worker, so that the driver never loads a model.

    It also fills the caches that the stages then share (a converted checkpoint, say).
    """
    probe = ray.remote(num_cpus=1, max_calls=1)(identify_models)
    try:
        return ray.get(probe.remote(models))
    except RayError as error:
        raise ours(error) from error


def ours(error: RayError) -> GlongError:
    """Our own error that a worker raised; else what happened to Ray, or to code on a worker."""
    causes = list(_causes(error))
    for cause in causes:
        # What Ray raises is of both kinds, and its message is a traceback.
        if isinstance(cause, GlongError) and not isinstance(cause, RayError):
            return cause
    for cause in reversed(causes):
        if isinstance(cause, RayError) and not isinstance(cause, RayTaskError):
            what = str(cause).strip().partition("\n")[0]
            return GlongError(f"Ray failed ({type(cause).__name__}): {what}")
    return GlongError(f"Code on a worker failed: {error}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = getattr(error, "cause", None) or error.__cause__


def _build(job: Job, read: ReadPlan, store: Store) -> Tally:
    args = job.args
    plan = plan_resources(job.models, _cluster_resources(), job.actors)
    size = min(args.wave_size, FRAGMENT_SESSIONS)
    restore = read.restore
    fragments = Fragments(store.uri, size, restore) if _workers_write(args.writer) else None
    blocks = build_dataset(job.paths, read, job.models, plan, fragments)
    replace = job.rebuild is Rebuild.ALL or restore
    loop = WaveLoop(
        store, args.tenant, args.wave_size, args.wave_seconds, replace, restore, read.forgotten
    )
    with Progress("build") as progress:
        for n in loop.run(blocks.iter_batches(batch_size=None, batch_format="pyarrow")):
            progress.advance(n, f"{loop.tally.waves} waves committed")
    return loop.tally


def _cluster_resources() -> dict[str, float]:
    """What the cluster has or could have: with autoscaling from zero nodes are not there yet."""
    present: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    possible = ray._private.state.state.get_max_resources_from_cluster_config() or {}
    names = present.keys() | possible.keys()
    return {name: max(present.get(name, 0.0), possible.get(name, 0.0)) for name in names}


def _workers_write(writer: str) -> bool:
    """On one node the driver writes (fewer, larger files); on several only metadata travels."""
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    n_nodes = sum(bool(node["Alive"]) for node in nodes)
    return writer == "workers" or (writer == "auto" and n_nodes > 1)


def _plan_only(job: Job, read: ReadPlan) -> Tally:
    tally = Tally()
    with Progress("plan") as progress:
        sessions = read_sessions(job.paths, read)
        for block in sessions.iter_batches(batch_size=None, batch_format="pyarrow"):
            rows, events = split_events(block)
            for event in events:
                tally.add(event)
            progress.advance(rows.num_rows, "nothing is built")
    return tally


if __name__ == "__main__":
    sys.exit(main())
