"""The tagger's targets, loss and loop on a network of one layer."""

import json
import shutil
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from glong.errors import ConfigError  # noqa: E402
from glong.models.tagger_net import TaggerNet  # noqa: E402
from glong.training.examples import Fact, LabelledDialogue, LabelledTurn, Mention  # noqa: E402
from jobs.tagger.loop import Look, Loop, Settings  # noqa: E402
from jobs.tagger.loss import batch_loss  # noqa: E402
from jobs.tagger.targets import OPEN, UNKNOWN, examples, relation_classes  # noqa: E402
from jobs.train_tagger import _Asked, _known, main  # noqa: E402
from jobs.training import spread  # noqa: E402
from tests.glong.models.test_tagger_net import Tokens  # noqa: E402

CLASSES = (OPEN, "have_pet", "dislike")


def turn(text, *facts, is_complete=True):
    return LabelledTurn("A", text, facts, is_complete)


def dialogue(*turns):
    return LabelledDialogue("made", turns)


PET = Fact(None, "have_pet", Mention((2, 4)), Mention((1, 2)))
WORK = Fact(Mention((0, 2)), "work_at", Mention((4, 5)), Mention((2, 4)))
DIALOGUES = [
    dialogue(turn("i have two dogs", PET), turn("my sister works at nasa", WORK)),
    dialogue(turn("do you like tea ?"), turn("no", Fact(None, "dislike", Mention((3, 4), 1)))),
    dialogue(turn("i have two dogs and a cat", PET, is_complete=False)),
    dialogue(turn("hello there")),
]


def net(seed=0):
    from transformers import BertConfig, BertModel

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32,
    )  # fmt: skip
    return TaggerNet(BertModel(config, add_pooling_layer=False), 32, len(CLASSES), 0.1)


@pytest.fixture(scope="module")
def learnt():
    return examples(DIALOGUES, CLASSES, Tokens())


def test_words_are_numbered_through_the_turn_before(learnt):
    (target,) = learnt[1].targets
    assert (target.first, target.last, target.relation) == (8, 8, 0)
    assert (target.subject, target.trigger) == ((5, 6), (7, 8))
    (answer,) = learnt[3].targets
    assert (answer.first, answer.last, answer.is_denied) == (3, 3, 1)
    assert (answer.subject, answer.trigger) == ((0, 0), (UNKNOWN, UNKNOWN))


def test_a_turn_without_facts_is_learnt_and_one_of_unknown_facts_is_not(learnt):
    assert len(learnt) == 6
    assert not learnt[2].targets and learnt[2].is_complete  # noqa: PT018
    nothing = dialogue(turn("who knows", is_complete=False))
    assert examples([nothing], CLASSES, Tokens()) == []


def test_an_open_relation_without_its_verb_cannot_be_said():
    fact = Fact(None, "work_at", Mention((0, 1)))
    (one,) = examples([dialogue(turn("nasa", fact), turn("well"))], CLASSES, Tokens())
    assert len(one.pieces.first) == 2  # only the second turn is learnt, read after the first


def test_only_relations_with_enough_labels_are_classes():
    assert relation_classes(DIALOGUES * 8) == (OPEN, "dislike", "have_pet")
    assert relation_classes(DIALOGUES) == (OPEN,)


def test_other_words_of_an_incomplete_turn_are_no_mistake(learnt):
    network = net().eval()
    (known,) = [one for one in learnt if not one.is_complete]
    words = [p for name, p in network.named_parameters() if name == "width"]
    loss = batch_loss(network, [known], 0)
    (gradient,) = torch.autograd.grad(loss, words)
    # Spans of up to 4 words overlap "two dogs" within the turn; the widest could not.
    assert gradient[0] != 0
    complete = batch_loss(network, [type(known)(known.pieces, known.targets, True)], 0)
    assert complete > loss


def train(path, learnt, steps=None, seed=5):
    loop = Loop(net(), learnt, Settings(epochs=20, batch_pieces=40, seed=seed), 0)
    if path.exists():
        loop.resume(path)
    for step in loop.run():
        if step == steps:
            break
    loop.save(path)
    return loop


