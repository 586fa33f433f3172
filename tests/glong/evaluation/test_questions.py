"""Questions and labels: the traps of each data set, and that no label reaches an index."""

import json
from pathlib import Path
from typing import Any

import pytest

from glong.errors import ConfigError, SourceError
from glong.evaluation.questions import Benchmark, load_benchmark
from glong.sources import Reader
from glong.types import Session
from tests.glong.evaluation.memories import locomo_sample, qa


def load(tmp_path: Path, name: str, *records: object) -> Benchmark:
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return load_benchmark(name, str(path))


def test_locomo_splits_evidence_and_drops_ids_that_name_no_turn(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        "locomo",
        locomo_sample(
            "conv-26",
            [
                qa("Two in one?", "D1:1; D2:03"),
                qa("Gone?", "D1:9", "D2:1"),
                qa("Nothing?", "D", "D:11:26"),
                qa("No evidence?"),
                qa("Twice?", "D1:2 D1:2", category=5),
            ],
        ),
    )
    gold = {q.text: q.gold for q in found.questions}
    assert gold == {
        "Two in one?": (("session_1", 0), ("session_2", 2)),
        "Gone?": (("session_2", 0),),
        "Twice?": (("session_1", 1),),
    }
    assert found.traps == {
        "questions": 5,
        "questions_left_out": 2,
        "questions_without_evidence": 1,
        "evidence_strings": 6,
        "evidence_strings_without_an_id": 2,
        "evidence_strings_with_several_ids": 2,
        "ids_with_a_leading_zero": 1,
        "ids_that_name_no_turn": 1,
        "ids_named_twice": 1,
    }


def test_locomo_asks_at_the_end_and_keeps_adversarial_questions_apart(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        "locomo",
        locomo_sample("conv-26", [qa("A?", "D1:1"), qa("B?", "D1:1", category=5)]),
        locomo_sample("conv-44", [qa("C?", "D1:1", category=1)]),
    )
    a, b, c = found.questions
    assert a.now_s == 1_683_640_560.0  # 9 May 2023, 13:56 UTC
    assert [a.headline, b.headline, c.headline] == [True, False, True]
    assert [q.category for q in (a, b, c)] == ["single_hop", "adversarial", "multi_hop"]
    assert [a.tuned_on, b.tuned_on, c.tuned_on] == [True, True, False]
    assert len({a.question_id, b.question_id, c.question_id}) == 3
    assert found.first(2).questions == (a, b)


def haystack(question_id: str, raw_ids: list[str], **values: Any) -> dict[str, Any]:
    """A record of LongMemEval; the sessions of ids that begin with ``answer`` have evidence."""
    evidence = [
        {"role": "user", "content": "I ran 5 km in 25:50.", "has_answer": True},
        {"role": "assistant", "content": "Great!", "has_answer": False},
        {"role": "assistant", "content": "25:50 is fast.", "has_answer": True},
    ]
    chatter = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    return {
        "question_id": question_id,
        "question_type": "knowledge-update",
        "question": "How fast was I?",
        "question_date": "2023/05/22 (Mon) 23:42",
        "haystack_session_ids": raw_ids,
        "haystack_dates": ["2023/05/20 (Sat) 07:47"] * len(raw_ids),
        "haystack_sessions": [evidence if r.startswith("answer") else chatter for r in raw_ids],
        **values,
    }


def test_longmemeval_leaves_out_abstention_and_marks_even_positions(tmp_path: Path) -> None:
    records = [haystack(name, ["a", "answer_1"]) for name in ("q0", "q1_abs", "q2", "q3")]
    found = load(tmp_path, "longmemeval", *records, haystack("q4", ["a", "b"]))
    assert [(q.question_id, q.tuned_on) for q in found.questions] == [
        ("q0", True), ("q2", True), ("q3", False),
    ]  # fmt: skip
    assert found.questions[0].gold == (("session_002", 0), ("session_002", 2))
    assert found.questions[0].category == "knowledge_update"
    assert found.traps["abstention_questions_left_out"] == 1
    assert found.traps["questions_left_out"] == 1
    assert found.user_speaker == "user"


