"""Models of our own that lie inside the package: name -> folder, checked by hash before use.

A name is ``package:glong-NAME``; its folder is ``glong/models/trained/NAME``. The folder's manifest
``SHA256SUMS`` has the form of the program ``sha256sum``, one line a file, so that
``sha256sum --check SHA256SUMS`` says the same as :func:`verify`. Knows nothing of what is in the
files.
"""

import re
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path

from glong.errors import ConfigError, ModelError

__all__ = [
    "MANIFEST",
    "checked_folder",
    "folder_of",
    "is_shipped",
    "verify",
    "verify_if_listed",
    "write_manifest",
]

MANIFEST = "SHA256SUMS"
_PREFIX = "package:glong-"
_TRAINED = Path(__file__).with_name("trained")
_LINE = re.compile(r"([0-9a-f]{64}) [ *](\S.*)")
_REINSTALL = "Install glong again, or train the model anew; never edit a shipped file by hand."


def is_shipped(name: str) -> bool:
    """Whether a model's name asks for one that lies inside the package."""
    return name.startswith(_PREFIX)


def checked_folder(name: str) -> Path:
    """The folder of a shipped model whose files are what its manifest says.

    Raises:
        ConfigError: the package has no such model.
        ModelError: a file is missing, was changed, or is not in the manifest.
    """
    folder = folder_of(name)
    verify(folder)
    return folder


def folder_of(name: str) -> Path:
    """The folder of a shipped model, unchecked.

    Raises:
        ConfigError: the package has no such model.
    """
    there = sorted(path.parent.name for path in _TRAINED.glob(f"*/{MANIFEST}"))
    found = name.removeprefix(_PREFIX)
    if not is_shipped(name) or found not in there:
        allowed = ", ".join(f"{_PREFIX}{one}" for one in there) or "none in this installation"
        raise ConfigError(
            f"model is {name!r}, which does not lie in the package; allowed: {allowed}. "
            "Name one of these, or the folder of a trained model."
        )
    return _TRAINED / found


def verify_if_listed(folder: Path) -> Path:
    """The folder, its files compared if it has a manifest: those of our training jobs do.

    Raises:
        ModelError: as :func:`verify`.
    """
    if (folder / MANIFEST).is_file():
        verify(folder)
    return folder


def verify(folder: Path) -> None:
    """Compare every file of a folder with its manifest; texts for people (``*.md``) are left out.

    Raises:
        ModelError: there is no manifest or it cannot be read; a file is missing, was changed, or is
            not in the manifest.
    """
    listed = _read_manifest(folder)
    present = {path.name for path in _files(folder)}
    for file in sorted(listed.keys() | present):
        if file not in present:
            raise ModelError(f"{folder / file} is missing: {MANIFEST} lists it.", hint=_REINSTALL)
        if file not in listed:
            raise ModelError(
                f"{folder / file} is not in {MANIFEST}; allowed: only the files that it lists.",
                hint=_REINSTALL,
            )
        found = _sha256(folder / file)
        if found != listed[file]:
            raise ModelError(
                f"{folder / file} has the SHA-256 {found}; {MANIFEST} says {listed[file]}.",
                hint=_REINSTALL,
            )


def write_manifest(folder: Path) -> Path:
    """List the SHA-256 of every file of a folder; the last step of an export.

    Returns:
        The manifest's path.
    """
    lines = [f"{_sha256(path)}  {path.name}\n" for path in _files(folder)]
    path = folder / MANIFEST
    made = path.with_name(f"{MANIFEST}.tmp")
    made.write_text("".join(lines), encoding="utf-8")
    made.rename(path)
    return path


def _read_manifest(folder: Path) -> dict[str, str]:
    """File name -> SHA-256."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ModelError(f"{path} is missing.", hint=_REINSTALL)
    listed = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        found = _LINE.fullmatch(line)
        if not found:
            raise ModelError(
                f"{path} has the line {line[:100]!r}; allowed: a SHA-256, two spaces, a file name.",
                hint=_REINSTALL,
            )
        listed[found[2]] = found[1]
    return listed


def _files(folder: Path) -> Iterator[Path]:
    """What a manifest covers, by name."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix != ".md" and path.name not in (MANIFEST, ".gitignore"):
            yield path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
