import shutil

import pytest

from glong.errors import ConfigError, ModelError
from glong.models.weights import generator_fingerprint, model_folder, own_weights, weights_identity


def test_a_folder_is_known_by_its_content_and_not_its_path(tiny_qwen3, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_qwen3, copy)
    assert weights_identity(str(copy)) == weights_identity(str(tiny_qwen3))
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\1\2\3")
    assert weights_identity(str(copy)) != weights_identity(str(tiny_qwen3))


def test_a_cached_hub_model_is_known_by_its_commit(monkeypatch, tmp_path):
    import huggingface_hub

    cached = tmp_path / "snapshots" / "abc123" / "config.json"
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, file: str(cached))
    assert weights_identity("owner/model") == "owner/model@abc123"


def test_adapter_and_quantization_are_part_of_the_identity(tiny_qwen3, tiny_adapter):
    model = str(tiny_qwen3)
    prints = {
        generator_fingerprint(model),
        generator_fingerprint(model, str(tiny_adapter)),
        generator_fingerprint(model, "", "nf4"),
    }
    assert len(prints) == 3


def test_what_cannot_be_found_says_what_to_check(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for ask in (model_folder, weights_identity):
        with pytest.raises(ModelError, match="no-such/model"):
            ask("no-such/model")
        for name in ("package:other", "/no/such/folder", "./lora/model", "a/b/c"):
            with pytest.raises(ConfigError, match=f"'{name}', and there is no such folder"):
                ask(name)


def test_owned_weights_are_the_same_and_tied_ones_stay_tied():
    torch = pytest.importorskip("torch")
    model = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)])
    model[1].weight = model[0].weight
    before, place = model[0].weight.detach().clone(), model[0].weight.data_ptr()
    own_weights(model)
    assert (model[0].weight == before).all()
    assert model[0].weight is model[1].weight
    assert model[0].weight.data_ptr() != place
