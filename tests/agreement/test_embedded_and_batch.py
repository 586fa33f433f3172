"""One input gives one memory: embedded and as a batch job, whatever the batch, order and files.

With fake models rows are equal to the bit. With real ones raw scores, weights and vectors agree
within 1e-4, and the share of equal decoder outputs is measured and printed (METHOD.md, section 3,
row 3).
"""

import dataclasses
import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from glong.build import Models, build_rows
from glong.cli import main as glong
from glong.config import DECODER_MODELS, SMALL_MODELS
from glong.memory import Memory
from glong.models.fake import FakeEncoder, FakeExtractor, FakeScorer
from glong.sources import Reader, sample_dialogues
from glong.store import Store
from glong.tables import VARYING_COLUMNS, explode
from glong.types import Session, Vectors
from glong.weighting import triplet_text
from jobs import build_memory
from tests.jobs import local_ray
from tests.jobs.inputs import dialogue, write

SAMPLES = sample_dialogues()
FAKES = Models(FakeExtractor(), FakeScorer(), FakeEncoder(64))
BY_KEY = [("session_key", "ascending")]


@pytest.fixture(scope="module")
def sessions() -> list[Session]:
    return [item for item in Reader(str(SAMPLES)) if isinstance(item, Session)]


def built_by(models: Models, sessions: Sequence[Session], batch: int, seed: int) -> pa.Table:
    """Rows built ``batch`` sessions at a time in an order from the seed (0: as they are)."""
    order = np.arange(len(sessions))
    if seed:
        np.random.default_rng(seed).shuffle(order)
    parts = [
        build_rows("t", [sessions[i] for i in order[start : start + batch]], models)
        for start in range(0, len(sessions), batch)
    ]
    return pa.concat_tables(parts).sort_by(BY_KEY)


# Fake models: equal to the bit


@pytest.mark.parametrize("batch", [1, 7, 64])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_are_equal_over_batch_size_and_order(
    batch: int, seed: int, sessions: list[Session]
) -> None:
    whole = build_rows("t", sessions, FAKES).sort_by(BY_KEY)
    assert whole.num_rows == 36
    assert built_by(FAKES, sessions, batch, seed).equals(whole)


def exported(store: Path, out: Path) -> dict[str, list[str]]:
    """The lines of an export with vectors, but for the columns that differ between runs."""
    opened = Store.open(str(store))
    assert opened.verify() == []
    opened.export(out, with_vectors=True)
    return {path.stem: [_without_varying(line) for line in _lines(path)] for path in out.iterdir()}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def _without_varying(line: str) -> str:
    row = json.loads(line)
    kept = {key: value for key, value in row.items() if key not in VARYING_COLUMNS}
    assert len(row) - len(kept) <= len(VARYING_COLUMNS)
    return json.dumps(kept, sort_keys=True)


