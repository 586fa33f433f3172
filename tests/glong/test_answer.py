from collections.abc import Iterator, Sequence

import pytest

from glong.answer import respond, stream_answer
from glong.errors import ModelError
from glong.models.fake import FakeResponder
from glong.protocols import StreamingGenerator
from glong.types import (
    Failure,
    Generation,
    GenerationRequest,
    Hit,
    Message,
    Prompt,
    Retrieval,
    Turn,
    Usage,
)

PROMPT = Prompt((Message("system", "Be kind."), Message("user", "Hi there")), 7, "words")
RETRIEVAL = Retrieval((Hit(Turn(0, "Mira", "Hi.", None), "s", (), 1.0),), 12)


class Fixed:
    """A generator that cannot stream, with one answer."""

    fingerprint = "fixed"

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.asked: list[GenerationRequest] = []

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        self.asked += requests
        return [self.generation for _ in requests]


class Broken:
    """Streams one word, then fails."""

    fingerprint = "broken"

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        raise NotImplementedError

    def stream(self, request: GenerationRequest) -> Iterator[Generation]:
        yield Generation("one ", finished=False)
        yield Generation("", failure=Failure("extract", "timeout", "too slow", transient=True))


def test_an_answer_comes_with_its_memories_usage_prompt_and_version() -> None:
    generator = Fixed(Generation("Hello.", Usage(9, 2), finished=False))
    response = respond(PROMPT, RETRIEVAL, generator, max_tokens=5)
    assert generator.asked == [GenerationRequest(PROMPT.messages, 5)]
    assert (response.text, response.finished) == ("Hello.", False)
    assert (response.memories, response.store_version) == (RETRIEVAL.hits, 12)
    assert (response.usage, response.prompt) == (Usage(9, 2), PROMPT)


def test_where_the_model_does_not_count_the_prompts_own_count_is_used() -> None:
    response = respond(PROMPT, RETRIEVAL, Fixed(Generation("Hello.")), max_tokens=5)
    assert response.usage == Usage(7, 0)


@pytest.mark.parametrize("transient", [True, False])
def test_a_failed_request_is_an_error(transient: bool) -> None:
    failed = Generation("", failure=Failure("extract", "x", "no room", transient=transient))
    with pytest.raises(ModelError, match="no room") as caught:
        respond(PROMPT, RETRIEVAL, Fixed(failed), max_tokens=5)
    assert caught.value.retryable is transient


def test_the_pieces_of_a_stream_are_the_whole_answer() -> None:
    whole = respond(PROMPT, RETRIEVAL, FakeResponder(), max_tokens=50)
    pieces = list(stream_answer(PROMPT, FakeResponder(), max_tokens=50))
    assert len(pieces) > 3
    assert "".join(piece.text for piece in pieces) == whole.text
    assert (pieces[-1].usage, pieces[-1].finished) == (whole.usage, True)


def test_a_generator_that_cannot_stream_gives_one_piece() -> None:
    generation = Generation("Hello.", Usage(9, 2))
    assert not isinstance(Fixed(generation), StreamingGenerator)
    assert list(stream_answer(PROMPT, Fixed(generation), max_tokens=5)) == [generation]


def test_a_stream_that_breaks_raises_after_its_pieces() -> None:
    pieces = stream_answer(PROMPT, Broken(), max_tokens=5)
    assert next(pieces).text == "one "
    with pytest.raises(ModelError, match="too slow"):
        next(pieces)
