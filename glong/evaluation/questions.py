"""Benchmark questions with the turns that answer them, read apart from the dialogues.

A source (:mod:`glong.sources`) reads what was said, this module what is asked about it. Both name
a turn by its session id and index, and only turns that the source keeps count as evidence. Every
trap that the labels of a data set hold is counted (``traps``), for the report.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from glong.errors import ConfigError, SourceError
from glong.ids import content_hash
from glong.sources import locomo, longmemeval, msc, times
from glong.sources.files import Raw, raw_records
from glong.sources.records import BadItem, Field, Found, Item
from glong.types import Session

__all__ = ["BENCHMARKS", "Benchmark", "Question", "TurnPlace", "load_benchmark"]

TurnPlace = tuple[str, int]
"""Session id and ``Turn.index``, as a store keeps them."""

LOCOMO_CATEGORIES = {
    1: "multi_hop",
    2: "temporal",
    3: "open_domain",
    4: "single_hop",
    5: "adversarial",
}
LOCOMO_TUNED_ON = frozenset({"conv-26", "conv-30", "conv-41", "conv-42", "conv-43"})
_DIA_ID = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about one dialogue.

    Attributes:
        question_id: unique within the benchmark.
        dialogue_id: whose memory is asked.
        category: as the data set calls it, snake_case.
        text: what is asked.
        now_s: when, seconds since 1970 UTC; NaN where the data has no times.
        gold: the turns that answer it, sorted, at least one.
        headline: counts in the overall metrics, not only in those of its category.
        tuned_on: settings were chosen with it; the others are the untouched half.
    """

    question_id: str
    dialogue_id: str
    category: str
    text: str
    now_s: float
    gold: tuple[TurnPlace, ...]
    headline: bool = True
    tuned_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A data set's questions.

    Attributes:
        name: of the benchmark, which is also its format as a source.
        questions: those that can be asked, in the order of the data.
        traps: what the labels held that needed care, counted.
        notes: what was decided for this data, for the report.
        user_speaker: the speaker whose turns are also judged alone; empty for none.
    """

    name: str
    questions: tuple[Question, ...]
    traps: dict[str, int]
    notes: tuple[str, ...]
    user_speaker: str = ""

    def first(self, n: int) -> "Benchmark":
        """The same with its first n questions; traps are still those of all."""
        return replace(self, questions=self.questions[:n])


def load_benchmark(name: str, path: str) -> Benchmark:
    """The questions of one file.

    Args:
        name: one of ``BENCHMARKS``.
        path: file, as :func:`glong.sources.files.raw_records` reads it.

    Raises:
        ConfigError: no such benchmark, or one whose data has no labels.
        SourceError: the file cannot be read, or a record has not the benchmark's form.
    """
    if name not in _READERS:
        raise ConfigError(f"benchmark is {name!r}; {_WHY.get(name, _ALLOWED)}")
    read, notes, user_speaker = _READERS[name]
    traps: Counter[str] = Counter()
    questions: list[Question] = []
    for position, raw in enumerate(raw_records(path)):
        if not isinstance(raw, Raw):
            raise SourceError(f"{path}: {raw.message}")
        try:
            questions += read(Field(raw.value, raw.place), position, traps)
        except BadItem as bad:
            where = f"{path}, record {raw.place.line}"
            raise SourceError(f"{where}: {bad.failure.message} (benchmark {name})") from bad
    if not questions:
        raise SourceError(f"{path}: no question with a labelled turn for the benchmark {name}.")
    return Benchmark(
        name=name,
        questions=tuple(questions),
        traps=dict(sorted(traps.items())),
        notes=notes,
        user_speaker=user_speaker,
    )


def _sessions(items: Iterator[Item]) -> list[Found]:
    """The sessions as a store gets them, but for the second of two that are the same."""
    return [item for item in items if isinstance(item, Found)]


def _places(sessions: list[Session]) -> frozenset[TurnPlace]:
    return frozenset((s.session_id, turn.index) for s in sessions for turn in s.turns)


def _end_s(sessions: list[Session]) -> float:
    """The start of the last session; NaN where none has one."""
    starts = [session.started_at.timestamp() for session in sessions if session.started_at]
    return max(starts, default=float("nan"))


def _locomo(sample: Field, position: int, traps: Counter[str]) -> Iterator[Question]:
    sessions = [found.session for found in _sessions(locomo.sessions(sample.value, sample.place))]
    dialogue_id, places = sample["sample_id"].identifier(), _places(sessions)
    for number, qa in enumerate(sample["qa"].items()):
        traps["questions"] += 1
        code = qa["category"].value
        if not isinstance(code, int) or code not in LOCOMO_CATEGORIES:
            raise qa["category"].bad("unknown_category", "allowed: 1 to 5")
        gold = _locomo_gold(qa, places, traps)
        if not gold:
            traps["questions_left_out"] += 1
            continue
        yield Question(
            question_id=f"{dialogue_id}/{number}",
            dialogue_id=dialogue_id,
            category=LOCOMO_CATEGORIES[code],
            text=qa["question"].speech(),
            now_s=_end_s(sessions),
            gold=gold,
            headline=code != 5,
            tuned_on=dialogue_id in LOCOMO_TUNED_ON,
        )


def _locomo_gold(
    qa: Field, places: frozenset[TurnPlace], traps: Counter[str]
) -> tuple[TurnPlace, ...]:
    """The turns that a question's evidence names and that exist."""
    gold: set[TurnPlace] = set()
    evidence = [field.string() for field in qa["evidence"].items()]
    traps["questions_without_evidence"] += not evidence
    for text in evidence:
        dia_ids = _DIA_ID.findall(text)
        traps["evidence_strings"] += 1
        traps["evidence_strings_without_an_id"] += not dia_ids
        traps["evidence_strings_with_several_ids"] += len(dia_ids) > 1
        for dia_id in dia_ids:
            session, _, turn = dia_id[1:].partition(":")
            traps["ids_with_a_leading_zero"] += session.startswith("0") or turn.startswith("0")
            try:
                place = locomo.turn_place(dia_id)
            except ValueError:
                place = ("", -1)
            traps["ids_that_name_no_turn"] += place not in places
            traps["ids_named_twice"] += place in gold
            gold |= {place} & places
    return tuple(sorted(gold))


