"""Several threads, one batching engine: their requests run in one batch.

An engine that answers call after call drains at the end of each: its last long answers run alone.
With two calls at once the next one's requests take the places that fall free.
"""

from collections import deque
from collections.abc import Sequence
from itertools import count
from threading import Lock
from typing import Any, Protocol

__all__ = ["SharedEngine", "SteppedEngine"]

Wanted = tuple[Any, Any, Any]
"""Prompt, sampling parameters and adapter of one request."""


class SteppedEngine(Protocol):
    """What is used of ``vllm.v1.engine.llm_engine.LLMEngine``."""

    def add_request(
        self, request_id: str, prompt: Any, params: Any, *, lora_request: Any = None
    ) -> str:
        """Queue a request."""

    def step(self) -> list[Any]:
        """Advance every request by a token; outputs with ``request_id`` and ``finished``."""

    def abort_request(self, request_ids: list[str]) -> None:
        """Forget requests."""


class SharedEngine:
    """Whoever waits for an answer steps the engine for all; one thread at a time.

    Args:
        engine: used by nobody else.
    """

    def __init__(self, engine: SteppedEngine) -> None:
        self._engine = engine
        self._stepping = Lock()
        self._arrived: deque[tuple[str, Wanted]] = deque()
        self._finished: dict[str, Any] = {}
        self._ids = count()

    def run(self, wanted: Sequence[Wanted]) -> list[Any]:
        """The finished output of each request, in their order.

        Raises:
            Exception: what the engine raises; this call's requests are then aborted.
        """
        ids = [str(next(self._ids)) for _ in wanted]
        self._arrived.extend(zip(ids, wanted, strict=True))
        mine = set(ids)
        with self._stepping:
            try:
                while not mine <= self._finished.keys():
                    self._step()
            except BaseException:
                self._abandon(mine)
                raise
            outputs = [self._finished.pop(request_id) for request_id in ids]
        for output in outputs:
            if isinstance(output, Exception):
                raise output
        return outputs

    def _step(self) -> None:
        while self._arrived:
            request_id, (prompt, params, lora) = self._arrived.popleft()
            try:
                self._engine.add_request(request_id, prompt, params, lora_request=lora)
            except Exception as error:  # of whoever asked, not of who happens to step
                self._finished[request_id] = error
        for output in self._engine.step():
            if output.finished:
                self._finished[output.request_id] = output

    def _abandon(self, ids: set[str]) -> None:
        for entry in [entry for entry in self._arrived if entry[0] in ids]:
            self._arrived.remove(entry)
        for request_id in ids:
            self._finished.pop(request_id, None)
        self._engine.abort_request(sorted(ids))
