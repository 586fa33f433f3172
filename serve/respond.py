"""``/respond``: a message answered with what is remembered, whole or as server-sent events."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from glong.prompting import Layout, build_prompt
from glong.types import Generation, GenerationRequest, Prompt, Retrieval
from serve.dependencies import CalledServices, Tenant
from serve.errors import ProblemError, document
from serve.events import checked, event, event_stream, started
from serve.reading import hit_document
from serve.records import Document, Question
from serve.schemas import Id, RespondIn, RespondOut, recent_texts

__all__ = ["router", "usage_document"]

router = APIRouter()
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "With `stream` server-sent events: `memories`, then `delta`s, then `done`.",
        "content": {"text/event-stream": {}},
    }
}


@router.post(
    "/v1/dialogues/{dialogue_id}/respond",
    tags=["answers"],
    response_model=RespondOut,
    responses=_STREAMED,
)
async def respond(
    dialogue_id: Id, asked: RespondIn, request: Request, tenant: Tenant, services: CalledServices
) -> Document | Response:
    """Answer a message with what is remembered; the memories used come with the answer."""
    now = asked.now or datetime.now(UTC)
    recent = recent_texts(asked.recent)
    question = Question(
        tenant=tenant,
        dialogue_id=dialogue_id,
        query=asked.message,
        recent=recent,
        k=asked.k,
        profile=asked.profile,
        now=now,
    )
    retrieval = (await services.retrieve(question)).retrieval
    layout = Layout(agent=asked.agent, user=asked.user, ages=asked.profile != "paper")
    prompt = build_prompt(asked.message, retrieval.hits, recent, now=now, layout=layout)
    generation = GenerationRequest(prompt.messages, asked.max_tokens)
    if asked.stream:
        pieces = await started(services.stream(generation))
        return event_stream(_events(pieces, prompt, retrieval, request.state.request_id))
    written = checked(await services.generate(generation))
    return _whole(written.text, written, prompt, retrieval)


def _whole(text: str, last: Generation, prompt: Prompt, retrieval: Retrieval) -> Document:
    return {
        "response": text,
        "memories": [hit_document(hit) for hit in retrieval.hits],
        "usage": usage_document(last, prompt),
        "finished": last.finished,
        "store_version": retrieval.store_version,
    }


def usage_document(generation: Generation, prompt: Prompt) -> Document:
    """Tokens as the model counted them, else those of the prompt as estimated."""
    used = generation.usage
    n_in = used.tokens_in or prompt.n_tokens
    return {
        "prompt_tokens": n_in,
        "completion_tokens": used.tokens_out,
        "total_tokens": n_in + used.tokens_out,
        "counted_by": "model" if used.tokens_in else prompt.counted_by,
    }


async def _events(
    pieces: AsyncIterator[Generation], prompt: Prompt, retrieval: Retrieval, request_id: str
) -> AsyncIterator[str]:
    yield event([hit_document(hit) for hit in retrieval.hits], "memories")
    texts, last = [], Generation("", finished=False)
    try:
        async for last in pieces:
            texts.append(last.text)
            if last.text:
                yield event({"text": last.text}, "delta")
    except ProblemError as error:
        yield event(document(error.problem, request_id), "error")
        return
    yield event(_whole("".join(texts), last, prompt, retrieval), "done")
