"""A full disk: the job ends with an error, the store stays readable, the job can go on later."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.builds import Bench, Tables, assert_same, assert_sound, tables_of

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory that holds about half of the store."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not permitted here; run as root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("writer", ["driver", "workers"])
def test_a_full_disk_stops_the_job_and_leaves_the_store_readable(
    bench: Bench, reference: Tables, tmp_path: Path, small_disk: Path, writer: str
) -> None:
    store = small_disk / "store"
    with bench.build(store, "--writer", writer) as job:
        assert job.wait() == 3, job.output()
    assert "No space left" in job.output()
    assert "Traceback" not in job.output()
    assert 0 < assert_sound(store, tmp_path / "full", reference) < bench.n_sessions
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    bench.finish(store, "--writer", writer)
    assert_same(tables_of(store, tmp_path / "rows"), reference)
