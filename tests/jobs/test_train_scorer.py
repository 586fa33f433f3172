import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glong.config import ScorerSpec
from glong.models.shipped import verify
from glong.training.summaries import Pair
from glong.training.summary_sources import FILES, is_held_out
from glong.weighting import pool
from jobs.scorer.batches import (
    IGNORED,
    Limits,
    collate,
    encode_pairs,
    plan_epoch,
    with_other_prefixes,
)
from jobs.train_scorer import main

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

ROOT = Path(__file__).resolve().parents[2]
TINY = """
    --extractor fake --judged-extractor fake --encoder fake --vocabulary 64 --d-model 16 --layers 1
    --decoder-layers 1 --heads 2 --batch-tokens 300 --warmup-steps 2 --threads 1 --eval-every 4
    --checkpoint-every 3 --embeddings random
""".split()  # noqa: SIM905
WORDS = """
    figs peppers tea jam dogs cats birds boats trains hills rain snow bread cakes songs plays
    nurse clerk cook pilot teacher painter runs sings bakes reads walks swims likes has wants
""".split()  # noqa: SIM905


def turn(rng: random.Random, number: int) -> dict[str, str]:
    said = " ".join(rng.choice(WORDS) for _ in range(12))
    kept = " ".join(said.split()[:5])
    return {"speaker": f"Speaker {number}", "text": said, "persona_text": f"I {kept}."}


def chat(rng: random.Random) -> str:
    return "\n".join(f"Ada: {turn(rng, 1)['text']}" for _ in range(14))


