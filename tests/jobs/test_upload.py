"""What a submitted job takes along: the package with its models, and little else."""

from pathlib import Path

import pytest

from glong.models.shipped import MANIFEST

packaging = pytest.importorskip("ray._private.runtime_env.packaging", reason="ray is not there")

ROOT = Path(__file__).parents[2]


def is_left_out(path: str) -> bool:
    ignored = packaging.get_excludes_from_ignore_files(ROOT, include_gitignore=True)
    return any(match(ROOT / path) for match in ignored)


def test_shipped_models_travel_with_everything_that_their_manifest_lists() -> None:
    manifests = sorted((ROOT / "glong/models/trained").glob(f"*/{MANIFEST}"))
    assert manifests
    for manifest in manifests:
        lines = manifest.read_text(encoding="utf-8").splitlines()
        for name in (MANIFEST, *(line.split()[1] for line in lines)):
            path = str((manifest.parent / name).relative_to(ROOT))
            assert not is_left_out(path), path


@pytest.mark.parametrize(
    "path",
    ["tests/conftest.py", "model.safetensors", "notebooks/a.ipynb", ".scratch/s/edges.lance/x"],
)
def test_tests_stores_and_models_of_ones_own_stay(path: str) -> None:
    assert is_left_out(path)
