"""Sessions -> windows of turns -> chats -> triplets; the call of the model is apart from deciding.

``plan_windows``, ``chat`` and ``answer_schema`` are pure; :mod:`glong.parsing` reads the answers;
:class:`LLMExtractor` puts a generator between them. Names and the first person stay as the model
wrote them: :mod:`glong.entities` resolves them.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from glong import prompts
from glong.config import ExtractorSpec
from glong.ids import text_hash
from glong.parsing import (
    OBJECT_CHARS,
    RELATION_PATTERN,
    SUBJECT_CHARS,
    distinct,
    parse_answer,
)
from glong.protocols import Generator
from glong.types import (
    Extraction,
    Failure,
    Generation,
    GenerationRequest,
    Session,
    Triplet,
    Turn,
    Usage,
)

__all__ = [
    "LLMExtractor",
    "Window",
    "answer_schema",
    "chat",
    "extraction_fingerprint",
    "parse",
    "plan_windows",
]

CONTEXT_CHARS = 300
"""The most characters shown of a context turn: its end, which is nearest to the window."""
TOKENS_PER_TRIPLET = 48
"""Room for one triplet in the answer: 19 for the keys, the rest for the fields. SmolLM2 under the
schema: 30 on average."""


@dataclass(frozen=True, slots=True)
class Window:
    """What one call of the model reads.

    Attributes:
        turns: lines to extract from; a long turn appears as pieces with the same ``index``.
        context: lines just before, for reference, each cut to ``CONTEXT_CHARS``.
    """

    turns: tuple[Turn, ...]
    context: tuple[Turn, ...] = ()


def plan_windows(session: Session, spec: ExtractorSpec) -> tuple[Window, ...]:
    """Cut a session into windows: each line in exactly one, in order; blank turns in none."""
    lines = [piece for turn in session.turns for piece in _pieces(turn, spec.window_chars)]
    windows, start = [], 0
    while start < len(lines):
        end = start + _n_lines(islice(lines, start, start + spec.window_turns), spec.window_chars)
        before = lines[max(0, start - spec.context_turns) : start]
        context = tuple(replace(turn, text=_tail(turn.text)) for turn in before)
        windows.append(Window(tuple(lines[start:end]), context))
        start = end
    return tuple(windows)


def _pieces(turn: Turn, max_chars: int) -> Iterator[Turn]:
    """The cleaned turn, cut at spaces where there are any in the second half of a piece."""
    text = prompts.clean(turn.text)
    while len(text) > max_chars:
        cut = text.rfind(" ", max_chars // 2, max_chars + 1)
        cut = cut if cut > 0 else max_chars
        yield replace(turn, text=text[:cut])
        text = text[cut:].lstrip()
    if text:
        yield replace(turn, text=text)


def _n_lines(lines: Iterable[Turn], max_chars: int) -> int:
    """How many of the lines fit, at least one."""
    total = 0
    count = 0
    for turn in lines:
        total += len(turn.text)
        if count and total > max_chars:
            break
        count += 1
    return count


def _tail(text: str) -> str:
    return text if len(text) <= CONTEXT_CHARS else "…" + text[1 - CONTEXT_CHARS :]


def chat(window: Window, spec: ExtractorSpec) -> GenerationRequest:
    """The request for one window: the one prompt, and a schema that bounds the answer."""
    schema = _schema(len(window.turns), spec)
    messages = prompts.extraction_messages(window.turns, window.context)
    return GenerationRequest(messages, spec.max_tokens, schema)


@lru_cache(maxsize=256)
def answer_schema(
    n_turns: int, max_triplets_per_turn: int, max_tokens: int, min_triplets: int = 0
) -> str:
    """JSON schema (text) of an answer about ``n_turns`` turns.

    Every part is bounded, so that a weak model that never stops by itself ends before
    ``max_tokens``: items by ``max_triplets_per_turn`` and by the room for them, strings by their
    lengths.
    """
    n_items = min(n_turns * max_triplets_per_turn, max(1, max_tokens // TOKENS_PER_TRIPLET))
    properties = {
        "turn": {"type": "integer", "enum": list(range(1, n_turns + 1))},
        "subject": {"type": "string", "minLength": 1, "maxLength": SUBJECT_CHARS},
        "relation": {"type": "string", "pattern": RELATION_PATTERN},
        "object": {"type": "string", "minLength": 1, "maxLength": OBJECT_CHARS},
    }
    item = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    n_least = min(min_triplets, n_items)
    return json.dumps({"type": "array", "items": item, "minItems": n_least, "maxItems": n_items})


def _schema(n_turns: int, spec: ExtractorSpec) -> str:
    return answer_schema(n_turns, spec.max_triplets_per_turn, spec.max_tokens, spec.min_triplets)


def parse(text: str, window: Window) -> tuple[tuple[Triplet, ...], tuple[Failure, ...]]:
    """Read the model's answer about a window; never raises; see :mod:`glong.parsing`."""
    return parse_answer(text, window.turns)


def extraction_fingerprint(generator: str, spec: ExtractorSpec) -> str:
    """Identity of what an extractor makes: the generator's, the prompt, and what changes results.

    Sizes of batches, concurrency and timeouts are left out on purpose.
    """
    schema = _schema(spec.window_turns, spec)
    windows = (spec.window_turns, spec.context_turns, spec.window_chars, CONTEXT_CHARS)
    answers = (spec.max_triplets_per_turn, spec.max_tokens)
    prompt = (prompts.EXTRACTION_PROMPT_VERSION, prompts.EXTRACTION_SYSTEM)
    return text_hash("extractor", generator, *prompt, *map(str, windows + answers), schema)


class LLMExtractor:
    """Extracts with any generator: one batched call for all windows of all sessions."""

    def __init__(self, generator: Generator, spec: ExtractorSpec) -> None:
        self._generator = generator
        self._spec = spec

    @property
    def fingerprint(self) -> str:
        """Identity of model, prompt and settings."""
        return extraction_fingerprint(self._generator.fingerprint, self._spec)

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        """Extract the facts of each session.

        Raises:
            ModelError: the generator as a whole is unusable.
        """
        plans = [plan_windows(session, self._spec) for session in sessions]
        requests = [chat(window, self._spec) for windows in plans for window in windows]
        answers = self._generator.generate(requests) if requests else []
        if len(answers) != len(requests):
            raise AssertionError(f"{len(answers)} generations for {len(requests)} requests")
        left = iter(answers)
        return [_merge(windows, list(islice(left, len(windows)))) for windows in plans]


def _merge(windows: Sequence[Window], answers: Sequence[Generation]) -> Extraction:
    """The answers about one session's windows, as one extraction in order of turns."""
    triplets: list[Triplet] = []
    failures: list[Failure] = []
    for window, answer in zip(windows, answers, strict=True):
        if answer.failure:
            first = window.turns[0].index
            failures.append(replace(answer.failure, stage="extract", turn_index=first))
            continue
        found, unread = parse(answer.text, window)
        triplets += found
        failures += unread
    usage = sum((answer.usage for answer in answers), Usage())
    ordered = sorted(distinct(triplets), key=lambda triplet: triplet.turn_index)
    return Extraction(tuple(ordered), tuple(failures), usage, len(windows))
