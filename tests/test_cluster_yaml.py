"""``cluster.yaml`` is what Ray's launcher accepts, and fits the jobs and the installed Ray."""

from pathlib import Path

import pytest
import yaml

from jobs.resources import CUSTOM_RESOURCES

ray = pytest.importorskip("ray")
util = pytest.importorskip("ray.autoscaler._private.util")

CLUSTER = Path(__file__).parents[1] / "cluster.yaml"


@pytest.fixture(scope="module")
def cluster():
    return yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))


def test_ray_accepts_the_file_as_written(cluster):
    util.validate_config(cluster)


def test_ray_accepts_the_file_with_its_defaults_filled_in(cluster):
    prepared = util.prepare_config(cluster)  # as `ray up` does
    util.validate_config(prepared)
    assert prepared["head_node_type"] == "head"


def test_workers_start_from_none_and_stay_below_the_bound(cluster):
    workers = {k: v for k, v in cluster["available_node_types"].items() if k != "head"}
    assert workers.keys() == {"gpu_worker", "cpu_worker"}
    assert all(group["min_workers"] == 0 for group in workers.values())
    assert sum(group["max_workers"] for group in workers.values()) <= cluster["max_workers"]


@pytest.mark.parametrize(
    ("group", "stages"),
    [
        ("head", set()),
        ("gpu_worker", {"extract", "weigh", "embed"}),
        ("cpu_worker", {"weigh", "embed"}),
    ],
)
def test_groups_offer_the_resources_that_the_stages_ask_for(cluster, group, stages):
    resources = cluster["available_node_types"][group]["resources"]
    assert resources.keys() - {"CPU", "GPU"} == {CUSTOM_RESOURCES[stage] for stage in stages}
    assert ("GPU" in resources) == ("extract" in stages)


def test_images_carry_the_ray_and_python_of_the_lock(cluster):
    images = [cluster["docker"]["image"]]
    images += [
        g["docker"]["worker_image"]
        for g in cluster["available_node_types"].values()
        if "docker" in g
    ]
    assert all(f":{ray.__version__}-py311-" in image for image in images)