def test_a_session_that_comes_twice_keeps_the_name_that_the_reader_stores(tmp_path: Path) -> None:
    record = haystack("q0", ["answer_1", "a", "answer_1"])
    found = load(tmp_path, "longmemeval", record)
    assert found.questions[0].gold == (("session_001", 0), ("session_001", 2))
    assert found.traps["sessions_that_come_twice"] == 1
    reader = Reader(str(tmp_path / "data.jsonl"), "longmemeval")
    stored = {item.session_id for item in reader if isinstance(item, Session)}
    assert stored == {"session_001", "session_002"}


def test_the_same_id_with_another_date_is_another_session(tmp_path: Path) -> None:
    dates = ["2023/05/20 (Sat) 07:47", "2023/06/20 (Tue) 07:47"]
    record = haystack("q0", ["answer_1", "answer_1"], haystack_dates=dates)
    found = load(tmp_path, "longmemeval", record)
    assert {session for session, _ in found.questions[0].gold} == {"session_001", "session_002"}
    assert found.traps["sessions_that_come_twice"] == 0
    assert found.traps["questions_with_evidence_dated_after_them"] == 1


def test_msc_asks_for_the_turns_of_each_persona_sentence(tmp_path: Path) -> None:
    def turn(speaker: int, text: str, label: str = "") -> dict[str, str]:
        return {"speaker": f"Speaker {speaker}", "text": text, "persona_text": label}

    dialog = [turn(1, "my two dogs bark", "I have two dogs."), turn(2, "i bake", "I bake.")]
    again = [turn(1, "walked the dogs", "I have two dogs."), turn(2, "nice")]
    sessions = [
        {"session": number, "dialog": d, "time_back_at_session_3": "5 days 1 hour ago"}
        for number, d in ((1, dialog), (2, again))
    ]
    found = load(tmp_path, "msc", {"id": "test_0", "sessions": sessions})
    assert {q.text: q.gold for q in found.questions} == {
        "Speaker 1: I have two dogs.": (("session_1", 0), ("session_2", 0)),
        "Speaker 2: I bake.": (("session_1", 1),),
    }


def test_a_benchmark_without_labels_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no labels.*allowed: locomo"):
        load(tmp_path, "conversation_chronicles", {})
    with pytest.raises(ConfigError, match="'squad'; allowed: locomo"):
        load(tmp_path, "squad", {})


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"sample_id": "c"}, "qa is missing"),
        (locomo_sample("c", [qa("A?", "D1:1", category=7)]), "allowed: 1 to 5"),
        (locomo_sample("c", []), "no question"),
    ],
)
def test_a_record_of_another_form_is_a_source_error(
    tmp_path: Path, record: object, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        load(tmp_path, "locomo", record)


@pytest.mark.data
def test_real_locomo_has_the_questions_of_its_readme(data_dir: Path) -> None:
    found = load_benchmark("locomo", str(data_dir / "locomo" / "locomo10.json.gz"))
    counts = {
        c: sum(q.category == c for q in found.questions)
        for c in {q.category for q in found.questions}
    }
    assert sum(q.headline for q in found.questions) == 1_536
    assert counts == {
        "multi_hop": 282, "temporal": 321, "open_domain": 92, "single_hop": 841,
        "adversarial": 446,
    }  # fmt: skip
    traps = found.traps
    assert traps["evidence_strings_without_an_id"] == 2  # "D" and "D:11:26"
    assert traps["evidence_strings_with_several_ids"] == 4
    assert traps["ids_that_name_no_turn"] == 2  # D10:19 and D4:36
    assert traps["ids_with_a_leading_zero"] == 1  # D30:05


@pytest.mark.data
@pytest.mark.slow
def test_real_longmemeval_sample_has_the_questions_of_its_readme(data_dir: Path) -> None:
    path = data_dir / "longmemeval" / "longmemeval_s_sample98.jsonl.xz"
    found = load_benchmark("longmemeval", str(path))
    assert len(found.questions) == 93
    assert found.traps["abstention_questions_left_out"] == 5
    assert found.traps["labelled_turns_not_stored"] == 0
