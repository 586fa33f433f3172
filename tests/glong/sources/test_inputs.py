import os
from pathlib import Path

import pytest

from glong.errors import SourceError
from glong.sources.inputs import SUFFIXES, expand_inputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "b.jsonl", "a.json.gz", "deep/er/c.parquet", "deep/d.JSONL.ZST", "README.md",
        "notes.txt", ".hidden.jsonl", "e.parquet.gz", "with space%41.json",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return tmp_path


EXPECTED = ["a.json.gz", "b.jsonl", "deep/d.JSONL.ZST", "deep/er/c.parquet", "with space%41.json"]


def test_every_suffix_of_the_interface_is_supported() -> None:
    expected = {f".{kind}{by}" for kind in ("json", "jsonl") for by in ("", ".gz", ".xz", ".zst")}
    assert set(SUFFIXES) == expected | {".parquet"}


def test_a_folder_gives_what_can_be_read_below_it_sorted(folder: Path) -> None:
    assert expand_inputs([str(folder)]) == [str(folder / name) for name in EXPECTED]


def test_a_file_that_is_named_in_two_ways_comes_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert expand_inputs(["b.jsonl", "./b.jsonl", "*.jsonl", str(folder / "b.jsonl")]) == [
        "b.jsonl"
    ]


def test_globs_take_files_and_folders_and_leave_other_suffixes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert expand_inputs(["**/*.parquet"]) == ["deep/er/c.parquet"]
    assert expand_inputs(["*"]) == EXPECTED


def test_a_name_with_brackets_is_a_file_before_it_is_a_glob(tmp_path: Path) -> None:
    odd = tmp_path / "chat[1].jsonl"
    odd.touch()
    assert expand_inputs([str(odd)]) == [str(odd)]


def test_uris_are_listed_and_matched_like_folders_and_globs(folder: Path) -> None:
    uri = folder.as_uri()
    names = [name.replace(" ", "%20").replace("%41", "%2541") for name in EXPECTED]
    assert expand_inputs([uri]) == [f"{uri}/{name}" for name in names]
    assert expand_inputs([f"{uri}/"]) == [f"{uri}/{name}" for name in names]
    assert expand_inputs([f"{uri}/*.jsonl"]) == [f"{uri}/b.jsonl"]
    assert expand_inputs([f"{uri}/**/*.parquet"]) == [f"{uri}/deep/er/c.parquet"]
    assert expand_inputs([f"{uri}/d*/*"]) == [f"{uri}/deep/d.JSONL.ZST"]
    assert expand_inputs([f"{uri}/b.jsonl"]) == [f"{uri}/b.jsonl"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nowhere.jsonl", "does not exist"),
        ("*.parquet.nowhere", "matches no file"),
        ("notes.txt", r"not supported; allowed suffixes: \.json"),
        ("empty", "matches no file"),
        ("gone.jsonl", "does not exist"),
        ("nope://bucket/a.jsonl", "cannot be opened"),
        ("URI/nowhere", "matches no file"),
        ("URI/notes.txt", "not supported"),
        ("URI/*.csv", "matches no file"),
    ],
)
def test_what_cannot_be_input_is_named_with_what_is_allowed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "empty").mkdir()
    (folder / "gone.jsonl").symlink_to("nowhere")
    value = value.replace("URI", folder.as_uri())
    with pytest.raises(SourceError, match=message) as caught:
        expand_inputs([value])
    assert value in str(caught.value)


def test_something_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(SourceError, match="no file that can be read"):
        expand_inputs([str(pipe)])
