import pytest

torch = pytest.importorskip("torch")

from glong.models.tagger_input import as_pieces, pad  # noqa: E402
from glong.models.tagger_net import MAX_WIDTH, TaggerNet  # noqa: E402
from glong.models.tagger_text import WordPair  # noqa: E402


class Tokens:
    """A tokeniser of whole words: one piece a letter."""

    cls_token_id, sep_token_id, unk_token_id, pad_token_id = 1, 2, 3, 0

    def __call__(self, words, add_special_tokens):
        return {"input_ids": [[10 + ord(letter) % 80 for letter in word] for word in words]}


@pytest.fixture(scope="module")
def net():
    from transformers import BertConfig, BertModel

    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32,
    )  # fmt: skip
    return TaggerNet(BertModel(config, add_pooling_layer=False), 32, 5, 0.1).eval()


PAIRS = [
    WordPair(("do", "you"), ("yes", "i", "do")),
    WordPair((), ("no",)),
    WordPair(("a",) * 9, ("an", "extraordinarily", "long", "turn", "of", "words")),
]


def test_pieces_say_where_words_begin_and_end():
    one, lone, _ = as_pieces(Tokens(), PAIRS)
    assert [one.ids[i] for i in (0, -1)] == [1, 2]
    assert one.first == [1, 3, 7, 10, 11]
    assert one.last == [2, 5, 9, 10, 12]
    assert one.n_before == one.first[2]
    assert (lone.first, lone.n_before) == ([2], 2)


def test_many_long_words_leave_room_for_every_word():
    (one,) = as_pieces(Tokens(), [WordPair(("=" * 40,) * 32, ("~" * 40,) * 96)])
    assert len(one.ids) <= 512
    assert len(one.first) == 128
    assert all(first <= last for first, last in zip(one.first, one.last, strict=True))


def test_shapes_and_a_result_that_does_not_depend_on_batch_mates(net):
    pieces = as_pieces(Tokens(), PAIRS)
    batch = pad(pieces, 0)
    words = net.words(batch)
    logits = net.span_logits(words)
    assert logits.shape == (3, 15, MAX_WIDTH)
    spans = torch.tensor([[0, 2, 4], [1, 0, 0], [2, 9, 11]])
    said = net.describe(words, batch.is_word, spans)
    assert said.relation.shape == (3, 5)
    assert said.subject.shape == said.trigger.shape == (3, 2, 16)
    alone = pad(pieces[:1], 0)
    own = net.words(alone)
    assert torch.allclose(own[0], words[0, :6], atol=1e-5)
    assert torch.allclose(net.span_logits(own)[0, 4, 0], logits[0, 4, 0], atol=1e-4)
    again = net.describe(own, alone.is_word, spans[:1])
    assert torch.allclose(again.subject[0], said.subject[0, :, :6], atol=1e-4)


def test_an_object_cannot_end_behind_the_last_word(net):
    batch = pad(as_pieces(Tokens(), PAIRS[2:]), 0)
    logits = net.span_logits(net.words(batch))
    assert (logits[0, 14, 1:] < -20).all()