def episode(name: str) -> dict[str, Any]:
    rng = random.Random(name)
    sessions = [
        {"session": n, "dialog": [turn(rng, 1 + i % 2) for i in range(14)]} for n in range(1, 5)
    ]
    return {"id": name, "personas_before_session_3": [[], []], "sessions": sessions}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small sets of made-up words; Synthetic-Persona-Chat is empty but for its header."""
    folder = tmp_path_factory.mktemp("data")

    def write(name: str, content: str) -> None:
        path = folder / FILES[name]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()))

    names = [f"valid_{n}" for n in range(40)]
    chosen = [n for n in names if not is_held_out(n)][:12] + [n for n in names if is_held_out(n)]
    write("msc_valid", "\n".join(json.dumps(episode(name)) for name in chosen))
    write("msc_test", "\n".join(json.dumps(episode(f"test_{n}")) for n in range(4)))
    write("spc_valid", "user 1 personas,user 2 personas,Best Generated Conversation\n")
    talks = [
        {"id": str(n), "dialogue": chat(random.Random(n)), "summary": " ".join(WORDS[:10])}
        for n in range(6)
    ]
    write("samsum_validation", json.dumps(talks))
    (folder / "msc" / "README.md").write_text("- Licence: made up.\n")
    return folder


def train(data: Path, out: Path, *options: str) -> list[list[float]]:
    """Losses of a run that has to end well."""
    argv = ["--data", str(data), "--out", str(out), *TINY, *options]
    assert main(argv) == 0
    losses: list[list[float]] = json.loads((out / "losses.json").read_text())
    return losses


def test_wrong_options_are_found_before_any_work(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for options, message in [
        (["--steps", "0"], "--steps is 0; allowed: 1 or more"),
        (["--heads", "3"], "allowed: a multiple of --heads"),
        (["--tasks", "facts,poems"], "'poems'; allowed: facts, summary"),
        (["--tasks", "facts,dialogue"], "or --sources research"),
        (["--evaluate-only", str(tmp_path / "none")], "allowed: a model's folder"),
        (["--minutes", "nan"], "--minutes is nan"),
        (["--summary", str(tmp_path / "none" / "s.json")], "a folder that does not exist"),
    ]:
        assert main(["--data", str(data), "--out", str(out), *options]) == 2
        assert message in capsys.readouterr().err
    assert main(["--data", str(tmp_path / "none"), "--out", str(out)]) == 2
    assert not out.exists()


def test_a_relative_path_in_a_submitted_job_is_refused(
    monkeypatch: pytest.MonkeyPatch, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert main(["--data", str(data), "--out", "out"]) == 2
    assert "a relative path, in a submitted job" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_leaves_a_model_that_loads_a_card_and_figures(data: Path, tmp_path: Path) -> None:
    from glong.models.t5 import T5Scorer

    summary = tmp_path / "summary.json"
    options = ("--steps", "8", "--guided-tokens", "5", "--summary", str(summary))
    losses = train(data, tmp_path / "out", *options)
    assert len(losses) == 8
    model = tmp_path / "out" / "model"
    verify(model)
    scorer = T5Scorer.load(ScorerSpec(backend="t5", model=str(model)))
    (reading,) = scorer.read([["Ada likes figs", "Ben has a dog"]])
    assert (reading.scores > 0).all()
    assert len(reading.summaries[0]) <= 5, "M is the model's, not the 64 of the specification"
    figures = json.loads((tmp_path / "out" / "salience.json").read_text())
    assert set(figures["sets"]) == {"msc_valid_heldout", "msc_test", "samsum_validation"}
    assert {"weight", "lead", "centrality"} <= set(figures["sets"]["msc_test"])
    assert json.loads(summary.read_text())["sets"] == figures["sets"]
    card = (model / "MODEL_CARD.md").read_text()
    assert "made up." in card
    assert "| weight |" in card
    assert str(tmp_path) not in card
    assert (tmp_path / "out" / "losses.png").stat().st_size > 1000

    again = tmp_path / "again"
    argv = ["--data", str(data), "--out", str(again), *TINY, "--evaluate-only", str(model)]
    assert main(argv) == 0
    assert json.loads((again / "salience.json").read_text())["sets"] == figures["sets"]


def test_a_set_without_pairs_is_reported_as_such(data: Path) -> None:
    from glong.models.fake import FakeEncoder, FakeScorer
    from jobs.scorer.report import evaluate, table

    sets = {"none": evaluate([], FakeScorer(), FakeEncoder(8), 0)}
    json.dumps(sets, allow_nan=False)
    assert "| weight | no pair |" in table(sets)


@pytest.mark.slow
def test_one_seed_gives_the_same_losses_and_another_does_not(data: Path, tmp_path: Path) -> None:
    first = train(data, tmp_path / "a", "--steps", "6")
    assert train(data, tmp_path / "b", "--steps", "6") == first
    assert train(data, tmp_path / "c", "--steps", "6", "--seed", "1") != first


@pytest.mark.slow
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(data: Path, tmp_path: Path) -> None:
    whole = train(data, tmp_path / "whole", "--steps", "7")
    part = train(data, tmp_path / "part", "--steps", "7", "--minutes", "0.0000001")
    assert part == whole[:1]
    assert train(data, tmp_path / "part", "--steps", "7") == whole


@pytest.mark.slow
def test_workers_share_steps_from_a_relative_folder_and_stop_together(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    part = train(data, Path("out"), "--workers", "2", "--steps", "4", "--minutes", "0.0000001")
    assert len(part) == 1
    whole = train(data, Path("out"), "--workers", "2", "--steps", "4")
    assert whole[:1] == part
    assert len(whole) == 4
    verify(tmp_path / "out" / "model")
    assert "none (from scratch)" in (tmp_path / "out/model/MODEL_CARD.md").read_text()


@pytest.mark.slow
def test_a_checkpoint_of_other_settings_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(data, tmp_path / "out", "--steps", "3")
    argv = ["--data", str(data), "--out", str(tmp_path / "out"), *TINY, "--steps", "3"]
    assert main([*argv, "--guidance", "2"]) == 2
    assert "guidance = 4.0, and this one has 2.0" in capsys.readouterr().err
    assert main([*argv, "--tasks", "facts"]) == 2
    assert "run with data = " in capsys.readouterr().err
    assert main([*argv, "--d-model", "32"]) == 2
    assert "d_model = 16, and this one has 32" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_go_on(data: Path, tmp_path: Path) -> None:
    argv = ["--data", str(data), "--out", str(tmp_path / "out"), *TINY, "--steps", "100000"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "jobs" / "train_scorer.py"), *argv],
        stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    checkpoint = tmp_path / "out" / "work" / "checkpoint.pt"
    deadline_s = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline_s:
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the last checkpoint stays. Run the same command again" in stderr


class LetterTokenizer:
    """One token a character; the id is its code."""

    eos_token_id, unk_token_id = 1, 2

    def __call__(self, texts: Any, **options: Any) -> dict[str, Any]:
        if isinstance(texts, str):
            return {"input_ids": [ord(c) for c in texts]}
        found: dict[str, Any] = {"input_ids": [[ord(c) for c in text] for text in texts]}
        if options.get("return_offsets_mapping"):
            found["offset_mapping"] = [[(i, i + 1) for i in range(len(t))] for t in texts]
        return found


PAIRS = [
    Pair("facts", "d", ("ab", "c"), "ab.", (True, False)),
    Pair("facts", "d", ("abcdef", "c", "ghi"), "c.", (False, True, False)),
]


def test_examples_name_the_fact_of_each_source_token() -> None:
    first, second = encode_pairs(PAIRS, LetterTokenizer(), Limits())
    n = len("summarize:")
    assert first.source[n:] == (*map(ord, "ab.c."), 1)
    assert first.owners == (-1,) * n + (0, 0, -1, 1, -1, -1)
    assert first.target == (*map(ord, "ab."), 1)
    assert second.favoured == (False, True, False)


def test_what_does_not_fit_is_left_out_and_a_pair_without_favoured_facts_dropped() -> None:
    cut = encode_pairs(PAIRS, LetterTokenizer(), Limits(source=14, target=2))
    assert [(e.favoured, e.target) for e in cut] == [((True,), (ord("a"), ord("b")))]


def test_batches_hold_every_example_once_within_the_limit() -> None:
    examples = encode_pairs(PAIRS * 30, LetterTokenizer(), Limits())
    batches = plan_epoch(examples, 100, seed=1, epoch=0)
    assert sorted(i for batch in batches for i in batch) == list(range(60))
    assert all(len(b) * max(examples[i].n_tokens for i in b) <= 100 for b in batches)
    assert plan_epoch(examples, 100, seed=1, epoch=0) == batches
    assert plan_epoch(examples, 100, seed=1, epoch=1) != batches


def test_shares_of_attention_are_those_of_the_scorer() -> None:
    from jobs.scorer.loop import fact_shares

    batch = collate(encode_pairs(PAIRS, LetterTokenizer(), Limits()), 0)
    n_facts = batch.favoured.shape[1]
    attention = torch.rand(2, 3, 5, batch.source.shape[1], generator=torch.manual_seed(1))
    shares = fact_shares(attention, torch.from_numpy(batch.owners), n_facts).numpy()
    n = len("summarize:")
    spans = [[(n, n + 2), (n + 3, n + 4)], [(n, n + 6), (n + 7, n + 8), (n + 9, n + 12)]]
    for row, of_row in enumerate(spans):
        for place in range(5):
            one = np.arange(5) == place
            scores = pool(attention[row].numpy(), of_row, one)
            found = shares[row, place, : len(of_row)]
            assert found == pytest.approx(scores / scores.sum(), rel=1e-4)
    assert np.allclose(batch.favoured, [[1, 0, 0], [0, 1, 0]])


def test_the_decoder_reads_the_start_and_the_target_but_its_last_token() -> None:
    batch = collate(encode_pairs(PAIRS, LetterTokenizer(), Limits()), 0)
    assert batch.labels.tolist() == [[*map(ord, "ab."), 1], [*map(ord, "c."), 1, IGNORED]]
    assert batch.prefix.tolist() == [[0, *map(ord, "ab.")], [0, *map(ord, "c."), 0]]


def test_some_decoders_read_the_words_of_the_next_example_as_the_seed_says() -> None:
    batch = collate(encode_pairs(PAIRS * 50, LetterTokenizer(), Limits()), 0)
    mixed = with_other_prefixes(batch, 0.5, np.random.default_rng(3))
    changed = (mixed.prefix != batch.prefix).any(axis=1)
    assert 30 < changed.sum() < 70
    assert (mixed.prefix[changed] == np.roll(batch.prefix, -1, axis=0)[changed]).all()
    assert mixed.labels is batch.labels
    again = with_other_prefixes(batch, 0.5, np.random.default_rng(3))
    assert (again.prefix == mixed.prefix).all()
    assert (with_other_prefixes(batch, 0, np.random.default_rng(3)).prefix == batch.prefix).all()


@pytest.mark.slow
def test_the_source_has_the_tokens_that_the_scorer_reads(data: Path, tmp_path: Path) -> None:
    from glong.models.t5 import T5Scorer
    from jobs.scorer.model import Size, load_tokenizer, new_model, train_tokenizer

    texts = ["Ada likes figs", "Ben's dog isn't old", "Ümit won 3 games"]
    train_tokenizer([*texts, *WORDS] * 3, 50, tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    model = new_model(Size(16, 1, 1, 2), len(tokenizer), 0)
    scorer = T5Scorer(ScorerSpec(backend="t5", model="-"), model, tokenizer)
    (window,) = scorer._plan([texts])[0].windows
    pair = Pair("facts", "d", tuple(texts), "Ada.", (True, False, False))
    (example,) = encode_pairs([pair], tokenizer, Limits())
    assert example.source == window.source
    spans = [
        (example.owners.index(i), example.owners.index(i) + example.owners.count(i))
        for i in range(3)
    ]
    assert tuple(spans) == window.spans


def test_the_encoder_s_heads_begin_with_a_sense_of_place() -> None:
    from jobs.scorer.model import Size, new_model

    model = new_model(Size(20, 1, 1, 5), 60, 0)
    attention = model.encoder.block[0].layer[0].SelfAttention
    behind, ahead, around, everywhere, again = attention.compute_bias(7, 7)[0, :, 3].detach()
    assert behind[2] > behind[1] > behind[0] > behind[4] > behind[6]
    assert ahead[4] > ahead[5] > ahead[6] > ahead[2] > ahead[0]
    assert around[2] == around[4] > around[1] == around[5]
    assert (everywhere == 0).all()
    assert torch.equal(again, behind)
