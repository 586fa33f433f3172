"""The model's answer -> triplets and failures. Never raises: any text can come out of a model.

Accepted, in this order of trying: a ``<think>`` block and code fences around the answer are left
out; then the first JSON value that holds items counts:

- a list of objects with ``turn``, ``subject``, ``relation``, ``object`` (any case; ``head`` or
  ``s``, ``predicate`` or ``r``, ``tail`` or ``o`` too), or objects one after another without a
  list;
- the same without ``turn`` (the paper's form): tied to the turn if the window has one, else to the
  turn that shares most words with the triplet, else to the first;
- lists ``[s, r, o]`` or ``[turn, s, r, o]``; one such triplet alone;
- an object around such a list, such as ``{"triplets": [...]}``, or one for each turn with its
  ``turn``;
- a list that breaks off: complete items are kept, with a failure ``truncated_output``.

Failures: ``unparsable_output`` (no JSON at all), ``truncated_output``, ``malformed_triplet`` (an
item that is no triplet), ``unknown_turn`` (a turn number that the window has not),
``copied_example`` (the object of the prompt's example, which no turn mentions).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from glong.prompts import EXAMPLE_OBJECTS
from glong.types import Failure, Triplet, Turn

__all__ = [
    "OBJECT_CHARS",
    "RELATION_CHARS",
    "RELATION_PATTERN",
    "SUBJECT_CHARS",
    "answer_text",
    "distinct",
    "parse_answer",
]

SUBJECT_CHARS, OBJECT_CHARS = 40, 80
"""The most characters of a field; longer ones are cut. Whole clauses are no entities."""
RELATION_PATTERN = "^[a-z]{1,16}(_[a-z]{1,16}){0,4}$"
"""Every listed relation and its denial: ``live_in_citystatecountry``, ``not_`` and four words."""
RELATION_CHARS = 85
"""Above what the pattern allows (84): free answers may use other letters."""

_ANSWER_CHARS = 65_536
_RAW_CHARS = 1_000
_MAX_STARTS = 16
_ALIASES = {
    "subject": ("subject", "head", "subj", "s"),
    "relation": ("relation", "predicate", "rel", "r", "p"),
    "object": ("object", "tail", "obj", "o"),
    "turn": ("turn", "turn_number", "turn_id", "t"),
}
_FENCE = re.compile(r"```[a-zA-Z]*")
_THINK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_WORD = re.compile(r"\w+")
_GAP = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder(strict=False)


def answer_text(triplets: Iterable[Triplet], turns: Sequence[Turn]) -> str:
    """The answer that states these triplets: what :func:`parse_answer` reads back.

    Training data is written with it, in the very spacing that constrained decoding allows.

    Args:
        triplets: each ``turn_index`` is one of the turns'.
        turns: in the order in which the prompt numbers them.
    """
    numbers = {turn.index: number for number, turn in reversed(list(enumerate(turns, 1)))}
    items = [
        {
            "turn": numbers[t.turn_index],
            "subject": t.subject,
            "relation": t.relation,
            "object": t.object,
        }
        for t in triplets
    ]
    return json.dumps(items, ensure_ascii=False, separators=(",", ":"))


def parse_answer(
    text: str, turns: Sequence[Turn]
) -> tuple[tuple[Triplet, ...], tuple[Failure, ...]]:
    """Read an answer about numbered turns.

    Args:
        text: what the model wrote.
        turns: the lines that the prompt numbered 1, 2, ...; at least one.

    Returns:
        Distinct triplets in the order of the answer, and what could not be read.
    """
    items, problem = _read_items(text)
    triplets: list[Triplet] = []
    failures = [] if problem is None else [_failure(problem, _MESSAGES[problem], text, turns)]
    for item in items:
        read = _triplet(item, turns)
        if isinstance(read, Triplet):
            triplets.append(read)
        else:
            failures.append(
                _failure(read, _MESSAGES[read].format(n=len(turns)), _shown(item), turns)
            )
    return distinct(triplets), tuple(failures)


def distinct(triplets: Iterable[Triplet]) -> tuple[Triplet, ...]:
    """The triplets in order, without exact repetitions within a turn."""
    return tuple(dict.fromkeys(triplets))


_MESSAGES = {
    "unparsable_output": "the answer holds no JSON list of triplets",
    "truncated_output": "the answer broke off; its complete triplets were kept. Raise max_tokens",
    "malformed_triplet": "an item is not a triplet of subject, relation and object",
    "copied_example": "an item repeats the example of the prompt; use a stronger or a tuned model",
    "unknown_turn": "an item names a turn that was not shown; allowed: 1 to {n}",
}


def _failure(kind: str, message: str, raw: str, turns: Sequence[Turn]) -> Failure:
    return Failure("extract", kind, message, _plain(raw[:_RAW_CHARS]), turn_index=turns[0].index)


def _shown(item: object) -> str:
    try:
        return json.dumps(item, ensure_ascii=False)
    except (ValueError, RecursionError):  # too deep, or an integer of thousands of digits
        return type(item).__name__


# --- text -> items


def _read_items(text: str) -> tuple[list[object], str | None]:
    """The items of an answer, and what was wrong with it as a whole."""
    body = _FENCE.sub("", _THINK.sub("", text[:_ANSWER_CHARS]))
    starts = (match.start() for match in re.finditer(r"[\[{]", body))
    for _, start in zip(range(_MAX_STARTS), starts, strict=False):
        found = _items_at(body, start)
        if found is not None:
            return found
    return [], "unparsable_output"


def _items_at(body: str, start: int) -> tuple[list[object], str | None] | None:
    """The items of the JSON that begins here; ``None`` if it holds none."""
    value, end = _decode(body, start)
    if end is None:
        items = [item for each in _complete_items(body, start) for item in _unwrap(each)]
        return (items, "truncated_output") if items else None
    if not isinstance(value, dict):
        return _list_items(value)
    values = [value, *_following(body, end)]
    return [item for each in values for item in _unwrap(each)], None


def _decode(body: str, start: int) -> tuple[object, int | None]:
    """The JSON value that begins here and its end, or an end of ``None``."""
    try:
        return _DECODER.raw_decode(body, start)
    except (ValueError, RecursionError):
        return None, None


def _list_items(value: object) -> tuple[list[object], str | None] | None:
    if not isinstance(value, list):
        return None
    if _is_row(value):
        return [value], None
    if value and not any(isinstance(item, dict | list) for item in value):
        return None  # a list in a sentence, such as [1]
    return [inner for item in value for inner in _unwrap(item)], None


def _complete_items(body: str, start: int) -> Iterator[object]:
    """What is complete in a list, or an object around a list, that breaks off."""
    if body[start] == "{":
        start = body.find("[", start)
        if start < 0:
            return
    yield from _following(body, start + 1)


def _following(body: str, start: int) -> Iterator[object]:
    """JSON objects and lists one after another, until something else comes."""
    while True:
        gap = _GAP.match(body, start)
        start = gap.end() if gap else start
        if start >= len(body) or body[start] not in "[{":
            return
        value, end = _decode(body, start)
        if end is None:
            return
        yield value
        start = end


def _unwrap(item: object) -> list[object]:
    """An object around a list of triplets -> these, with the object's turn; else the item."""
    if not isinstance(item, dict) or _field(item, "subject") is not None:
        return [item]
    lists = [value for value in item.values() if isinstance(value, list)]
    if len(lists) != 1:
        return [item]
    inner = [lists[0]] if _is_row(lists[0]) else lists[0]
    turn = _field(item, "turn")
    return inner if turn is None else [_with_turn(each, turn) for each in inner]


