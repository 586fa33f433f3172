import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glong import sources
from glong.errors import ConfigError, SourceError
from glong.sources import FORMATS, Reader, detect
from glong.types import Failure, Session

HI = {"role": "user", "content": "Hi"}
TURNS = [{"speaker": "Mira", "text": "I grill."}]
EXAMPLES: dict[str, object] = {
    "native": {
        "dialogue_id": "d",
        "sessions": [{"session_id": "s", "started_at": "2026-01-05T10:00:00Z", "turns": TURNS}],
    },
    "openai_chat": {"messages": [HI]},
    "locomo": {
        "sample_id": "c",
        "conversation": {"session_1": TURNS, "session_1_date_time": "1:56 pm on 8 May, 2023"},
    },
    "longmemeval": {
        "question_id": "q",
        "haystack_sessions": [[HI]],
        "haystack_dates": ["2023/05/30 (Tue) 23:42"],
        "haystack_session_ids": ["x"],
    },
    "msc": {"id": "m", "sessions": [{"session": 3, "dialog": TURNS}]},
    "conversation_chronicles": {
        "id": "e",
        "speakers": ["Mira"],
        "session_5": TURNS,
        "history_fragments_sessions_1_to_4": [],
    },
}


def write(path: Path, *records: object) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def native(dialogue_id: str, *sessions: tuple[str, str]) -> Mapping[str, object]:
    """A native dialogue from (session id, text of its one turn) pairs."""
    return {
        "dialogue_id": dialogue_id,
        "sessions": [
            {
                "session_id": name,
                "started_at": "2026-01-05T10:00:00Z",
                "turns": [{"speaker": "Mira", "text": text}],
            }
            for name, text in sessions
        ],
    }


def ids_and_texts(reader: Reader) -> list[tuple[str, str]]:
    return [(s.session_id, s.turns[0].text) for s in reader if isinstance(s, Session)]


