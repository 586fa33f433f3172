"""A browser at the memory viewer: sizes, pictures, and what must never happen there."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

__all__ = [
    "CHROMIUM",
    "KEY",
    "NARROW",
    "SIZES",
    "WIDE",
    "Open",
    "Page",
    "check_address",
    "is_bug",
    "picture",
]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
KEY = "key-a"
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 375, "height": 780}
SIZES = pytest.mark.parametrize(("size", "tag"), [(WIDE, "wide"), (NARROW, "narrow")])
Page = Any
Open = Callable[..., Page]


def is_bug(said: Any) -> bool:
    return said.type in ("error", "warning") and "Failed to load resource" not in said.text


def check_address(asked: str, url: str, problems: list[str]) -> None:
    if not asked.startswith(url):
        problems.append(f"asked elsewhere: {asked}")


def picture(page: Page, name: str) -> None:
    """Keep a screenshot, if that is wished; nothing may stick out sideways in any case."""
    page.wait_for_timeout(150)  # labels settle after the last move
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{name} is {wide} px too wide"
    if folder := os.environ.get("GLONG_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/{name}.png")
