"""``serve run serve.app:app``: the application, from environment variables.

``GLONG_STORE`` is the folder or URI of the store, ``GLONG_MODELS`` a preset or TOML file,
``GLONG_KEYS_FILE`` the hashed keys; see :mod:`serve.settings` for the bounds.
"""

import os
import signal
import threading
from typing import Any

import ray
from fastapi import FastAPI
from ray import serve
from ray._private.worker import _post_init_hooks
from ray.serve import Application
from ray.serve.handle import DeploymentHandle

from glong.config import load_models_config
from glong.errors import ConfigError
from serve.api import make_api
from serve.auth import Keys, load_keys
from serve.deployments import Responder, Writer
from serve.logs import LOG, set_up
from serve.memories import Memories
from serve.metrics import RequestMeters
from serve.services import RayServices
from serve.settings import ServeSettings, settings_from

__all__ = ["Api", "build_app", "require_keys_behind_haproxy"]

_SMALL: dict[str, Any] = {
    "ray_actor_options": {"num_cpus": 0.1},
    "logging_config": {"enable_access_log": False},
}
"""CPUs to start on a small machine; ``config.yaml`` has what a real one should get. Ray's access
log is off, since ours says more and names no ids."""


class Api:
    """The ingress: keys, schemas, errors; all work is done by the other deployments."""

    def __init__(
        self,
        settings: ServeSettings,
        keys: Keys,
        memories: DeploymentHandle[Any],
        writer: DeploymentHandle[Any],
        responder: DeploymentHandle[Any] | None,
    ) -> None:
        set_up()
        require_keys_behind_haproxy(keys)
        self._keys = keys
        self._services = RayServices(
            settings, memories=memories, writer=writer, responder=responder
        )
        if not keys.entries:
            why = "GLONG_KEYS_FILE is not set: peers other than loopback get 403"
            LOG.warning("no_keys", extra={"fields": {"why": why}})

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Called by Ray Serve in the replica, after the constructor."""
        observe = RequestMeters().observe  # Ray's proxy names the request
        return make_api(self._services, self._keys, observe, names_request=False)


def require_keys_behind_haproxy(keys: Keys) -> None:
    """Without keys only this machine may ask, and behind HAProxy every request comes from it.

    Checked where the application is made and again in each replica. What counts is the variable of
    the process that has Ray's controller: set it on all nodes alike.

    Raises:
        ConfigError: there are no keys, and Ray is told to put HAProxy in front.
    """
    if not keys.entries and os.environ.get("RAY_SERVE_ENABLE_HA_PROXY") == "1":
        raise ConfigError(
            "RAY_SERVE_ENABLE_HA_PROXY is 1 and GLONG_KEYS_FILE is not set: HAProxy hides who asks,"
            " so all who reach this machine would be answered. Set GLONG_KEYS_FILE (make one with"
            " `python -m serve.auth TENANT`), or RAY_SERVE_ENABLE_HA_PROXY to 0."
        )


def build_app(settings: ServeSettings) -> Application:
    """The deployments, bound together.

    Raises:
        ConfigError: the keys file or the models' configuration cannot be read, or there are no keys
            behind HAProxy.
    """
    keys = load_keys(settings.keys_file) if settings.keys_file else Keys()
    require_keys_behind_haproxy(keys)
    memories = serve.deployment(
        name="Memories", max_ongoing_requests=32, max_queued_requests=64, **_SMALL
    )(Memories)
    writer = serve.deployment(
        name="Writer",
        # More than may wait in it, so that it is the writer that refuses.
        max_ongoing_requests=settings.max_waiting + 64,
        max_queued_requests=64,
        graceful_shutdown_timeout_s=60,
        **_SMALL,
    )(Writer)
    responder = serve.deployment(
        name="Responder", max_ongoing_requests=32, max_queued_requests=64, **_SMALL
    )(Responder)
    ingress = serve.deployment(
        name="Api", max_ongoing_requests=256, max_queued_requests=512, **_SMALL
    )(serve.ingress()(Api))
    has_responder = load_models_config(settings.models).responder.backend != "none"
    return ingress.bind(
        settings,
        keys,
        memories.bind(settings),
        writer.bind(settings),
        responder.bind(settings) if has_responder else None,
    )


def _stop_in_order_at_sigterm() -> None:
    """SIGTERM means to ``serve run`` what Ctrl-C does: replicas write what they hold, then end.

    Ray would end at once. It takes the signal when this process connects to it, after this module
    was imported, so the handler is set behind it; where it is connected already, nothing changes.
    """

    def take_signal() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.default_int_handler)

    if not ray.is_initialized():
        _post_init_hooks.append(take_signal)


def __getattr__(name: str) -> Application:
    """Make ``app`` where it is asked for, so that importing this module needs no environment."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _stop_in_order_at_sigterm()
    return build_app(settings_from(os.environ))