@pytest.fixture(params=["one file", "four files"])
def inputs(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The samples and some trouble: broken records, and one id that comes twice."""
    changed = dialogue("d", 3)
    changed["sessions"][2]["turns"][0]["text"] = "Something else."
    records = [*_lines(SAMPLES), dialogue("d", 3), "{broken", {"dialogue_id": "e"}]
    if request.param == "one file":
        return [write(tmp_path / "all.jsonl", records)]
    parts = [[*records[i::3]] for i in range(3)] + [[changed]]
    return [write(tmp_path / f"{i}.jsonl", part) for i, part in enumerate(parts)]


def embedded(inputs: list[str], store: Path, wave_size: int) -> None:
    """As ``Memory.build`` does it."""
    with Memory.open(str(store), models="fake") as memory:
        memory.build(chain.from_iterable(Reader(path) for path in inputs), wave_size=wave_size)


def batch(inputs: list[str], store: Path, *options: str) -> int:
    """As ``jobs/build_memory.py`` does it, on Ray or on what stands in its place."""
    words = [word for path in inputs for word in ("--input", path)]
    return build_memory.main([*words, "--store", str(store), "--models", "fake", *options])


@pytest.mark.parametrize("writer", ["driver", "workers"])
@pytest.mark.parametrize("wave_size", [1, 7, 64])
def test_embedded_and_batch_give_equal_exports(
    writer: str,
    wave_size: int,
    inputs: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local_ray.install(monkeypatch)
    embedded(inputs, tmp_path / "embedded", wave_size)
    options = ("--writer", writer, "--wave-size", str(wave_size), "--max-failure-rate", "1")
    assert batch(inputs, tmp_path / "batch", *options) == 0
    one = exported(tmp_path / "embedded", tmp_path / "a")
    assert exported(tmp_path / "batch", tmp_path / "b") == one
    assert len(one["sessions"]) == 39
    assert len(one["failures"]) == (2 if len(inputs) == 1 else 3)


def test_the_order_of_files_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_ray.install(monkeypatch)
    lines = _lines(SAMPLES)
    names = ("a", "b", "c", "d")
    stores = []
    for turn in range(2):
        folder = tmp_path / str(turn)
        folder.mkdir()
        parts = dict(zip(names, (lines[i::4] for i in range(4)), strict=True))
        paths = [
            write(folder / f"{name}.jsonl", parts[source])
            for name, source in zip(names, names[turn:] + names[:turn], strict=True)
        ]
        batch(paths, folder / "store")
        stores.append(exported(folder / "store", folder / "out"))
    assert stores[0] == stores[1]


@pytest.mark.slow
def test_the_command_line_and_the_job_on_ray_give_equal_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    lines = _lines(SAMPLES)
    paths = [write(tmp_path / f"{i}.jsonl", lines[i::4]) for i in range(4)]
    words = [word for path in paths for word in ("--input", path)]
    assert glong(["build", *words, "--store", str(tmp_path / "m"), "--models", "fake"]) == 0
    assert batch(paths, tmp_path / "batch") == 0
    one = exported(tmp_path / "m", tmp_path / "a")
    assert exported(tmp_path / "batch", tmp_path / "b") == one


# Real models: within 1e-4


@pytest.fixture(scope="module")
def real() -> Models:
    """MiniLM and our T5; the extractor is fake, so that facts are many."""
    pytest.importorskip("sentence_transformers")
    from glong.models.load import load_encoder, load_scorer

    scorer = dataclasses.replace(SMALL_MODELS.scorer, max_summary_tokens=16)
    return Models(FakeExtractor(), load_scorer(scorer), load_encoder(SMALL_MODELS.encoder))


def vectors_of(rows: pa.Table) -> Vectors:
    flat = rows.column("vector").combine_chunks().flatten().to_numpy()
    return flat.reshape(rows.num_rows, -1)


@pytest.mark.slow
@pytest.mark.ci
def test_scores_weights_and_vectors_of_real_models_agree(
    real: Models, sessions: list[Session]
) -> None:
    sessions = sessions[:10]
    alone = explode(built_by(real, sessions, 1, 0), "b", 384)
    for size, seed in ((7, 1), (64, 2)):
        other = explode(built_by(real, sessions, size, seed), "b", 384)
        for table, rows in alone.items():
            plain = [
                name for name in rows.column_names if name not in ("vector", "score", "weight")
            ]
            assert other[table].select(plain).equals(rows.select(plain)), table
            if "vector" in rows.column_names:
                np.testing.assert_allclose(
                    vectors_of(other[table]), vectors_of(rows), atol=1e-4, rtol=0
                )
        for name in ("score", "weight"):
            ours, theirs = (t["edges"].column(name).to_numpy() for t in (other, alone))
            np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_the_language_model_writes_the_same_in_every_batch(
    sessions: list[Session], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xgrammar")
    from glong.models.load import load_extractor

    extractor = load_extractor(dataclasses.replace(DECODER_MODELS.extractor, max_tokens=96))
    some = sessions[:3]
    alone = [extractor.extract([one])[0] for one in some]
    together = extractor.extract(some[::-1])[::-1]
    n_equal = sum(a == b for a, b in zip(alone, together, strict=True))
    with capsys.disabled():
        print(f" equal extractions of SmolLM2 alone and in a batch: {n_equal}/{len(some)}", end="")
    assert n_equal / len(some) >= 0.99


@pytest.mark.slow
@pytest.mark.ci
def test_the_share_of_equal_summaries_is_printed(
    real: Models, sessions: list[Session], capsys: pytest.CaptureFixture[str]
) -> None:
    from glong.models.t5 import T5Scorer

    assert isinstance(real.scorer, T5Scorer)
    texts = [
        [triplet_text(triplet) for triplet in extraction.triplets]
        for extraction in FAKES.extractor.extract(sessions)
    ]
    alone = [real.scorer.read([one])[0] for one in texts]
    together = real.scorer.read(texts)
    n_equal = sum(a.summaries == b.summaries for a, b in zip(alone, together, strict=True))
    with capsys.disabled():
        print(f" equal summaries alone and in a batch: {n_equal}/{len(texts)}", end="")
    assert n_equal / len(texts) >= 0.99
