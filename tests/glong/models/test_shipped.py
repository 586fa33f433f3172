import hashlib
from pathlib import Path

import pytest

from glong.errors import ConfigError, ModelError
from glong.models import shipped
from glong.models.shipped import (
    MANIFEST,
    checked_folder,
    folder_of,
    is_shipped,
    verify,
    verify_if_listed,
    write_manifest,
)
from glong.models.weights import model_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shipped model called ``package:glong-thing``."""
    monkeypatch.setattr(shipped, "_TRAINED", tmp_path)
    path = tmp_path / "thing"
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"weights")
    (path / "config.json").write_text("{}")
    (path / "MODEL_CARD.md").write_text("a card")
    write_manifest(path)
    return path


def test_the_manifest_has_the_form_of_sha256sum(folder: Path) -> None:
    digest = hashlib.sha256(b"weights").hexdigest()
    lines = (folder / MANIFEST).read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["config.json", "model.safetensors"]
    assert lines[1] == f"{digest}  model.safetensors"
    assert not list(folder.glob("*.tmp"))


def test_an_untouched_folder_is_given_out(folder: Path) -> None:
    assert checked_folder("package:glong-thing") == folder_of("package:glong-thing") == folder
    (folder / "MODEL_CARD.md").write_text("a text for people, which nothing loads")
    verify(folder)


def test_a_changed_file_is_named_with_both_hashes_and_what_to_do(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"Weights")
    with pytest.raises(ModelError, match=r"model\.safetensors has the SHA-256 .* says .*again"):
        checked_folder("package:glong-thing")


def test_a_trained_folder_is_checked_where_it_has_a_manifest(folder: Path) -> None:
    for check in (verify_if_listed, lambda path: model_folder(str(path))):
        assert check(folder) == folder
        kept = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(b"others")
        with pytest.raises(ModelError, match=r"model\.safetensors has the SHA-256"):
            check(folder)
        (folder / "model.safetensors").write_bytes(kept)
    (folder / MANIFEST).unlink()
    (folder / "model.safetensors").write_bytes(b"others")
    assert verify_if_listed(folder) == folder


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"config\.json is missing: SHA256SUMS lists it"):
        verify(folder)


def test_a_file_that_the_manifest_does_not_list_is_refused(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"other weights")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is not in SHA256SUMS"):
        verify(folder)


def test_a_broken_or_missing_manifest_is_refused(folder: Path) -> None:
    (folder / MANIFEST).write_text("abc  config.json\n")
    with pytest.raises(ModelError, match=r"'abc  config\.json'; allowed: a SHA-256"):
        verify(folder)
    (folder / MANIFEST).unlink()
    with pytest.raises(ModelError, match="SHA256SUMS is missing"):
        verify(folder)


@pytest.mark.parametrize("name", ["package:glong-other", "package:glong-../thing", "thing"])
def test_another_name_is_refused_with_what_is_there(folder: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"allowed: package:glong-thing\."):
        folder_of(name)


def test_only_names_of_the_package_are_shipped() -> None:
    assert is_shipped("package:glong-scorer")
    assert not is_shipped("package:smollm2")
    assert not is_shipped("glong-scorer")


def test_what_this_installation_carries_is_whole() -> None:
    for manifest in shipped._TRAINED.glob(f"*/{MANIFEST}"):
        verify(manifest.parent)
