"""``/v1/chat/completions``: OpenAI's interface with the memories of a dialogue in the messages.

The client is any that speaks to OpenAI. ``metadata`` (or the header ``X-Dialogue-Id``) names the
dialogue; with ``metadata.remember`` the exchange joins the memory before the answer ends, so that
the next request knows of it.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse, Response

from glong.prompting import Layout, with_memories
from glong.retrieval.query import N_RECENT
from glong.types import Generation, GenerationRequest, Message, Prompt, Retrieval, Turn
from serve.chat_schemas import ChatIn
from serve.dependencies import CalledServices, Tenant
from serve.errors import NOT_FOUND, Problem, ProblemError, document
from serve.events import checked, event, event_stream, started
from serve.logs import LOG
from serve.reading import hit_document
from serve.records import Document, Posted, Question
from serve.respond import usage_document
from serve.schemas import MAX_QUERY_CHARS
from serve.services import Services

__all__ = ["router"]

router = APIRouter()
_NO_DIALOGUE = Problem(
    422, "invalid_input", "metadata.dialogue_id is missing, and so is the header X-Dialogue-Id.",
    "Say whose memory this is, e.g. metadata={'dialogue_id': 'user-7'}.",
)  # fmt: skip
_DONE = "data: [DONE]\n\n"
_ANSWERED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A `chat.completion`; with `stream` its chunks, as server-sent events.",
        "content": {"application/json": {}, "text/event-stream": {}},
    }
}


@router.post("/v1/chat/completions", tags=["answers"], response_model=None, responses=_ANSWERED)
async def complete(
    chat: ChatIn,
    request: Request,
    tenant: Tenant,
    services: CalledServices,
    x_dialogue_id: Annotated[str, Header(max_length=256)] = "",
) -> Response:
    """OpenAI-compatible: answer a chat with what is remembered."""
    exchange = _Exchange(services, tenant, chat, x_dialogue_id, request.state.request_id)
    retrieval = await exchange.recall()
    layout = Layout(agent=chat.metadata.agent, ages=chat.metadata.profile != "paper")
    messages = [Message(m.openai_role, m.text) for m in chat.messages]
    prompt = with_memories(messages, retrieval.hits, now=exchange.now, layout=layout)
    generation = GenerationRequest(prompt.messages, chat.limit)
    if chat.stream:
        pieces = await started(services.stream(generation))
        return event_stream(exchange.events(pieces, prompt, retrieval))
    written = checked(await services.generate(generation))
    remembered = await exchange.remember(written.text)
    return JSONResponse(exchange.completion(written, prompt, retrieval) | remembered)


class _Exchange:
    """One message of a user and its answer, as OpenAI's clients know it."""

    def __init__(
        self, services: Services, tenant: str, chat: ChatIn, header: str, request_id: str
    ) -> None:
        self._services = services
        self._tenant = tenant
        self._chat = chat
        self._dialogue_id = chat.metadata.dialogue_id or header
        self._request_id = request_id
        self.now = datetime.now(UTC)
        if not self._dialogue_id:
            raise ProblemError(_NO_DIALOGUE)

    async def recall(self) -> Retrieval:
        """What is remembered; nothing where the dialogue has no memory yet."""
        *before, last = self._chat.messages
        talk = (m for m in before if m.role in ("user", "assistant"))
        spoken = [f"{m.name or m.role}: {m.text}" for m in talk][-N_RECENT:]
        question = Question(
            tenant=self._tenant,
            dialogue_id=self._dialogue_id,
            query=last.text[-MAX_QUERY_CHARS:],  # what is asked of a pasted text follows it
            recent=tuple(spoken),
            k=self._chat.metadata.k,
            profile=self._chat.metadata.profile,
            now=self.now,
        )
        try:
            return (await self._services.retrieve(question)).retrieval
        except ProblemError as error:
            if error.problem != NOT_FOUND:
                raise
            return Retrieval((), 0)

    async def remember(self, answer: str) -> Document:
        """Commit the exchange if the client asks for it; what to tell it of that."""
        metadata = self._chat.metadata
        if not metadata.remember:
            return {}
        last = self._chat.messages[-1]
        turns = (
            Turn(0, last.name or metadata.speaker, last.text, self.now),
            Turn(1, metadata.agent, answer, self.now),
        )
        session_id = metadata.session_id or f"{self.now:%Y-%m-%d}"
        posted = Posted(
            tenant=self._tenant,
            dialogue_id=self._dialogue_id,
            session_id=session_id,
            started_at=None,
            turns=turns,
            append=True,
        )
        try:
            status = (await self._services.post(posted)).status
        except ProblemError as error:  # the answer is worth more than its memory
            status = error.problem.type
            fields = {"request_id": self._request_id, "error": status}
            LOG.warning("exchange_not_remembered", extra={"fields": fields})
        return {"remembered": {"session_id": session_id, "status": status}}

    def _head(self, kind: str) -> Document:
        return {
            "id": f"chatcmpl-{self._request_id}",
            "object": kind,
            "created": int(self.now.timestamp()),
            "model": self._chat.model,
        }

    def completion(self, written: Generation, prompt: Prompt, retrieval: Retrieval) -> Document:
        """The whole answer."""
        message = {"role": "assistant", "content": written.text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": _reason(written)}
        return self._head("chat.completion") | {
            "choices": [{**choice, "logprobs": None}],
            "usage": usage_document(written, prompt),
            "memories": _memories(retrieval),
        }

    def _chunk(self, delta: Document, reason: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return event(self._head("chat.completion.chunk") | {"choices": [choice], **more})

    async def events(
        self, pieces: AsyncIterator[Generation], prompt: Prompt, retrieval: Retrieval
    ) -> AsyncIterator[str]:
        """The answer in chunks; the first one has the memories."""
        yield self._chunk({"role": "assistant", "content": ""}, memories=_memories(retrieval))
        texts, last = [], Generation("", finished=False)
        try:
            async for last in pieces:
                texts.append(last.text)
                if last.text:
                    yield self._chunk({"content": last.text})
        except ProblemError as error:
            yield event(document(error.problem, self._request_id))
            return
        remembered = await self.remember("".join(texts))
        yield self._chunk({}, _reason(last), **remembered)
        if self._chat.wants_usage:
            usage = {"choices": [], "usage": usage_document(last, prompt)}
            yield event(self._head("chat.completion.chunk") | usage)
        yield _DONE


def _reason(generation: Generation) -> str:
    return "stop" if generation.finished else "length"


def _memories(retrieval: Retrieval) -> Sequence[Document]:
    """As JSON, since ``JSONResponse`` knows no times."""
    from fastapi.encoders import jsonable_encoder

    documents: list[Document] = jsonable_encoder([hit_document(hit) for hit in retrieval.hits])
    return documents
