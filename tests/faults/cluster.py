"""A Ray cluster for many jobs: ``python -m tests.faults.cluster N_CPUS TEMP_DIR``.

Prints its address, then lives until its standard input is closed or it is killed. Not
``ray start``, which takes fixed ports that others on the machine may have.
"""

import sys

import ray

if __name__ == "__main__":
    ray.init(
        address="local",
        num_cpus=int(sys.argv[1]),  # more than there are: the jobs mostly wait
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=200 * 2**20,
        _temp_dir=sys.argv[2],
    )
    print(f"address: {ray.get_runtime_context().gcs_address}", flush=True)
    sys.stdin.read()
