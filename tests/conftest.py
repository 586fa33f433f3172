"""Fixtures that every test may use."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data sets; a test that asks for it carries the marker ``data``."""
    path = Path(os.environ.get("GLONG_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"real data is not at {path}; set GLONG_DATA to its folder")
    return path
