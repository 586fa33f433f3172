"""A model's name -> its folder on this machine, and the identity of its weights.

A name is ``package:smollm2``, a folder, or a hub name. The identity says what the weights *are*,
not where they lie or what runs them, so that two machines or two back ends with one model share a
fingerprint.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glong.errors import ConfigError, ModelError
from glong.ids import text_hash
from glong.models.extras import extra
from glong.models.shipped import MANIFEST, checked_folder, folder_of, is_shipped, verify_if_listed
from glong.models.smollm2 import gguf_file, gguf_sha256, smollm2_folder

__all__ = [
    "SMOLLM2",
    "generator_fingerprint",
    "model_folder",
    "own_weights",
    "weights_identity",
    "without_bars",
]

SMOLLM2 = "package:smollm2"

_HUB_NAME = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*")
_N_SAMPLES, _SAMPLE_BYTES = 256, 4096
"""Parts of a weight file that are hashed: 1 MiB of it. Its beginning alone would not do: a merged
adapter leaves the embeddings, which come first, as they were."""
_SETTINGS = ("config.json", "adapter_config.json", "model.safetensors.index.json")
_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]


def model_folder(name: str) -> Path:
    """The folder of a model or adapter; converts a package or downloads from the hub where needed.

    Raises:
        ConfigError: no such package or folder.
        ModelError: the hub has no such model or cannot be reached; a file of a folder with
            ``SHA256SUMS`` is not what that says.
    """
    if name == SMOLLM2:
        return smollm2_folder()
    if is_shipped(name):
        return checked_folder(name)
    if Path(name).is_dir():
        return verify_if_listed(Path(name))
    _check_hub_name(name)
    with extra("models"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=_WANTED))
    except (HfHubHTTPError, LocalEntryNotFoundError, ValueError, OSError) as error:
        raise _no_model(name, error) from error


def weights_identity(name: str) -> str:
    """What the weights are, without loading them.

    A package: the hash of its file, or of its manifest. A folder: the hash of its settings and, of
    each weight file, its name, its size and 1 MiB of samples; renaming the folder changes nothing.
    A hub name: the name and the commit.

    Raises:
        ConfigError: no such package or folder.
        ModelError: the hub is asked for the commit and does not answer.
    """
    if name == SMOLLM2:
        return gguf_sha256(gguf_file())
    if is_shipped(name):
        return text_hash("shipped", (folder_of(name) / MANIFEST).read_text(encoding="utf-8"))
    if Path(name).is_dir():
        return _folder_hash(Path(name))
    _check_hub_name(name)
    return f"{name}@{_commit(name)}"


def generator_fingerprint(model: str, adapter: str = "", quantization: str = "none") -> str:
    """Identity of a local language model: its weights, its adapter's, its quantization."""
    adapted = weights_identity(adapter) if adapter else ""
    return text_hash("generator", weights_identity(model), adapted, quantization)


@contextmanager
def without_bars() -> Iterator[None]:
    """Around loading or writing a small model, whose bar would stay in the output of every command.

    Downloads keep theirs.
    """
    from transformers.utils import logging

    before = logging.set_tqdm_hook(lambda make, args, how: make(*args, **how | {"disable": True}))
    try:
        yield
    finally:
        logging.set_tqdm_hook(before)


def own_weights(model: Any) -> None:
    """Copy a torch model's weights from the mapped file into memory; tied ones stay tied.

    safetensors leaves them in the file's pages, unaligned: a step of SmolLM2 took 1.2 s so, and
    0.1 s after the copy.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()


def _check_hub_name(name: str) -> None:
    """A name that is no folder here must be one that the hub could have."""
    if not _HUB_NAME.fullmatch(name):
        raise ConfigError(
            f"model is {name!r}, and there is no such folder; allowed: {SMOLLM2}, a folder that"
            " has the weights, or a hub name (owner/name)."
        )


def _folder_hash(folder: Path) -> str:
    return text_hash("folder", *_folder_parts(folder))


def _folder_parts(folder: Path) -> Iterator[str]:
    for name in _SETTINGS:
        if (folder / name).is_file():
            yield (folder / name).read_text(encoding="utf-8")
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        yield f"{path.name} {path.stat().st_size} {_samples(path).hex()}"


def _samples(path: Path) -> bytes:
    """Evenly spaced parts of a file; all of a small one."""
    step = max(_SAMPLE_BYTES, path.stat().st_size // _N_SAMPLES)
    with path.open("rb") as file:
        starts = range(0, path.stat().st_size, step)
        return b"".join(os.pread(file.fileno(), _SAMPLE_BYTES, start) for start in starts)


def _commit(name: str) -> str:
    """The commit of a hub model: the cached one, else the hub's newest."""
    with extra("models"):
        from huggingface_hub import model_info, try_to_load_from_cache
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    for settings in _SETTINGS[:2]:
        cached = try_to_load_from_cache(name, settings)
        if isinstance(cached, str):
            return Path(cached).parent.name
    try:
        return model_info(name).sha or ""
    except (HfHubHTTPError, OfflineModeIsEnabled, ValueError, OSError) as error:
        raise _no_model(name, error) from error


def _no_model(name: str, error: Exception) -> ModelError:
    return ModelError(
        f"model {name!r} is neither a folder here nor found on the hub: {error}".splitlines()[0],
        hint="Check the name; without a network give the path of a folder that has the weights.",
    )
