"""The routes: HTTP in, calls of :class:`~serve.services.Services`, HTTP out. Knows no Ray."""

from time import perf_counter
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from glong._version import __version__
from glong.types import Turn
from serve import chat, pages, respond
from serve.auth import Keys
from serve.dependencies import CalledServices, Tenant
from serve.errors import Problem, ProblemError, http_problem, invalid
from serve.middleware import Observe, RequestMiddleware, problem_response
from serve.reading import hit_document
from serve.records import Document, FactChange, Forget, Posted, Question
from serve.schemas import (
    ERRORS,
    ChangedOut,
    Correction,
    Dialogues,
    FactIn,
    GraphOut,
    Id,
    IngestOut,
    PageSize,
    ReceiptOut,
    RetrieveIn,
    RetrieveOut,
    SessionIn,
    Sessions,
    TurnIndex,
    recent_texts,
)
from serve.services import Services

__all__ = ["make_api"]

PENDING = Problem(
    503, "model_unavailable", "The model that extracts facts is unavailable for now.",
    "Post the session again after Retry-After seconds: nothing of it was stored.", 5.0,
)  # fmt: skip
_DESCRIPTION = (
    "Memories of long dialogues. A dialogue id is the scope of one memory: pass the user's id for"
    " one memory a user. Authenticate with `Authorization: Bearer KEY`."
)

router = APIRouter()
SearchText = Annotated[str, Query(max_length=256, description="only ids that contain this")]
Cursor = Annotated[str, Query(max_length=256, description="`next` of the page before")]


def make_api(
    services: Services, keys: Keys, observe: Observe, *, names_request: bool = True
) -> FastAPI:
    """The application.

    Args:
        services: what the routes call.
        keys: who may ask.
        observe: counts each request.
        names_request: whether answers carry ``X-Request-Id``; not where a proxy adds it.
    """
    api = FastAPI(title="glong", version=__version__, description=_DESCRIPTION)
    api.state.services = services
    for part in (router, respond.router, chat.router, pages.router):
        api.include_router(part, responses=ERRORS)
    api.add_exception_handler(ProblemError, _on_problem)
    api.add_exception_handler(RequestValidationError, _on_invalid)
    api.add_exception_handler(HTTPException, _on_http)
    api.add_middleware(RequestMiddleware, keys=keys, observe=observe, names_request=names_request)
    return api


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return problem_response(error.problem, request.state.request_id)


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(invalid(error.errors()), request.state.request_id)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = http_problem(error.status_code, error.detail)
    response = problem_response(problem, request.state.request_id)
    response.headers.update(error.headers or {})
    return response


@router.get("/healthz", tags=["service"])
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok", "version": __version__}


@router.get("/readyz", tags=["service"])
async def readyz(services: CalledServices) -> dict[str, str]:
    """Store and models are there: a request now would be answered."""
    if missing := await services.not_ready():
        message = f"Not ready: {', '.join(missing)}."
        raise ProblemError(Problem(503, "not_ready", message, "Ask again soon.", 2.0))
    return {"status": "ready"}


@router.get("/metrics", tags=["service"], response_class=PlainTextResponse)
async def metrics(services: CalledServices) -> PlainTextResponse:
    """Counts of all replicas, in Prometheus text; some seconds old."""
    return PlainTextResponse(await services.metrics(), media_type="text/plain; version=0.0.4")


@router.post("/v1/dialogues/{dialogue_id}/sessions", tags=["memory"], response_model=IngestOut)
async def post_session(
    dialogue_id: Id, session: SessionIn, tenant: Tenant, services: CalledServices
) -> Document:
    """Remember a session; visible to the next request. Idempotent by its id and content."""
    turns = tuple(Turn(i, t.speaker, t.text, t.time) for i, t in enumerate(session.turns))
    done = await services.post(
        Posted(
            tenant=tenant,
            dialogue_id=dialogue_id,
            session_id=session.session_id,
            started_at=session.started_at,
            turns=turns,
        )
    )
    if done.status == "pending":
        raise ProblemError(PENDING)
    return {
        "dialogue_id": dialogue_id,
        "session_id": session.session_id,
        "status": done.status,
        **done.counts,
        "store_version": done.store_version,
    }


@router.post("/v1/dialogues/{dialogue_id}/retrieve", tags=["memory"], response_model=RetrieveOut)
async def retrieve(
    dialogue_id: Id, asked: RetrieveIn, tenant: Tenant, services: CalledServices
) -> Response:
    """The memories that answer a question, best first, with why each was chosen."""
    began_s = perf_counter()
    answered = await services.retrieve(
        Question(
            tenant=tenant,
            dialogue_id=dialogue_id,
            query=asked.query,
            recent=recent_texts(asked.recent),
            k=asked.k,
            profile=asked.profile,
            now=asked.now,
            as_of=asked.as_of,
        )
    )
    timings_ms = {**answered.timings_ms, "total": 1000 * (perf_counter() - began_s)}
    found = {
        "hits": [hit_document(hit) for hit in answered.retrieval.hits],
        "factors": dict(answered.factors),
        "store_version": answered.retrieval.store_version,
        "timings_ms": {name: round(ms, 2) for name, ms in timings_ms.items()},
    }
    # As `RetrieveOut` would write it, which a test holds it to, without the pass through models.
    return Response(to_json(found, inf_nan_mode="null"), media_type="application/json")


