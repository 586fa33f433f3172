"""Generator and encoder behind any OpenAI-compatible endpoint (OpenAI, vLLM, llama.cpp, ...).

The official client retries what may pass (connection, timeout, 408, 409, 429, 5xx) with back-off
and reads ``Retry-After``; here its errors become glong's, in one place. What concerns one request
is that item's failure; a wrong key or model stops the call.
"""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from glong.config import EncoderSpec, ExtractorSpec
from glong.errors import ConfigError, ModelError
from glong.ids import text_hash
from glong.models.extras import extra
from glong.types import Failure, Generation, GenerationRequest, Usage, Vectors

__all__ = ["OpenAIEncoder", "OpenAIGenerator", "endpoint_fingerprint"]

_LIST_KEY = "items"
_STOPPING = {
    401: "Set the endpoint's key in the environment variable that api_key_env names.",
    403: "The key may not use this model or endpoint.",
    404: "Check model and base_url (it usually ends in /v1).",
}
"""HTTP status -> hint: these concern every request alike."""


def endpoint_fingerprint(kind: str, model: str) -> str:
    """Identity of a model behind an endpoint: its name is all that is known of its weights."""
    return text_hash(kind, "endpoint", model)


class OpenAIGenerator:
    """Asks a chat endpoint, at most ``max_concurrency`` requests at once.

    Args:
        client: an ``openai.OpenAI`` client; its ``max_retries`` and ``timeout`` count.
        spec: model and concurrency.
    """

    def __init__(self, client: Any, spec: ExtractorSpec) -> None:
        self._client = client
        self._spec = spec

    @classmethod
    def load(cls, spec: ExtractorSpec) -> "OpenAIGenerator":
        """Build the client.

        Raises:
            ConfigError: the package or the key is missing.
        """
        return cls(_client(spec), spec)

    @property
    def fingerprint(self) -> str:
        """Identity of the model: its name at the endpoint."""
        return endpoint_fingerprint("generator", self._spec.model)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer each request.

        Raises:
            ModelError: the key is refused, or the endpoint has no such model.
        """
        if not requests:
            return []
        with ThreadPoolExecutor(min(self._spec.max_concurrency, len(requests))) as pool:
            futures = [pool.submit(self._generate, request) for request in requests]
            try:
                return [future.result() for future in futures]
            finally:  # after an error: do not send what waits
                pool.shutdown(wait=False, cancel_futures=True)

    def _generate(self, request: GenerationRequest) -> Generation:
        import openai

        try:
            reply = self._client.chat.completions.create(**_arguments(request, self._spec))
        except openai.OpenAIError as error:
            return Generation("", failure=_failure(error, self._spec.model))
        return _generation(reply)

    def stream(self, request: GenerationRequest) -> Iterator[Generation]:
        """The answer piece by piece; the last piece has the usage, 0 where the endpoint is silent.

        Raises:
            ModelError: the key is refused, or the endpoint has no such model.
        """
        import openai

        arguments = _arguments(request, self._spec)
        usage, finished = Usage(), False
        try:
            with self._client.chat.completions.create(
                stream=True, stream_options={"include_usage": True}, **arguments
            ) as chunks:
                for chunk in chunks:
                    usage = _usage(chunk.usage) or usage
                    for choice in chunk.choices[:1]:
                        finished = finished or choice.finish_reason in ("stop", "content_filter")
                        if choice.delta.content:
                            yield Generation(choice.delta.content, finished=False)
        except openai.OpenAIError as error:
            yield Generation("", usage, failure=_failure(error, self._spec.model))
            return
        yield Generation("", usage, finished)


def _usage(reported: Any) -> Usage | None:
    """Tokens as the endpoint counts them, if it does."""
    if reported is None:
        return None
    return Usage(reported.prompt_tokens or 0, reported.completion_tokens or 0)


def _arguments(request: GenerationRequest, spec: ExtractorSpec) -> dict[str, Any]:
    """What is sent for one request."""
    # OpenAI's newer models know only max_completion_tokens, older servers only max_tokens.
    limit = "max_tokens" if spec.base_url else "max_completion_tokens"
    arguments: dict[str, Any] = {
        "model": spec.model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "temperature": 0,
        limit: request.max_tokens,
    }
    if request.json_schema:
        arguments["response_format"] = _response_format(json.loads(request.json_schema))
    if spec.base_url and "qwen3" in spec.model.lower():  # OpenAI itself refuses unknown keys
        arguments["extra_body"] = {"chat_template_kwargs": {"enable_thinking": False}}
    return arguments


def _response_format(schema: dict[str, Any]) -> dict[str, Any]:
    """A list is wrapped into an object, since OpenAI takes no other root; the parser reads both.

    Not strict: OpenAI's strict mode refuses lengths of strings; other servers constrain either way.
    """
    if schema.get("type") != "object":
        schema = {
            "type": "object",
            "properties": {_LIST_KEY: schema},
            "required": [_LIST_KEY],
            "additionalProperties": False,
        }
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": False},
    }


def _generation(reply: Any) -> Generation:
    if not getattr(reply, "choices", None):
        message = "the endpoint answered without choices; is it OpenAI-compatible?"
        return Generation("", failure=Failure("extract", "bad_reply", message))
    choice = reply.choices[0]
    used = _usage(reply.usage) or Usage()
    if choice.message.content is None:
        message = (
            f"no text (finish_reason {choice.finish_reason!r}, refusal {choice.message.refusal!r})"
        )
        return Generation("", used, failure=Failure("extract", "no_answer", message))
    return Generation(choice.message.content, used, finished=choice.finish_reason != "length")


def _failure(error: Exception, model: str) -> Failure:
    """The failure of one request.

    Raises:
        ModelError: the error concerns every request.
    """
    import openai

    status = getattr(error, "status_code", None)
    if status in _STOPPING or getattr(error, "code", None) == "insufficient_quota":
        raise _model_error(error, model) from error
    message = f"{type(error).__name__} from the endpoint: {error}"[:500]
    if isinstance(error, openai.RateLimitError):
        return Failure("extract", "rate_limited", message, transient=True)
    if isinstance(error, openai.APITimeoutError):
        return Failure("extract", "timeout", message, transient=True)
    if isinstance(error, openai.APIConnectionError) or status in (408, 409) or (status or 0) >= 500:
        return Failure("extract", "endpoint_unavailable", message, transient=True)
    return Failure("extract", "bad_request", message)


def _model_error(error: Exception, model: str) -> ModelError:
    """The error that stops the call."""
    import openai

    status = getattr(error, "status_code", None)
    retryable = (
        isinstance(error, openai.APIConnectionError) or status == 429 or (status or 0) >= 500
    )
    if getattr(error, "code", None) == "insufficient_quota":
        retryable = False
    hint = _STOPPING.get(status or 0, "")
    return ModelError(f"model {model!r}: {error}", retryable=retryable, hint=hint)


def _client(spec: ExtractorSpec | EncoderSpec) -> Any:
    with extra("openai"):
        import openai

    key = os.environ.get(spec.api_key_env, "")
    if not key and not spec.base_url:
        raise ConfigError(
            f"{spec.api_key_env} is not set; set it to the endpoint's key, or set base_url."
        )
    return openai.OpenAI(
        api_key=key or "none",  # own servers often have no key
        base_url=spec.base_url or None,
        timeout=spec.timeout_s,
        max_retries=spec.max_retries,
    )


class OpenAIEncoder:
    """Vectors from an embeddings endpoint.

    Args:
        client: an ``openai.OpenAI`` client.
        spec: model, dimension and texts a request.
    """

    def __init__(self, client: Any, spec: EncoderSpec) -> None:
        self._client = client
        self._spec = spec

    @classmethod
    def load(cls, spec: EncoderSpec) -> "OpenAIEncoder":
        """Build the client.

        Raises:
            ConfigError: the package or the key is missing.
        """
        return cls(_client(spec), spec)

    @property
    def fingerprint(self) -> str:
        """Identity of the model: its name at the endpoint, and the dimension."""
        return text_hash(
            endpoint_fingerprint("encoder", self._spec.model), str(self._spec.dimension)
        )

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._spec.dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimension), float32, unit length.

        Raises:
            ModelError: the endpoint refuses or cannot be reached, or its vectors have another
                length.
        """
        step = self._spec.batch_size
        parts = [self._encode(texts[i : i + step]) for i in range(0, len(texts), step)]
        return np.concatenate([np.zeros((0, self.dimension), np.float32), *parts])

    def _encode(self, texts: Sequence[str]) -> Vectors:
        import openai

        asked = [text if text.strip() else "." for text in texts]  # endpoints refuse empty texts
        try:
            reply = self._client.embeddings.create(
                model=self._spec.model, input=asked, encoding_format="float"
            )
        except openai.OpenAIError as error:
            raise _model_error(error, self._spec.model) from error
        rows = sorted(reply.data, key=lambda row: row.index)
        vectors = np.array([row.embedding for row in rows], dtype=np.float32)
        expected = (len(texts), self.dimension)
        if vectors.shape != expected:
            raise ModelError(
                f"model {self._spec.model!r} gave vectors of shape {vectors.shape}; "
                f"expected: {expected}.",
                hint="Set encoder.dimension to the model's.",
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(norms, 1e-12), dtype=np.float32)
