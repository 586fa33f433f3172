"""A Ray cluster for many jobs: ``python -m tests.faults.cluster N_CPUS TEMP_DIR``.

Prints its address, then lives until its standard input is closed or it is killed. Not
``ray start``, which takes fixed ports that others on the machine may have.
"""

import sys

import ray

ATTEMPTS = 3
"""Ray gives up after 30 seconds, which a busy machine may need."""


def start(n_cpus: int, folder: str) -> str:
    """Start a cluster in this process's session; returns its address."""
    ray.init(
        address="local",
        num_cpus=n_cpus,  # more than there are: the jobs mostly wait
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=200 * 2**20,
        _temp_dir=folder,
    )
    return str(ray.get_runtime_context().gcs_address)


def start_patiently(n_cpus: int, folder: str) -> str:
    for _ in range(ATTEMPTS - 1):
        try:
            return start(n_cpus, folder)
        except Exception as error:  # Ray raises this very class here
            print(error, flush=True)
            ray.shutdown()
    return start(n_cpus, folder)


if __name__ == "__main__":
    print(f"address: {start_patiently(int(sys.argv[1]), sys.argv[2])}", flush=True)
    sys.stdin.read()
