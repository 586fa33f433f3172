"""A question -> the memories that answer it: one text to encode, one memory to search."""

from datetime import UTC, datetime
from time import perf_counter

from glong.retrieval import query_text
from serve.records import Answered, Ask, Question
from serve.services import Services

__all__ = ["recall"]


async def recall(services: Services, question: Question) -> Answered:
    """The memories, best first.

    Raises:
        ProblemError: no such dialogue, or the service cannot answer now.
    """
    began_s = perf_counter()
    vector = await services.encode(query_text(question.query, question.recent))
    encode_ms = 1000 * (perf_counter() - began_s)
    answered = await services.retrieve(
        Ask(question=question, vector=vector, now=question.now or datetime.now(UTC))
    )
    total_ms = 1000 * (perf_counter() - began_s)
    timings = {"encode": encode_ms, **answered.timings_ms, "total": total_ms}
    return Answered(answered.retrieval, timings, answered.factors)
