"""A prompt -> an answer by any generator, whole or in pieces.

The prompt comes from :mod:`glong.prompting`, the memories in it from a
:class:`~glong.types.Retrieval`.
"""

from collections.abc import Iterator

from glong.errors import ModelError
from glong.protocols import Generator, StreamingGenerator
from glong.types import Generation, GenerationRequest, Prompt, Response, Retrieval, Usage

__all__ = ["respond", "response_of", "stream_answer"]


def respond(
    prompt: Prompt, retrieval: Retrieval, generator: Generator, *, max_tokens: int
) -> Response:
    """One call of the language model, greedy.

    Raises:
        ModelError: the model, or this request, failed; ``retryable`` if the cause may pass.
    """
    (generation,) = generator.generate([GenerationRequest(prompt.messages, max_tokens)])
    return response_of(generation, prompt, retrieval)


def response_of(generation: Generation, prompt: Prompt, retrieval: Retrieval) -> Response:
    """What the model wrote, with what it rests on.

    Raises:
        ModelError: this request failed.
    """
    _check(generation)
    return Response(
        generation.text,
        retrieval.hits,
        _usage(generation, prompt),
        generation.finished,
        prompt,
        retrieval.store_version,
    )


def stream_answer(prompt: Prompt, generator: Generator, *, max_tokens: int) -> Iterator[Generation]:
    """The answer in pieces as they are written; one piece where the generator cannot stream.

    Yields:
        Pieces whose texts, joined, are the answer; the last one has the usage and says whether the
        model finished by itself.

    Raises:
        ModelError: the model, or this request, failed, possibly after some pieces.
    """
    request = GenerationRequest(prompt.messages, max_tokens)
    if isinstance(generator, StreamingGenerator):
        pieces = generator.stream(request)
    else:
        pieces = iter(generator.generate([request]))
    for piece in pieces:
        _check(piece)
        yield piece


def _check(generation: Generation) -> None:
    """The failure of a request of its own is the caller's error here, not a row to store."""
    if failure := generation.failure:
        raise ModelError(failure.message, retryable=failure.transient)


def _usage(generation: Generation, prompt: Prompt) -> Usage:
    """As the model counted; the prompt's own count where the model does not say."""
    used = generation.usage
    return used if used.tokens_in else Usage(prompt.n_tokens, used.tokens_out)
