"""``python -m serve``: the service on this machine until Ctrl-C or SIGTERM.

What ``glong serve`` starts: ``serve run serve.app:app`` with a host and a port. Settings are the
same variables.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from ray import serve
from ray.serve.config import HTTPOptions

from glong.errors import ConfigError

BAD_USAGE = 2
WAIT_S = 10.0


def main(argv: Sequence[str] | None = None) -> int:
    """Start the application, wait, stop it in order."""
    parser = argparse.ArgumentParser(prog="python -m serve", description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen at (8000)")
    args = parser.parse_args(argv)
    try:
        from serve.app import app
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_USAGE
    serve.start(http_options=HTTPOptions(host=args.host, port=args.port))
    try:
        serve.run(app, name="glong")
        while True:
            time.sleep(WAIT_S)
    except KeyboardInterrupt:  # SIGTERM too, see `serve.app`
        serve.shutdown()  # type: ignore[no-untyped-call]
    return 0


if __name__ == "__main__":
    sys.exit(main())
