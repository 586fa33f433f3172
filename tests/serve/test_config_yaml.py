"""The deployment files name what there is, within Ray Serve's own schema."""

from pathlib import Path
from typing import Any

import yaml
from ray.serve.schema import ServeDeploySchema

from serve.app import build_app
from serve.settings import settings_from

SERVE = Path(__file__).parent.parent.parent / "serve"


def bound_names() -> set[str]:
    """Names of the deployments of the application."""
    app = build_app(settings_from({"GLONG_STORE": "m", "GLONG_MODELS": "fake"}))
    bound = app._bound_deployment
    names = {bound.name}
    for argument in bound.init_args:
        inner = getattr(argument, "_bound_deployment", None)
        names |= {inner.name} if inner else set()
    return names


def check(document: dict[str, Any]) -> None:
    config = ServeDeploySchema.model_validate(document)
    (application,) = config.applications
    assert application.import_path == "serve.app:app"
    named = {deployment.name for deployment in application.deployments}
    assert named == bound_names() - {"Responder"}
    environ = {**application.runtime_env["env_vars"], "GLONG_MODELS": "fake"}
    assert settings_from(environ).store.startswith("s3://")
    assert not config.logging_config.enable_access_log


def test_the_config_file_fits_the_application() -> None:
    check(yaml.safe_load((SERVE / "config.yaml").read_text()))


def test_the_kuberay_example_fits_the_application() -> None:
    resource = yaml.safe_load((SERVE / "kuberay.yaml").read_text())
    assert (resource["apiVersion"], resource["kind"]) == ("ray.io/v1", "RayService")
    check(yaml.safe_load(resource["spec"]["serveConfigV2"]))
    (workers,) = resource["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert workers["template"]["spec"]["containers"][0]["volumeMounts"]