def test_training_lowers_the_loss_and_one_seed_repeats_it(learnt, tmp_path):
    one = train(tmp_path / "a.pt", learnt)
    assert one.losses == train(tmp_path / "b.pt", learnt).losses
    assert sum(one.losses[-10:]) < sum(one.losses[:10])
    assert one.losses != train(tmp_path / "c.pt", learnt, seed=6).losses


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(learnt, tmp_path):
    whole = train(tmp_path / "whole.pt", learnt)
    train(tmp_path / "parts.pt", learnt, steps=17)
    parts = train(tmp_path / "parts.pt", learnt)
    assert parts.losses == whole.losses
    for left, right in zip(whole.net.parameters(), parts.net.parameters(), strict=True):
        assert torch.equal(left, right)


def test_scores_on_the_way_survive_a_stop(learnt, tmp_path):
    loop = Loop(net(), learnt, Settings(epochs=20, batch_pieces=40, seed=5), 0)
    loop.looks.append(Look(3, {"made": {"recall": 0.5}}))
    loop.save(tmp_path / "a.pt")
    other = Loop(net(), learnt, Settings(epochs=20, batch_pieces=40, seed=5), 0)
    other.resume(tmp_path / "a.pt")
    assert other.looks == loop.looks


@pytest.mark.slow
def test_the_job_from_data_to_card_stopped_and_whole(data, tmp_path):
    fixed = ("--composed", "8", "--epochs", "1", "--teacher-epochs", "1", "--threads", "1")
    fixed += ("--batch-pieces", "300")

    def run(out, *options):
        summary = tmp_path / "summary.json"
        argv = ["--data", str(data), "--out", str(out), "--summary", str(summary)]
        assert main([*argv, *fixed, *options]) == 0
        return json.loads(summary.read_text())

    whole = run(tmp_path / "whole")
    runs = [run(tmp_path / "parts", "--minutes", ".05")]
    while not runs[-1]["finished"]:
        runs.append(run(tmp_path / "parts", "--minutes", ".05"))
    assert len(runs) > 1
    assert runs[-1] == whole
    one, other = tmp_path / "whole/export", tmp_path / "parts/export"
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    card = (one / "MODEL_CARD.md").read_text()
    assert card == (other / "MODEL_CARD.md").read_text()
    steps = [line for line in card.splitlines() if line.startswith("| set | measure |")]
    assert [line.count("| step ") for line in steps] == [4]
    assert (tmp_path / "whole/losses.png").stat().st_size > 10_000
    assert "non-commercial" not in card

    (tmp_path / "research").mkdir()
    for name in ("teacher.pt", "believed.pt"):
        shutil.copy(tmp_path / "whole" / name, tmp_path / "research")
    assert run(tmp_path / "research", "--sources", "research", "--start", str(one))["finished"]
    card = (tmp_path / "research/export/MODEL_CARD.md").read_text()
    assert "For non-commercial research only" in card
    assert "dialogre 1 turns, 1 facts" in card


def test_a_checkpoint_of_other_settings_is_refused(learnt, tmp_path):
    train(tmp_path / "a.pt", learnt, steps=3)
    with pytest.raises(ConfigError, match="seed = 5"):
        train(tmp_path / "a.pt", learnt, seed=6)
    other = [replace(learnt[0], is_complete=False), *learnt[1:]]
    with pytest.raises(ConfigError, match="data = "):
        train(tmp_path / "a.pt", other)


def test_a_limit_takes_from_every_source():
    assert spread(list(range(10)), 4) == [0, 2, 5, 7]
    assert spread([1, 2], 5) == spread([1, 2], 0) == [1, 2]


def test_a_start_that_is_no_tagger_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"has no config\.json; allowed: the export"):
        _known(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"classes": ["", "have_pet"]}))
    assert _known(tmp_path) == ("", "have_pet")


def test_answers_about_other_facts_are_refused(tmp_path):
    torch.save([torch.zeros(3, len(CLASSES))], tmp_path / "believed.pt")
    asked = _Asked(None, CLASSES, None, tmp_path / "believed.pt")
    with pytest.raises(ConfigError, match="answers about the same data"):
        asked([("i have two dogs", PET)])
