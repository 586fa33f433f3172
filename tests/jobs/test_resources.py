"""Shares of a machine or cluster."""

import pytest

from glong.config import FAKE_MODELS, PAPER_MODELS, SMALL_MODELS
from glong.errors import ConfigError
from jobs.resources import READ_CPUS, WRITE_CPUS, parse_actors, plan_resources

LAPTOP = {"CPU": 2.0}
CLUSTER = {"CPU": 64.0, "GPU": 4.0, "glong_extract": 4.0, "glong_weigh": 8.0, "glong_embed": 8.0}


@pytest.mark.parametrize("n_cpus", [2.0, 3.0, 4.0, 16.0])
@pytest.mark.parametrize("config", [FAKE_MODELS, SMALL_MODELS])
def test_all_stages_and_a_reading_task_fit_on_one_machine(n_cpus: float, config) -> None:  # type: ignore[no-untyped-def]
    plan = plan_resources(config, {"CPU": n_cpus})
    used = sum(s.n_cpus * s.min_actors for s in (plan.extract, plan.weigh, plan.embed))
    assert used + READ_CPUS + WRITE_CPUS <= n_cpus + 1e-9


@pytest.mark.parametrize("n_cpus", [2.0, 4.0])
def test_two_jobs_on_one_small_cluster_leave_room_to_read(n_cpus: float) -> None:
    plan = plan_resources(FAKE_MODELS, {"CPU": n_cpus})
    used = sum(s.n_cpus * s.max_actors for s in (plan.extract, plan.weigh, plan.embed))
    assert 2 * used + READ_CPUS <= n_cpus


@pytest.mark.parametrize("n_cpus", [2.0, 3.0])
def test_more_actors_on_a_small_machine_share_the_same_cpus(n_cpus: float) -> None:
    plan = plan_resources(FAKE_MODELS, {"CPU": n_cpus}, {"extract": (2, 2), "embed": (3, 4)})
    used = sum(s.n_cpus * s.max_actors for s in (plan.extract, plan.weigh, plan.embed))
    assert used + READ_CPUS + WRITE_CPUS <= n_cpus + 1e-9
    assert (plan.embed.min_actors, plan.embed.max_actors) == (3, 4)


def test_stages_go_to_their_node_groups_and_gpus_on_a_cluster() -> None:
    plan = plan_resources(PAPER_MODELS, CLUSTER)
    assert plan.extract.n_gpus == 1.0
    assert plan.extract.max_actors == 4
    assert plan.extract.custom == {"glong_extract": 0.001}
    assert plan.weigh.custom == {"glong_weigh": 0.001}
    assert 0 < plan.weigh.n_gpus < 1


def test_no_gpu_is_asked_for_where_there_is_none() -> None:
    plan = plan_resources(SMALL_MODELS, LAPTOP)
    assert [s.n_gpus for s in (plan.extract, plan.weigh, plan.embed)] == [0, 0, 0]
    assert plan.extract.custom == {}


def test_only_an_engine_that_batches_calls_together_gets_two_at_once() -> None:
    plan = plan_resources(PAPER_MODELS, CLUSTER)
    assert PAPER_MODELS.extractor.backend == "vllm"
    assert [s.n_calls for s in (plan.extract, plan.weigh, plan.embed)] == [2, 1, 1]
    assert plan_resources(SMALL_MODELS, LAPTOP).extract.n_calls == 1


@pytest.mark.parametrize(("text", "expected"), [("2", (2, 2)), ("1:8", (1, 8))])
def test_actors_are_a_number_or_a_range(text: str, expected: tuple[int, int]) -> None:
    assert parse_actors(text) == expected


@pytest.mark.parametrize("text", ["0", "3:2", "many", ":2", "1:2:3", "-1"])
def test_other_actors_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError, match="allowed: N or MIN:MAX"):
        parse_actors(text)


def test_a_cluster_too_small_for_all_stages_is_refused_before_it_hangs() -> None:
    with pytest.raises(ConfigError, match="offers 1 CPUs; allowed: 2 or more"):
        plan_resources(SMALL_MODELS, {"CPU": 1.0})
