import json
import time

import pytest

from glong.config import DECODER_MODELS, PAPER_MODELS
from glong.errors import ModelError
from glong.extraction import answer_schema
from glong.models.grammar import GrammarCompiler
from glong.parsing import OBJECT_CHARS, SUBJECT_CHARS, answer_text, parse_answer
from glong.types import Triplet, Turn
from tests.glong.models.conftest import byte_tokenizer

xgrammar = pytest.importorskip("xgrammar")
N_VOCABULARY = 272
TURNS = tuple(Turn(i, "Mira", "text") for i in range(8))
ITEM = {"turn": 1, "subject": "Mira", "relation": "has_pet", "object": "a greyhound"}


@pytest.fixture(scope="module")
def compiler():
    tokenizer = byte_tokenizer()
    return GrammarCompiler(tokenizer, N_VOCABULARY, [tokenizer.eos_token_id])


def compact(items):
    return json.dumps(items, separators=(",", ":"))


def accepts(grammar, text):
    matcher = xgrammar.GrammarMatcher(grammar, terminate_without_stop_token=True)
    return matcher.accept_string(text) and matcher.is_terminated()


@pytest.fixture(scope="module")
def grammar(compiler):
    return compiler.compile(answer_schema(8, 1, 1024))


def test_it_allows_what_training_data_looks_like(grammar):
    triplets = [Triplet("Mira", "has_pet", "a greyhound", 3), Triplet("Jürgen", "is", "42", 7)]
    assert accepts(grammar, answer_text(triplets, TURNS))
    assert accepts(grammar, "[]")


@pytest.mark.parametrize(
    "change",
    [
        {"turn": 9},
        {"turn": 0},
        {"subject": ""},
        {"subject": "x" * (SUBJECT_CHARS + 1)},
        {"object": "x" * (OBJECT_CHARS + 1)},
        {"relation": "has pet"},
        {"relation": "x" * 17},
        {"relation": "a_b_c_d_e_f"},
        {"more": "y"},
    ],
)
def test_it_refuses_what_is_out_of_bounds(grammar, change):
    assert accepts(grammar, compact([ITEM]))
    assert not accepts(grammar, compact([ITEM | change]))


def test_it_bounds_the_number_of_items_and_white_space(grammar):
    assert accepts(grammar, compact([ITEM] * 8))
    assert not accepts(grammar, compact([ITEM] * 9))
    assert not accepts(grammar, json.dumps([ITEM], indent=1))
    assert not accepts(grammar, json.dumps([ITEM]))


@pytest.mark.parametrize("preset", [DECODER_MODELS, PAPER_MODELS])
def test_it_compiles_in_a_moment(compiler, preset):
    spec = preset.extractor
    start = time.process_time()
    compiler.compile(answer_schema(spec.window_turns, spec.max_triplets_per_turn, spec.max_tokens))
    assert time.process_time() - start < 5


def test_whatever_a_model_prefers_its_masked_answer_ends_and_can_be_read(compiler):
    import torch

    schemas = [answer_schema(4, 1, 1024), "", answer_schema(2, 1, 1024)]
    torch.manual_seed(0)
    ids = torch.zeros((3, 1), dtype=torch.long)
    mask = compiler.mask(schemas)
    for _ in range(1000):
        scores = mask(ids, torch.randn(3, N_VOCABULARY))
        assert torch.isfinite(scores[1]).all()
        ids = torch.cat([ids, scores.argmax(-1, keepdim=True)], dim=1)
    tokenizer = byte_tokenizer()
    for row, n_turns in ((0, 4), (2, 2)):
        tokens = ids[row, 1:].tolist()
        assert tokenizer.eos_token_id in tokens
        text = tokenizer.decode(tokens[: tokens.index(tokenizer.eos_token_id)])
        _, failures = parse_answer(text, TURNS[:n_turns])
        assert {failure.kind for failure in failures} <= {"malformed_triplet"}


def test_rows_without_schemas_need_no_mask(compiler):
    assert compiler.mask(["", ""]) is None


def test_a_schema_that_is_none_is_an_error(compiler):
    with pytest.raises(ModelError, match="json_schema"):
        compiler.compile("{")
