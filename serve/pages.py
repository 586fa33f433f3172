"""The memory viewer's files: a fixed list, so that no path can name another file.

They hold no data and can be read without a key; what they show is asked of the API with one.
"""

from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

from serve.errors import NOT_FOUND, ProblemError

__all__ = ["POLICY", "is_page", "router"]

_FOLDER = Path(__file__).parent / "viewer"
_SCRIPT = "text/javascript"
_TYPES: Mapping[str, str] = {
    "api.js": _SCRIPT,
    "app.js": _SCRIPT,
    "ask.js": _SCRIPT,
    "cytoscape-3.35.0.min.js": _SCRIPT,
    "cytoscape.LICENSE.txt": "text/plain",
    "dom.js": _SCRIPT,
    "facts.js": _SCRIPT,
    "forget.js": _SCRIPT,
    "graph.js": _SCRIPT,
    "icon.svg": "image/svg+xml",
    "picture.js": _SCRIPT,
    "sessions.js": _SCRIPT,
    "style.css": "text/css",
}
POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""Scripts, styles and requests of this service only: what people said can never run or leave."""
_PREFIX = "/viewer/"

router = APIRouter(include_in_schema=False)


def is_page(path: str) -> bool:
    """Whether a path is one of the viewer's own."""
    return path == "/" or (path.removeprefix(_PREFIX) in _TYPES and path.startswith(_PREFIX))


@router.get("/")
async def viewer() -> FileResponse:
    """The memory viewer."""
    return _file("index.html", "text/html", "no-cache")


@router.get("/viewer/{name}")
async def viewer_asset(name: str) -> FileResponse:
    """A file of the viewer."""
    if name not in _TYPES:
        raise ProblemError(NOT_FOUND)
    # The library's name has its version in it; ours change under the same name.
    kept = "max-age=86400" if name.startswith("cytoscape") else "no-cache"
    return _file(name, _TYPES[name], kept)


def _file(name: str, kind: str, kept: str) -> FileResponse:
    headers = {
        "Content-Security-Policy": POLICY,
        "Cache-Control": kept,
        "Referrer-Policy": "no-referrer",
    }
    return FileResponse(_FOLDER / name, headers=headers, media_type=kind)
