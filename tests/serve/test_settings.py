import os

import pytest

from glong.errors import ConfigError
from serve.settings import settings_from


def test_paths_are_absolute_and_object_stores_stay() -> None:
    settings = settings_from({"GLONG_STORE": "memory", "GLONG_MODELS": "fake"})
    assert settings.store == os.path.abspath("memory")
    assert (settings.models, settings.keys_file) == ("fake", "")
    assert settings_from({"GLONG_STORE": "s3://b/m"}).store == "s3://b/m"
    assert settings_from({"GLONG_STORE": "s3://b/m"}).models == "small"


def test_bounds_come_from_the_environment() -> None:
    environ = {"GLONG_STORE": "m", "GLONG_CACHE_GRAPHS": "7", "GLONG_CACHE_MB": "1.5"}
    settings = settings_from(environ)
    assert (settings.max_graphs, settings.max_graph_mb) == (7, 1.5)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "GLONG_STORE is not set"),
        ({"GLONG_STORE": "m", "GLONG_MODELS": "best"}, "models is 'best'"),
        ({"GLONG_STORE": "m", "GLONG_CACHE_GRAPHS": "many"}, "GLONG_CACHE_GRAPHS is 'many'"),
        ({"GLONG_STORE": "m", "GLONG_CACHE_GRAPHS": "0"}, "max_graphs is 0"),
        ({"GLONG_STORE": "m", "GLONG_TIMEOUT_S": "nan"}, "GLONG_TIMEOUT_S is 'nan'"),
    ],
)
def test_bad_settings_are_found_before_anything_starts(
    environ: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        settings_from(environ)