def _with_turn(item: object, turn: object) -> object:
    if isinstance(item, dict):
        return {"turn": turn, **item}
    return [turn, *item] if isinstance(item, list) and len(item) == 3 else item


# --- item -> triplet


def _is_row(value: list[object]) -> bool:
    """Whether this is ``[s, r, o]`` or ``[turn, s, r, o]``."""
    return len(value) in (3, 4) and all(isinstance(part, str) for part in value[-3:])


def _triplet(item: object, turns: Sequence[Turn]) -> Triplet | str:
    """The triplet that an item states, or the kind of its failure."""
    if isinstance(item, list) and _is_row(item):
        turn = item[0] if len(item) == 4 else None
        item = dict(zip(("subject", "relation", "object"), item[-3:], strict=True)) | {"turn": turn}
    if not isinstance(item, dict):
        return "malformed_triplet"
    subject = _cut(_field(item, "subject"), SUBJECT_CHARS)
    relation = _cut(_field(item, "relation"), RELATION_CHARS)
    object_ = _cut(_field(item, "object"), OBJECT_CHARS)
    if not (subject and relation and object_):
        return "malformed_triplet"
    if _is_copied(object_, turns):
        return "copied_example"
    number = _field(item, "turn")
    if number is None:
        return Triplet(subject, relation, object_, _likeliest(turns, subject, object_))
    place = _turn_number(number)
    if place is None or not 1 <= place <= len(turns):
        return "unknown_turn"
    return Triplet(subject, relation, object_, turns[place - 1].index)


def _is_copied(object_: str, turns: Sequence[Turn]) -> bool:
    """Whether a weak model took the object from the example instead of the dialogue."""
    copied = object_.lower() in EXAMPLE_OBJECTS
    return copied and not any(object_.lower() in turn.text.lower() for turn in turns)


def _field(item: Mapping[str, object], name: str) -> object:
    lowered = {key.strip().lower(): value for key, value in item.items()}
    return next(
        (lowered[alias] for alias in _ALIASES[name] if lowered.get(alias) is not None), None
    )


def _cut(value: object, max_chars: int) -> str:
    """A field as one bounded line; empty if it is no text or has no letter or digit."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = ", ".join(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = " ".join(_plain(value).split())
    if len(text) > max_chars:
        head, space, _ = text[: max_chars + 1].rpartition(" ")
        text = head if space else text[:max_chars]
    return text if _WORD.search(text) else ""


def _plain(value: str | int | float) -> str:
    """Text without what UTF-8 cannot hold: JSON escapes can make half a surrogate pair."""
    try:
        text = str(value)
    except ValueError:  # an integer of thousands of digits
        return ""
    return text.encode("utf-8", "ignore").decode("utf-8")


def _turn_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        digits = re.search(r"-?\d{1,6}", value)
        return int(digits.group()) if digits else None
    return int(value) if isinstance(value, int | float) and value == value // 1 else None


def _likeliest(turns: Sequence[Turn], subject: str, object_: str) -> int:
    """The turn that shares most words with a triplet; the first of equals."""
    words = set(_WORD.findall(f"{subject} {object_}".lower()))

    def shared(turn: Turn) -> int:
        return len(words.intersection(_WORD.findall(f"{turn.speaker} {turn.text}".lower())))

    return max(turns, key=shared).index