def _longmemeval(record: Field, position: int, traps: Counter[str]) -> Iterator[Question]:
    traps["questions"] += 1
    question_id = record["question_id"].identifier()
    if question_id.endswith("_abs"):
        traps["abstention_questions_left_out"] += 1
        return
    now = record["question_date"].time(times.longmemeval).replace(tzinfo=UTC)
    gold = _longmemeval_gold(record, now, traps)
    if not gold:
        traps["questions_left_out"] += 1
        return
    yield Question(
        question_id=question_id,
        dialogue_id=question_id,
        category=record["question_type"].name().replace("-", "_"),
        text=record["question"].speech(),
        now_s=now.timestamp(),
        gold=gold,
        tuned_on=position % 2 == 0,
    )


def _longmemeval_gold(record: Field, now: datetime, traps: Counter[str]) -> tuple[TurnPlace, ...]:
    """The turns with ``has_answer``, under the names that the source gives their sessions."""
    stored: dict[tuple[str, str], Session] = {}
    names: dict[str, str] = {}
    for found in _sessions(longmemeval.sessions(record.value, record.place)):
        # The reader keeps the first of two sessions of one raw id and one content.
        kept = stored.setdefault((found.raw_id, content_hash(found.session)), found.session)
        traps["sessions_that_come_twice"] += kept is not found.session
        names[found.session.session_id] = kept.session_id
    places = _places(list(stored.values()))
    gold: set[TurnPlace] = set()
    for number, session in enumerate(record["haystack_sessions"].items()):
        labelled = [i for i, turn in enumerate(session.items()) if _has_answer(turn)]
        named = {(names.get(longmemeval.session_id(number), ""), index) for index in labelled}
        traps["labelled_turns"] += len(named)
        traps["labelled_turns_not_stored"] += len(named - places)
        gold |= named & places
    starts = {session.session_id: session.started_at for session in stored.values()}
    late = [place for place in gold if (start := starts[place[0]]) and start > now]
    traps["questions_with_evidence_dated_after_them"] += bool(late)
    return tuple(sorted(gold))


def _has_answer(turn: Field) -> bool:
    label = turn.get("has_answer")
    return label is not None and label.value is True


def _msc(episode: Field, position: int, traps: Counter[str]) -> Iterator[Question]:
    """A persona sentence that an annotator wrote of a turn asks for that turn."""
    sessions = [found.session for found in _sessions(msc.sessions(episode.value, episode.place))]
    dialogue_id, places = episode["id"].identifier(), _places(sessions)
    gold: dict[tuple[str, str], set[TurnPlace]] = {}
    for session in episode["sessions"].items():
        session_id = f"session_{session['session'].identifier()}"
        for index, turn in enumerate(session["dialog"].items()):
            label = turn.get("persona_text")
            if label is None or not label.string().strip():
                continue
            key = turn["speaker"].name(), label.string().strip()
            traps["persona_sentences"] += 1
            traps["persona_sentences_of_several_turns"] += key in gold
            gold.setdefault(key, set()).update({(session_id, index)} & places)
    for number, ((speaker, sentence), turns) in enumerate(gold.items()):
        if not turns:
            traps["questions_left_out"] += 1
            continue
        yield Question(
            question_id=f"{dialogue_id}/{number}",
            dialogue_id=dialogue_id,
            category=min(turns)[0],
            text=f"{speaker}: {sentence}",
            now_s=_end_s(sessions),
            gold=tuple(sorted(turns)),
        )


_Read = Callable[[Field, int, Counter[str]], Iterator[Question]]
_READERS: dict[str, tuple[_Read, tuple[str, ...], str]] = {
    "locomo": (
        _locomo,
        (
            "Overall metrics: categories 1 to 4 with evidence that names a turn; adversarial"
            " questions (5) only by category.",
            "now = the start of the conversation's last session: LoCoMo's questions have no date.",
            "Settings were chosen on conv-26, conv-30, conv-41, conv-42 and conv-43.",
        ),
        "",
    ),
    "longmemeval": (
        _longmemeval,
        (
            "Overall metrics: questions that are not abstention and have a labelled turn.",
            "now = the question's date; turns dated after it are not left out, since some"
            " evidence is.",
            "User turns alone: other turns are passed over in every ranking, and only labelled"
            " user turns count.",
            "Settings were chosen on the questions at even positions of the file, from 0.",
        ),
        "user",
    ),
    "msc": (
        _msc,
        (
            "MSC has no questions. Asked is each persona sentence that an annotator wrote of a"
            " turn (`persona_text`, after its speaker's name); what answers it is that turn.",
            "now = the start of the episode's last session (MSC's times are nominal).",
        ),
        "",
    ),
}
BENCHMARKS = (*_READERS, "conversation_chronicles")
_ALLOWED = f"allowed: {', '.join(BENCHMARKS)}."
_WHY = {
    "conversation_chronicles": (
        "its data has no labels that say which turn answers which message, so no retrieval can be"
        f" judged on it; allowed: {', '.join(_READERS)}."
    )
}
