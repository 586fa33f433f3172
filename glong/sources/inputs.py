"""What the user named as input -> the files to read.

Knows names only: local paths, and object stores through ``pyarrow.fs``. Opens nothing but folders.
"""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from glong.errors import SourceError

__all__ = ["SUFFIXES", "expand_inputs", "is_uri", "open_filesystem"]

COMPRESSIONS = ("", ".gz", ".xz", ".zst")
SUFFIXES = (*(f"{kind}{by}" for kind in (".json", ".jsonl") for by in COMPRESSIONS), ".parquet")
_ALLOWED = f"allowed suffixes: {', '.join(SUFFIXES)}"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_LOCAL_WILDCARDS = re.compile(r"[*?\[]")
_URI_WILDCARDS = re.compile(r"[*\[]")  # `?` begins a URI's query


def expand_inputs(inputs: Sequence[str]) -> list[str]:
    """The files behind files, folders (with all below them), globs and object-store URIs.

    A file that is named must have a supported suffix; of a folder or a glob those that have one are
    taken. Hidden files in folders are left out.

    Returns:
        Sorted paths and URIs, each file once, spelled as the input spelled it.

    Raises:
        SourceError: nothing matches, a suffix is not supported, or a path cannot be read.
    """
    found: dict[str, str] = {}
    for value in inputs:
        files = sorted(_in_store(value) if is_uri(value) else _local(value))
        if not files:
            raise SourceError(f"input {value!r} matches no file to read; {_ALLOWED}.")
        for file in files:
            found.setdefault(file if is_uri(file) else os.path.abspath(file), file)
    return sorted(found.values())


def is_uri(path: str) -> bool:
    """Whether a path names an object store or another file system by its scheme."""
    return _URI.match(path) is not None


def open_filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI and the path on it.

    Raises:
        SourceError: the scheme is not known or the store cannot be reached.
    """
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError) as error:
        allowed = "allowed: file://, s3://, gs://, abfs://, hdfs:// and a path that is URL-encoded"
        raise SourceError(f"input {uri!r} cannot be opened: {error}; {allowed}.") from error
    return filesystem, path


def _local(value: str) -> Iterable[str]:
    if os.path.isdir(value):
        return _walk(value)
    if os.path.exists(value):
        return [_readable(value)]
    if not _LOCAL_WILDCARDS.search(value):
        raise SourceError(
            f"input {value!r} does not exist; give a file, a folder, a glob or a URI."
        )
    matches = glob.glob(value, recursive=True)
    files = [path for path in matches if os.path.isfile(path) and _supported(path)]
    below = [file for path in matches if os.path.isdir(path) for file in _walk(path)]
    return {_readable(path) for path in files} | set(below)


def _walk(folder: str) -> Iterator[str]:
    for parent, _, names in os.walk(folder, onerror=_cannot_list):
        for name in names:
            if _supported(name) and not name.startswith("."):
                yield _readable(os.path.join(parent, name))


def _cannot_list(error: OSError) -> None:
    raise SourceError(f"folder {error.filename!r} cannot be listed: {error.strerror}.") from error


def _readable(path: str) -> str:
    if not _supported(path):
        raise SourceError(f"input {path!r} has a suffix that is not supported; {_ALLOWED}.")
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        raise SourceError(f"input {path!r} is no file that can be read; check it and its rights.")
    return path


def _supported(path: str) -> bool:
    return path.lower().endswith(SUFFIXES)


def _in_store(uri: str) -> list[str]:
    """The files of a URI; what is found below a folder is spelled as URI plus relative path."""
    address, mark, query = uri.partition("?")
    wildcard = _URI_WILDCARDS.search(address)
    base = address[: address.rindex("/", 0, wildcard.start())] if wildcard else address.rstrip("/")
    filesystem, root = open_filesystem(base + mark + query)
    try:
        info = filesystem.get_file_info(root)
        if info.type == fs.FileType.File:
            return [_named(uri, address)]
        if info.type == fs.FileType.NotFound:
            return []
        below = filesystem.get_file_info(fs.FileSelector(root, recursive=True))
    except OSError as error:
        raise SourceError(f"input {uri!r} cannot be listed: {error}.") from error
    names = [i.path[len(root) :].strip("/") for i in below if i.type == fs.FileType.File]
    pattern = address[len(base) + 1 :].split("/") if wildcard else ["**"]
    taken = [name for name in names if _supported(name) and _matches(name.split("/"), pattern)]
    return [f"{base}/{quote(name)}{mark}{query}" for name in taken]


def _named(uri: str, address: str) -> str:
    if not _supported(address):
        raise SourceError(f"input {uri!r} has a suffix that is not supported; {_ALLOWED}.")
    return uri


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Glob match by path segment; ``**`` is any number of segments, none that is hidden."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        rest = pattern[1:] or ["*"]
        starts = range(len(parts) + 1)
        return any(
            _matches(parts[i:], rest) for i in starts if not any(p[0] == "." for p in parts[:i])
        )
    return (
        bool(parts)
        and not (parts[0].startswith(".") and not pattern[0].startswith("."))
        and fnmatchcase(parts[0], pattern[0])
        and _matches(parts[1:], pattern[1:])
    )