def test_there_is_an_example_of_every_format() -> None:
    assert tuple(EXAMPLES) == FORMATS
    assert sorted(sources.__all__) == sorted(set(sources.__all__))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_every_format_is_recognised_and_read(tmp_path: Path, name: str, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", EXAMPLES[name])
    reader = Reader(path)
    assert reader.format == name
    assert reader.detection.reason.startswith(f"{path}: record 1 ")
    (session,) = reader
    assert isinstance(session, Session)
    assert (reader.counts["sessions"], reader.counts["turns"]) == (1, 1)


def test_detection_passes_over_records_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{broken\n\xff\n7\n" + json.dumps(EXAMPLES["native"]).encode())
    assert "record 4 has dialogue_id and sessions" in detect(str(path)).reason
    assert [i.kind for i in Reader(str(path)) if isinstance(i, Failure)] == [
        "broken_json",
        "invalid_utf8",
        "wrong_type",
    ]


def test_a_file_of_no_known_format_is_one_failure_that_says_what_was_seen(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"dialog": [], "relations": []}, {"dialog": []})
    with pytest.raises(SourceError, match="dialog, relations") as caught:
        detect(path)
    assert all(name in str(caught.value) for name in FORMATS)
    (failed,) = Reader(path)
    assert isinstance(failed, Failure)
    assert failed.kind == "unknown_format"


@pytest.mark.parametrize(
    ("data", "kinds"),
    [(b"", ["empty_file"]), (b"[]", ["empty_file"]), (b"{broken", ["broken_json"])],
)
def test_a_file_without_records_is_not_passed_over(
    tmp_path: Path, data: bytes, kinds: list[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    assert [i.kind for i in Reader(str(path)) if isinstance(i, Failure)] == kinds


def test_a_format_that_is_asked_for_is_not_detected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", EXAMPLES["msc"])
    reader = Reader(path, "native")
    assert reader.format == "native"
    assert [i.kind for i in reader if isinstance(i, Failure)] == ["missing_field"]
    with pytest.raises(ConfigError, match="'yaml'; allowed: auto, native"):
        Reader(path, "yaml")


def test_a_session_that_comes_twice_is_read_once(tmp_path: Path) -> None:
    records = [
        native("d", ("a", "x"), ("a", "x")),
        native("d", ("a", "x")),
        native("e", ("a", "x")),
    ]
    reader = Reader(write(tmp_path / "a.jsonl", *records))
    assert [s.dialogue_id for s in reader if isinstance(s, Session)] == ["d", "e"]
    assert (reader.counts["duplicates"], reader.counts["renamed"]) == (2, 0)


def test_other_content_under_one_id_is_a_session_of_its_own(tmp_path: Path) -> None:
    first = native("d", ("a", "1"), ("a", "2"), ("a#2", "3"), ("a", "4"))
    reader = Reader(write(tmp_path / "a.jsonl", first, native("d", ("a", "2"), ("a", "5"))))
    expected = [("a", "1"), ("a#2", "2"), ("a#2#2", "3"), ("a#3", "4"), ("a#4", "5")]
    assert ids_and_texts(reader) == expected
    assert (reader.counts["duplicates"], reader.counts["renamed"]) == (1, 4)
    assert ids_and_texts(reader) == expected
    assert reader.counts["sessions"] == 5


def test_a_suffix_that_the_input_uses_is_passed_over(tmp_path: Path) -> None:
    record = native("d", ("a#2", "1"), ("a", "2"), ("a", "3"))
    reader = Reader(write(tmp_path / "a.jsonl", record))
    assert ids_and_texts(reader) == [("a#2", "1"), ("a", "2"), ("a#3", "3")]


def test_longmemeval_tells_twice_by_raw_id_but_keeps_its_own_names(tmp_path: Path) -> None:
    dates = ["2023/05/30 (Tue) 23:42", "2023/05/30 (Tue) 23:42", "2023/05/31 (Wed) 23:42"]
    record = {
        "question_id": "q",
        "haystack_sessions": [[HI]] * 3,
        "haystack_dates": dates,
        "haystack_session_ids": ["x", "x", "x"],
    }
    reader = Reader(write(tmp_path / "a.jsonl", record))
    assert [s.session_id for s in reader if isinstance(s, Session)] == [
        "session_001",
        "session_003",
    ]
    assert (reader.counts["duplicates"], reader.counts["renamed"]) == (1, 0)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_a_file_of_messages_is_one_dialogue(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    messages = [HI, {"role": "assistant", "content": "Hello"}]
    path.write_text(
        json.dumps(messages) if name == "a.json" else "\n".join(map(json.dumps, messages))
    )
    (session,) = Reader(str(path))
    assert isinstance(session, Session)
    assert (session.dialogue_id, len(session.turns)) == ("a-000001", 2)


def test_parquet_of_the_native_shape_gives_the_same_sessions(tmp_path: Path) -> None:
    records = [native("d", ("a", "1"), ("b", "2")), native("e", ("a", "3"))]
    lines = write(tmp_path / "a.jsonl", *records)
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    assert list(Reader(str(tmp_path / "a.parquet"))) == list(Reader(lines))


def test_assumptions_and_skipped_messages_are_told(tmp_path: Path) -> None:
    record = {"messages": [{"role": "system", "content": "x"}, HI], "created_at": "2026-01-05"}
    reader = Reader(write(tmp_path / "a.jsonl", record, record))
    assert not reader.assumptions
    list(reader)
    assert reader.assumptions == ("times have no zone: taken as UTC",)
    assert reader.counts["skipped_messages"] == 2


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n_sessions", "n_turns", "n_failures"),
    [
        ("locomo/locomo10.json.gz", 272, 5882, 0),
        ("longmemeval/longmemeval_s_sample98.jsonl.xz", 4635, 48237, 5),
        ("msc/msc_test.jsonl.gz", 2204, 26545, 0),
        ("conversation_chronicles_partial/cc_session5_200.jsonl.gz", 330, 3500, 2),
    ],
)
def test_the_real_data_is_read_whole(
    data_dir: Path, name: str, n_sessions: int, n_turns: int, n_failures: int
) -> None:
    reader = Reader(str(data_dir / name))
    kinds = {item.kind for item in reader if isinstance(item, Failure)}
    counts = (reader.counts["sessions"], reader.counts["turns"], reader.counts["failures"])
    assert counts == (n_sessions, n_turns, n_failures)
    assert kinds <= {"empty_turn"}
    assert reader.format == name.split("/")[0].removesuffix("_partial")


@pytest.mark.data
def test_every_turn_of_locomo_is_where_its_dia_id_says(data_dir: Path) -> None:
    path = data_dir / "locomo" / "locomo10.json.gz"
    places = {
        (s.dialogue_id, s.session_id, t.index): t.text
        for s in Reader(str(path))
        if isinstance(s, Session)
        for t in s.turns
    }
    for sample in json.loads(gzip.decompress(path.read_bytes())):
        for key, turns in sample["conversation"].items():
            if isinstance(turns, list):
                for turn in turns:
                    place = (sample["sample_id"], *sources.locomo.turn_place(turn["dia_id"]))
                    assert places[place].startswith(turn["text"]), key
