"""The service on a Ray of its own: ``python -m tests.faults.service PORT TEMP_DIR``.

Settings are those of ``serve.app``, from the environment. Prints ``ready``; then each line of
standard input is a command: ``shutdown`` is what ``serve shutdown`` does. Ends, with its Ray, when
standard input is closed; SIGTERM does to it what it does to ``serve run``.
"""

import sys
from pathlib import Path

from ray import serve
from ray.serve.config import HTTPOptions

from serve.app import app
from tests.faults.cluster import start_patiently

N_CPUS = 4
"""For Ray's books only."""


def serve_on(port: int) -> None:
    """Start Serve and the application; returns once it answers."""
    serve.start(http_options=HTTPOptions(host="127.0.0.1", port=port))
    serve.run(app, name="glong")


def main(port: int, folder: Path) -> None:
    start_patiently(N_CPUS, str(folder))
    serve_on(port)
    print("ready", flush=True)
    try:
        for line in sys.stdin:
            if line.strip() == "shutdown":
                serve.shutdown()
                print("shut down", flush=True)
    except KeyboardInterrupt:  # as `serve run` does
        serve.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
