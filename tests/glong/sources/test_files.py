import gzip
import json
import lzma
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glong.sources import files
from glong.sources.files import Raw, raw_records
from glong.types import Failure, Place

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def values(path: str) -> list[object]:
    return [raw.value for raw in raw_records(path) if isinstance(raw, Raw)]


def kinds(path: str) -> list[str]:
    return [raw.kind for raw in raw_records(path) if isinstance(raw, Failure)]


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("by_uri", [False, True])
def test_every_compression_gives_the_same_records(
    tmp_path: Path, suffix: str, by_uri: bool
) -> None:
    path = tmp_path / f"chat.jsonl{suffix}"
    write(path, COMPRESS[suffix](b'{"n": 1}\n\n{"n": 2}\r\n{"n": 3}'))
    name = path.as_uri() if by_uri else str(path)
    assert list(raw_records(name)) == [Raw({"n": n}, Place(name, n + (n > 1))) for n in (1, 2, 3)]


def test_a_broken_line_and_one_that_is_not_utf8_fail_alone(tmp_path: Path) -> None:
    lines = [b"\xef\xbb\xbf1", b"{broken", b'"caf\xe9"', b"[" * 100_000, b"1" * 5000, b'"ok"']
    path = write(tmp_path / "chat.jsonl", b"\n".join(lines))
    found = list(raw_records(path))
    assert values(path) == [1, "ok"]
    assert kinds(path) == ["broken_json", "invalid_utf8", "broken_json", "broken_json"]
    assert [raw.place.line for raw in found] == [1, 2, 3, 4, 5, 6]
    failures = [raw for raw in found if isinstance(raw, Failure)]
    assert [failed.raw[:8] for failed in failures[:2]] == ["{broken", '"caf\\xe9']


def test_a_line_that_is_too_large_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_RECORD_BYTES", 10)
    path = write(tmp_path / "chat.jsonl", b'1\n"' + b"x" * 35 + b'"\n"1234567"\n3')
    assert values(path) == [1, "1234567", 3]
    assert [
        (raw.kind, raw.place.line) for raw in raw_records(path) if isinstance(raw, Failure)
    ] == [("record_too_large", 2)]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_truncated_file_keeps_what_came_before_and_says_so_once(
    tmp_path: Path, suffix: str
) -> None:
    lines = [json.dumps({"n": n, "text": f"{n * 7919 % 10007} " * 20}) for n in range(20_000)]
    whole = COMPRESS[suffix]("\n".join(lines).encode())
    path = write(tmp_path / f"chat.jsonl{suffix}", whole[: len(whole) // 2])
    *records, last = raw_records(path)
    assert len(records) > 1000
    assert [raw.place.line for raw in records] == list(range(1, len(records) + 1))
    assert isinstance(last, Failure)
    assert last.kind == "unreadable_file"
    as_list = COMPRESS[suffix](f"[{','.join(lines)}]".encode())
    path = write(tmp_path / f"chat.json{suffix}", as_list[: len(as_list) // 2])
    assert len(values(path)) > 1000
    assert kinds(path) == ["unreadable_file"]


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json.xz", "a.jsonl.zst", "a.parquet"])
def test_a_file_that_is_not_what_its_suffix_says_is_one_failure(tmp_path: Path, name: str) -> None:
    assert kinds(write(tmp_path / name, b"this is neither")) == ["unreadable_file"]
    assert kinds(str(tmp_path / "gone" / name)) == ["unreadable_file"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(JSON), st.sampled_from([None, 2]), st.integers(1, 9), st.booleans())
def test_a_json_list_gives_its_items_whatever_the_chunks(
    tmp_path: Path, items: list[object], indent: int | None, chunk: int, ascii_only: bool
) -> None:
    document = json.dumps(items, indent=indent, ensure_ascii=ascii_only)
    path = write(tmp_path / "list.json", f"\ufeff {document}\n".encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CHUNK_BYTES", chunk)
        found = list(raw_records(path))
    assert found == [Raw(item, Place(path, n)) for n, item in enumerate(items, start=1)]


def test_a_json_file_may_hold_one_object_or_objects_one_after_the_other(tmp_path: Path) -> None:
    assert values(write(tmp_path / "a.json", b'{\n  "n": 1\n}\n')) == [{"n": 1}]
    assert values(write(tmp_path / "b.json", b'{"n": 1}\n{"n": 2}\n')) == [{"n": 1}, {"n": 2}]
    assert values(write(tmp_path / "c.json", b"")) == []


@pytest.mark.parametrize(
    ("document", "n_read"),
    [
        (b"[1, 2", 2),
        (b"[1, 2,", 2),
        (b"[1, 2, {]", 2),
        (b"[1 2]", 1),
        (b"[", 0),
        (b"[1]\n[2]", 1),
        (b'{"n": 1} nonsense', 1),
        (b"[" * 200_000, 0),
    ],
)
def test_a_broken_document_keeps_what_came_before(
    tmp_path: Path, document: bytes, n_read: int
) -> None:
    path = write(tmp_path / "a.json", document)
    assert len(values(path)) == n_read
    assert kinds(path) == ["broken_json"]


def test_bytes_that_are_not_utf8_spoil_only_their_string(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", b'[{"a": "caf\xe9"}, {"a": "fine"}]')
    assert values(path) == [{"a": "caf\udce9"}, {"a": "fine"}]


def test_a_record_of_a_document_that_is_too_large_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_RECORD_BYTES", 50)
    monkeypatch.setattr(files, "CHUNK_BYTES", 20)
    path = write(tmp_path / "a.json", b'["a", "' + b"x" * 500 + b'", "c"]')
    assert values(path) == ["a"]
    assert kinds(path) == ["record_too_large"]


@pytest.mark.parametrize("by_uri", [False, True])
def test_parquet_rows_come_one_by_one(tmp_path: Path, by_uri: bool) -> None:
    path = tmp_path / "a.parquet"
    when = datetime(2026, 1, 5, 10, tzinfo=UTC)
    pq.write_table(pa.Table.from_pylist([{"n": n, "at": when} for n in range(40)]), path)
    name = path.as_uri() if by_uri else str(path)
    found = list(raw_records(name))
    assert found == [Raw({"n": n, "at": when}, Place(name, n + 1)) for n in range(40)]


def test_a_parquet_row_with_broken_text_fails_alone(tmp_path: Path) -> None:
    column = pa.array([b"ok", b"\xff", b"fine"], pa.binary()).cast(pa.string(), safe=False)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": column}), path)
    assert values(str(path)) == [{"text": "ok"}, {"text": "fine"}]
    assert kinds(str(path)) == ["unreadable_record"]
    assert [raw.place.line for raw in raw_records(str(path))] == [1, 2, 3]


def test_a_damaged_parquet_file_ends_with_one_failure(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": list(range(1000))}), path, row_group_size=100)
    write(path, path.read_bytes()[:-20])
    assert kinds(str(path)) == ["unreadable_file"]