@router.get("/v1/dialogues", tags=["memory"], response_model=Dialogues)
async def list_dialogues(
    tenant: Tenant,
    services: CalledServices,
    q: SearchText = "",
    after: Cursor = "",
    limit: PageSize = 100,
) -> Document:
    """The tenant's memories, by id."""
    return await services.dialogues(tenant, q, after, limit)


@router.get("/v1/dialogues/{dialogue_id}/graph", tags=["memory"], response_model=GraphOut)
async def get_graph(dialogue_id: Id, tenant: Tenant, services: CalledServices) -> Document:
    """One memory as nodes and edges."""
    return await services.graph(tenant, dialogue_id)


@router.get("/v1/dialogues/{dialogue_id}/sessions", tags=["memory"], response_model=Sessions)
async def list_sessions(
    dialogue_id: Id,
    tenant: Tenant,
    services: CalledServices,
    after: Cursor = "",
    limit: PageSize = 100,
) -> Document:
    """The sessions of a memory, by start."""
    return await services.sessions(tenant, dialogue_id, after, limit)


@router.get("/v1/dialogues/{dialogue_id}/export", tags=["memory"])
async def export(dialogue_id: Id, tenant: Tenant, services: CalledServices) -> JSONResponse:
    """All that is stored of a memory: table -> rows, without vectors."""
    return JSONResponse(await services.export(tenant, dialogue_id))


@router.post("/v1/dialogues/{dialogue_id}/facts", tags=["memory"], response_model=ChangedOut)
async def add_fact(
    dialogue_id: Id, fact: FactIn, tenant: Tenant, services: CalledServices
) -> Document:
    """State a fact by hand; kept through rebuilds, marked as such."""
    change = FactChange(tenant=tenant, dialogue_id=dialogue_id, **fact.model_dump())
    done = await services.change_fact(change)
    return {"edge_id": done.edge_id, "store_version": done.store_version}


@router.put(
    "/v1/dialogues/{dialogue_id}/edges/{edge_id}", tags=["memory"], response_model=ChangedOut
)
async def correct(
    dialogue_id: Id, edge_id: Id, fact: Correction, tenant: Tenant, services: CalledServices
) -> Document:
    """Put a fact right; kept through rebuilds, marked as such."""
    change = FactChange(
        tenant=tenant, dialogue_id=dialogue_id, edge_id=edge_id, **fact.model_dump()
    )
    done = await services.change_fact(change)
    return {"edge_id": done.edge_id, "store_version": done.store_version}


@router.delete("/v1/dialogues/{dialogue_id}", tags=["forgetting"], response_model=ReceiptOut)
async def forget_dialogue(dialogue_id: Id, tenant: Tenant, services: CalledServices) -> Document:
    """Forget a whole memory; the receipt says what went from which table."""
    return await services.forget(Forget(tenant=tenant, dialogue_id=dialogue_id))


@router.delete(
    "/v1/dialogues/{dialogue_id}/sessions/{session_id}",
    tags=["forgetting"],
    response_model=ReceiptOut,
)
async def forget_session(
    dialogue_id: Id, session_id: Id, tenant: Tenant, services: CalledServices
) -> Document:
    """Forget a session."""
    return await services.forget(
        Forget(tenant=tenant, dialogue_id=dialogue_id, session_id=session_id)
    )


@router.delete(
    "/v1/dialogues/{dialogue_id}/sessions/{session_id}/turns/{turn_index}",
    tags=["forgetting"],
    response_model=ReceiptOut,
)
async def forget_turn(
    dialogue_id: Id, session_id: Id, turn_index: TurnIndex, tenant: Tenant, services: CalledServices
) -> Document:
    """Forget one turn and the facts that it states."""
    return await services.forget(
        Forget(
            tenant=tenant, dialogue_id=dialogue_id, session_id=session_id, turn_index=turn_index
        ),
    )


@router.delete(
    "/v1/dialogues/{dialogue_id}/edges/{edge_id}", tags=["forgetting"], response_model=ReceiptOut
)
async def forget_edge(
    dialogue_id: Id, edge_id: Id, tenant: Tenant, services: CalledServices
) -> Document:
    """Forget one fact."""
    return await services.forget(Forget(tenant=tenant, dialogue_id=dialogue_id, edge_id=edge_id))


@router.delete(
    "/v1/dialogues/{dialogue_id}/entities/{entity}", tags=["forgetting"], response_model=ReceiptOut
)
async def forget_entity(
    dialogue_id: Id, entity: Id, tenant: Tenant, services: CalledServices, turns: bool = False
) -> Document:
    """Forget a person or thing by id or name: its facts; with `turns` also what names it."""
    return await services.forget(
        Forget(tenant=tenant, dialogue_id=dialogue_id, entity=entity, turns=turns)
    )
