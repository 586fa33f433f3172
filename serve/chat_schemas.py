"""OpenAI's chat request, as far as it is understood; what would be ignored silently is refused."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from glong.sources.records import MAX_TURN_CHARS
from serve.schemas import MAX_K, IdText, Name, SessionId, Text

__all__ = ["ChatIn", "ChatMessage", "ChatMetadata"]

MAX_MESSAGES = 1_000
MAX_MESSAGE_CHARS = 200_000
MAX_TOKENS = 32_768
DEFAULT_TOKENS = 512
_REFUSED = ("tools", "functions", "audio", "modalities", "logprobs", "top_logprobs")


class TextPart(BaseModel):
    """A part of a message."""

    type: Literal["text"]
    text: Annotated[Text, Field(max_length=MAX_MESSAGE_CHARS)]


class ChatMessage(BaseModel):
    """One message; parts other than text are refused."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[Text, Field(max_length=MAX_MESSAGE_CHARS)] | list[TextPart]
    name: Name | None = None

    @property
    def text(self) -> str:
        """All that it says."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)

    @property
    def openai_role(self) -> str:
        """The role that every endpoint knows."""
        return "system" if self.role == "developer" else self.role


def _truth(value: Any) -> Any:
    """OpenAI's metadata are strings."""
    return value.strip().lower() in ("true", "1", "yes") if isinstance(value, str) else value


class ChatMetadata(BaseModel):
    """Whose memory, and what to do with the exchange; other keys are the client's own."""

    model_config = ConfigDict(extra="allow")
    dialogue_id: IdText | None = None
    session_id: SessionId | None = None
    remember: Annotated[bool, BeforeValidator(_truth)] = False
    k: Annotated[int, Field(ge=1, le=MAX_K)] = 3
    profile: Literal["hybrid", "paper"] = "hybrid"
    speaker: Name = "User"
    agent: Name = "Assistant"


class StreamOptions(BaseModel):
    """Of a stream."""

    include_usage: bool = False


class ChatIn(BaseModel):
    """A chat. Sampling settings are taken and not used: answers are greedy."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "model": "glong",
                    "messages": [{"role": "user", "content": "Which pet do I have?"}],
                    "metadata": {"dialogue_id": "user-7", "remember": "true"},
                }
            ]
        },
    )
    model: Annotated[Text, Field(max_length=256)] = "glong"
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    metadata: ChatMetadata = ChatMetadata()
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    n: Literal[1] | None = None

    @model_validator(mode="after")
    def _answerable(self) -> "ChatIn":
        if self.messages[-1].role != "user" or not self.messages[-1].text.strip():
            raise ValueError("the last message must be the user's, with text")
        extra = self.model_extra or {}
        if refused := [name for name in _REFUSED if extra.get(name)]:
            raise ValueError(f"{refused[0]} is not supported; leave it out")
        if extra.get("response_format") not in (None, {"type": "text"}):
            raise ValueError("response_format allows only {'type': 'text'}")
        if self.metadata.remember and len(self.messages[-1].text) > MAX_TURN_CHARS:
            raise ValueError(f"a message to remember has at most {MAX_TURN_CHARS} characters")
        return self

    @property
    def limit(self) -> int:
        """The most tokens of the answer; the service has a limit of its own."""
        return self.max_completion_tokens or self.max_tokens or DEFAULT_TOKENS

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage
