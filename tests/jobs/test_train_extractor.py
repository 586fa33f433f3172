"""The fine-tuning of the extractor's language model, on a model of two layers and made-up data."""

import json
import random
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from glong.config import ExtractorSpec, load_models_config  # noqa: E402
from glong.errors import ConfigError  # noqa: E402
from glong.extraction import Window  # noqa: E402
from glong.models.load import load_extractor  # noqa: E402
from glong.models.rendering import render  # noqa: E402
from glong.models.shipped import verify  # noqa: E402
from glong.models.transformers import TransformersGenerator  # noqa: E402
from glong.parsing import parse_answer  # noqa: E402
from glong.types import Triplet, Turn  # noqa: E402
from jobs.extractor.batches import IGNORED, collate, encode, shared_prefix  # noqa: E402
from jobs.extractor.data import Lesson, draw, lessons, split  # noqa: E402
from jobs.extractor.model import answer_loss, load_base, new_adapter, trained  # noqa: E402
from jobs.train_extractor import main  # noqa: E402
from tests.glong.models.conftest import byte_tokenizer  # noqa: E402
from tests.jobs.conftest import PERSONA  # noqa: E402

SPEC = ExtractorSpec(backend="transformers", model="tiny", window_turns=2)


@pytest.fixture(scope="module")
def tiny_llama(tmp_path_factory):
    """Folder of a two-layer Llama over bytes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=272,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=None,
    )
    folder = tmp_path_factory.mktemp("tiny_llama")
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def lesson(texts, triplets=(), context=()):
    turns = tuple(Turn(i, "Ana", text) for i, text in enumerate(texts))
    before = tuple(Turn(i, "Ben", text) for i, text in enumerate(context))
    return Lesson("msc", Window(turns, before), tuple(triplets))


LESSONS = [
    lesson(["I have a dog.", "Hi."], [Triplet("I", "have_pet", "a dog", 0)], ["Hello."]),
    lesson(["I like tea and pizza, and my name is Ana."], [Triplet("I", "like", "tea", 0)] * 2),
    lesson(["Good morning!"]),
]


@pytest.fixture(scope="module")
def examples():
    return encode(LESSONS, byte_tokenizer(), SPEC)


def test_a_lesson_is_the_prompt_of_inference_and_an_answer_that_is_read_back(examples):
    tokenizer = byte_tokenizer()
    for one, example in zip(LESSONS, examples, strict=True):
        assert list(example.prompt) == render(tokenizer, one.request(SPEC))
        assert example.answer[-1] == tokenizer.eos_token_id
        read, failures = parse_answer(tokenizer.decode(example.answer[:-1]), one.window.turns)
        assert not failures
        assert read == tuple(dict.fromkeys(one.triplets))


def test_the_beginning_that_prompts_share_ends_where_they_differ(examples):
    prefix = shared_prefix(examples)
    assert all(example.prompt[: len(prefix)] == prefix for example in examples)
    assert len({example.prompt[len(prefix)] for example in examples}) > 1
    assert len(shared_prefix(examples[:1])) == len(examples[0].prompt) - 1


def test_a_batch_ends_with_its_answers(examples):
    batch = collate(examples, n_prefix=10, pad_id=0)
    for row, example in enumerate(examples):
        n = len(example.answer)
        assert tuple(batch.ids[row, -n:]) == tuple(batch.labels[row, -n:]) == example.answer
        assert batch.mask[row].sum() == example.n_tokens - 10
    assert (batch.labels == IGNORED).any()


def test_the_loss_is_that_of_each_answer_read_alone(tiny_llama, examples):
    base, tokenizer = load_base(str(tiny_llama), "none")
    model = new_adapter(base, 4, 8, seed=0)
    total = 0.0
    for example in examples:
        ids = torch.tensor([example.prompt + example.answer])
        logits = model(input_ids=ids).logits[0, len(example.prompt) - 1 : -1].detach()
        total += float(
            torch.nn.functional.cross_entropy(logits, torch.tensor(example.answer), reduction="sum")
        )
    alone = total / sum(len(example.answer) for example in examples)
    grads = []
    for prefix in (shared_prefix(examples), ()):
        model.zero_grad()
        batch = collate(examples, len(prefix), tokenizer.eos_token_id)
        loss = answer_loss(model, prefix)(batch)
        loss.backward()
        assert float(loss.detach()) == pytest.approx(alone, abs=1e-5)
        grads.append(torch.cat([p.grad.flatten() for p in trained(model).values()]))
    assert grads[0].abs().max() > 0
    assert torch.allclose(grads[0], grads[1], atol=1e-6)


def test_gradient_checkpointing_gives_the_same_loss(tiny_llama, examples):
    base, tokenizer = load_base(str(tiny_llama), "none")
    model = new_adapter(base, 4, 8, seed=0)
    prefix = shared_prefix(examples)
    loss = answer_loss(model, prefix)
    batch = collate(examples, len(prefix), tokenizer.eos_token_id)
    before = float(loss(batch).detach())
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    after = loss(batch)
    after.backward()
    assert float(after.detach()) == pytest.approx(before, abs=1e-5)


def test_only_the_adapter_learns_and_its_weights_come_from_the_seed(tiny_llama):
    def weights(seed):
        model = new_adapter(load_base(str(tiny_llama), "none")[0], 4, 8, seed)
        assert all("lora_" in name for name in trained(model))
        return torch.cat([p.detach().flatten() for p in trained(model).values()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_windows_without_facts_keep_to_their_share():
    found = [replace(LESSONS[0], source=str(n)) for n in range(30)] + [LESSONS[2]] * 70
    drawn = draw(found, 0, 0.25, random.Random(0))
    assert (len(drawn), sum(not one.triplets for one in drawn)) == (40, 10)
    drawn = draw(found, 20, 0.25, random.Random(0))
    assert (len(drawn), sum(not one.triplets for one in drawn)) == (20, 5)
    assert drawn == draw(found, 20, 0.25, random.Random(0))
    assert not [one for one in draw(found, 0, 0.0, random.Random(0)) if not one.triplets]
    assert len(draw(found, 0, 1.0, random.Random(0))) == 100
    drawn = draw(found, 20, 1.0, random.Random(0))
    assert sum(not one.triplets for one in drawn) == 14  # as many of all: 70 of 100


def test_lessons_are_cut_as_inference_cuts_and_held_out_by_their_words(data, tmp_path):
    found = lessons(data, None, tmp_path, SPEC, n_composed=4, seed=0)
    assert {one.source for one in found} == {
        "personaext",
        "msc",
        "synthetic",
        "persona",
        "composed",
    }
    first = next(one for one in found if one.source == "msc")
    assert [turn.text for turn in first.window.turns] == [f"{text} valid" for text in PERSONA[:2]]
    assert {(t.relation, t.object) for t in first.triplets} >= {("have", "dog")}
    assert len({one.window for one in found}) == len(found)
    assert lessons(data, None, tmp_path, SPEC, n_composed=4, seed=0) == found
    learnt, looks = split(found)
    assert looks
    assert not {one.window for one in learnt} & {one.window for one in looks}


def test_kept_answers_of_a_teacher_name_relations(data, tmp_path):
    from glong.training.datasets import persona_dialogues, training_dialogues
    from jobs.tagger.targets import relation_classes

    classes = relation_classes(persona_dialogues(data))
    asked = []

    def teacher(pairs):
        sure = [0.0 if name != "have_pet" else 1.0 for name in classes]
        asked.append(torch.tensor([sure] * len(pairs)).view(-1, len(classes)))
        return [dict(zip(classes, sure, strict=True)) for _ in pairs]

    training_dialogues(data, teacher, n_composed=2, seed=0)
    torch.save(asked, tmp_path / "believed.pt")
    found = lessons(data, tmp_path, tmp_path, SPEC, n_composed=2, seed=0)
    stated = {(t.relation, t.object) for one in found for t in one.triplets}
    assert ("have_pet", "dog") in stated
    torch.save([asked[0][:-1], *asked[1:]], tmp_path / "believed.pt")
    with pytest.raises(ConfigError, match="answers about the same data"):
        lessons(data, tmp_path, tmp_path, SPEC, n_composed=2, seed=0)
    (tmp_path / "believed.pt").unlink()
    with pytest.raises(ConfigError, match="verbs"):
        lessons(data, tmp_path, tmp_path, SPEC, n_composed=2, seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rank", "0"], "--rank is 0; allowed: 1 or more"),
        (["--negative-share", "1.5"], "allowed: 0 to 1"),
        (["--minutes", "nan"], "--minutes is nan"),
        (["--relations", "nowhere"], "jobs/train_tagger.py"),
        (["--evaluate-only", "nowhere"], "a model's folder"),
        (["--data", "nowhere"], "not a folder"),
    ],
)
def test_a_wrong_option_is_said_before_any_work(data, tmp_path, capsys, options, message):
    argv = ["--data", str(data), "--out", str(tmp_path / "out"), *options]
    assert main(argv) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_paper_s_preset_says_what_it_needs(data, tmp_path, capsys):
    assert main(["--data", str(data), "--out", str(tmp_path / "out"), "--preset", "paper"]) == 2
    assert "--preset small" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def train(data, tiny_llama, tmp_path):
    """Runs the job into a folder below ``tmp_path``; returns that folder."""

    def run(out, *options):
        argv = [
            "--data", str(data), "--out", str(tmp_path / out), "--model", str(tiny_llama),
            "--window-turns", "2", "--composed", "6", "--batch-tokens", "600", "--rank", "4",
            "--max-windows", "24", "--eval-every", "4", "--checkpoint-every", "1",
            "--threads", "1", *options,
        ]  # fmt: skip
        assert main(argv) == 0
        return tmp_path / out

    return run


def losses(folder):
    return json.loads((folder / "losses.json").read_text())


@pytest.mark.slow
def test_a_run_can_be_repeated_and_a_stopped_one_goes_on_as_if_it_had_not(train, tmp_path):
    whole, again = train("whole"), train("again")
    assert len(losses(whole)) > 4
    assert losses(whole) == losses(again)
    weights = "model/adapter_model.safetensors"
    assert (whole / weights).read_bytes() == (again / weights).read_bytes()

    train("parts", "--minutes", "1e-9")
    assert losses(tmp_path / "parts") == losses(whole)[:1]
    parts = train("parts")
    assert losses(parts) == losses(whole)
    assert (whole / weights).read_bytes() == (parts / weights).read_bytes()
    assert not list((parts / "work").glob("*.tmp"))
    with pytest.raises(AssertionError):
        train("parts", "--learning-rate", "1e-3")


@pytest.mark.slow
def test_what_a_run_writes(train, tiny_llama, data):
    out = train("out", "--eval-cases", "2")
    folder = out / "model"
    verify(folder)
    settings = json.loads((folder / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == str(tiny_llama)
    assert "q_proj" in settings["target_modules"]
    assert settings["target_modules"] == sorted(settings["target_modules"])
    assert (out / "losses.png").read_bytes().startswith(b"\x89PNG")
    looks = json.loads((out / "extractor.json").read_text())["looks"]
    assert looks[-1]["loss"] < looks[0]["loss"]
    assert 0 <= looks[-1]["soft_f1"] <= 1
    card = (folder / "MODEL_CARD.md").read_text()
    assert "none stated. Its paper says more." in card
    assert "| soft f1 |" in card
    assert "--max-windows 24" in card

    spec = ExtractorSpec(backend="transformers", model=str(tiny_llama), adapter=str(folder))
    assert TransformersGenerator.load(spec).fingerprint
    train("judged", "--evaluate-only", str(folder), "--window-turns", "8", "--seed", "3")
    judged = json.loads((out.parent / "judged/extractor.json").read_text())["looks"]
    assert judged[0]["loss"] == pytest.approx(looks[-1]["loss"], abs=2e-3)  # float16
    assert (folder / "MODEL_CARD.md").read_text() == card
    argv = ["--data", str(data), "--out", str(out), "--evaluate-only", str(folder)]
    assert main([*argv, "--relations", str(out)]) == 2

    models = load_models_config(str(out / "models.toml"))
    assert (models.extractor.window_turns, models.extractor.context_turns) == (2, 2)
    assert load_extractor(models.extractor).fingerprint
    assert folder.joinpath("adapter_model.safetensors").stat().st_mode & 0o777 == 0o644
