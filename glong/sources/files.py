"""The raw records of one file, compressed or not.

Knows no data set. A file is a stream: lines, the items of a JSON list and Parquet rows come one
at a time, so memory is bounded by the largest record. What cannot be read comes out as a
:class:`~glong.types.Failure` among the records, and nothing here raises.
"""

import gzip
import io
import json
import lzma
import re
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from glong.errors import SourceError
from glong.sources.inputs import is_uri, open_filesystem
from glong.sources.records import failure
from glong.types import Failure, Place

__all__ = ["MAX_RECORD_BYTES", "Raw", "raw_records"]

MAX_RECORD_BYTES = 64 * 2**20
CHUNK_BYTES = 2**20
PARQUET_ROWS = 16
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException, SourceError)
_REST = "What follows is not read; repair the file."
_LARGE = f"the record is larger than {MAX_RECORD_BYTES} bytes or not JSON; split the dialogue."
_GAP = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Raw:
    """One record as JSON or Parquet has it; ``place.line`` is its line or its number, from 1."""

    value: object
    place: Place


def raw_records(path: str) -> Iterator[Raw | Failure]:
    """The records of a file in order, with a failure where one cannot be read.

    ``.jsonl``: one a line, blank lines apart. ``.json``: the items of a list, or objects one
    after the other. ``.parquet``: one a row. A file that breaks off or is damaged ends with one
    ``unreadable_file``; what came before it stays.
    """
    name = path.partition("?")[0].lower() if is_uri(path) else path.lower()
    read = _rows if name.endswith(".parquet") else _lines if ".jsonl" in name[-10:] else _values
    records = read(path)
    while True:
        try:
            record = next(records)
        except StopIteration:
            return
        except UNREADABLE as error:
            message = f"the file cannot be read (further): {error}; get a whole copy of it."
            yield failure("unreadable_file", Place(path), message, type(error).__name__)
            return
        yield record


def _open(path: str, stack: ExitStack) -> BinaryIO:
    """The file's bytes, decompressed as its suffix says."""
    source: BinaryIO
    if is_uri(path):
        filesystem, inner = open_filesystem(path)
        source = cast(
            BinaryIO, io.BufferedReader(filesystem.open_input_stream(inner, compression=None))
        )
    else:
        inner = path
        source = open(path, "rb")  # noqa: SIM115 - the stack closes it
    stack.enter_context(source)
    suffix = inner.lower().rpartition(".")[2]
    if suffix == "gz":
        return cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=source)))
    if suffix == "xz":
        return cast(BinaryIO, stack.enter_context(lzma.LZMAFile(source)))
    if suffix == "zst":
        return cast(BinaryIO, io.BufferedReader(pa.CompressedInputStream(source, "zstd")))
    return source


def _lines(path: str) -> Iterator[Raw | Failure]:
    with ExitStack() as stack:
        stream = _open(path, stack)
        number = 0
        while line := stream.readline(MAX_RECORD_BYTES + 1):
            number += 1
            where = Place(path, number)
            if len(line) > MAX_RECORD_BYTES:
                yield _too_large(where, line)
                while line and not line.endswith(b"\n"):
                    line = stream.readline(MAX_RECORD_BYTES)
            elif line.strip():
                yield _parsed(line.strip(), where, "utf-8-sig" if number == 1 else "utf-8")


def _parsed(line: bytes, where: Place, encoding: str) -> Raw | Failure:
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        message = f"the line is not UTF-8 ({error}); allowed: UTF-8. Save the file as UTF-8."
        return failure("invalid_utf8", where, message, line.decode("utf-8", "backslashreplace"))
    try:
        return Raw(json.loads(text), where)
    except (ValueError, RecursionError) as error:
        message = f"the line is not JSON ({error}); allowed: one JSON value a line. Repair it."
        return failure("broken_json", where, message, text)


def _values(path: str) -> Iterator[Raw | Failure]:
    """The items of a JSON list, or JSON values one after the other."""
    with ExitStack() as stack:
        text = _Text(_open(path, stack))
        in_list = text.skip("[")
        number = 0
        try:
            while not (text.skip("]") if in_list else text.at_end()):
                if in_list and number and not text.skip(","):
                    raise _Broken(
                        "broken_json", "the list breaks off before it ends. " + _REST, text.rest()
                    )
                number += 1
                yield Raw(text.value(), Place(path, number))
            if not text.at_end():
                message = "there is more after the list; one list a line needs the suffix .jsonl."
                raise _Broken("broken_json", message, text.rest())
        except _Broken as broken:
            yield failure(broken.kind, Place(path, max(number, 1)), str(broken), broken.raw)


class _Broken(Exception):
    """The next value of a JSON document cannot be read, nor anything after it."""

    def __init__(self, kind: str, message: str, raw: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.raw = raw


class _Text:
    """JSON text that is read as far as it is needed.

    Bytes that are not UTF-8 become lone surrogates, so that they spoil only the string they stand
    in.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = cast(io.BufferedReader, stream)
        self._decoder = getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._json = json.JSONDecoder()
        self._buffer = ""
        self._at = 0
        self._ended = False

    def peek(self) -> str:
        """The next character that is not white space, or an empty string at the end."""
        while True:
            match = _GAP.match(self._buffer, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._buffer) or self._ended:
                return self._buffer[self._at : self._at + 1]
            self._fill(CHUNK_BYTES)

    def at_end(self) -> bool:
        return not self.peek()

    def skip(self, character: str) -> bool:
        """Step over the next character if it is this one."""
        found = self.peek() == character
        self._at += found
        return found

    def rest(self) -> str:
        """What the buffer still holds."""
        return self._buffer[self._at :]

    def value(self) -> object:
        """The next JSON value; the buffer doubles until it holds all of it."""
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._buffer, self._at)
            except (ValueError, RecursionError) as error:
                problem = f"the record is not JSON ({error}). {_REST}"
                end = -1
            if end >= 0 and (end < len(self._buffer) or self._ended):
                self._at = end
                return cast(object, value)
            if end < 0 and self._ended:
                raise _Broken("broken_json", problem, self.rest())
            size = len(self._buffer) - self._at
            if size > MAX_RECORD_BYTES:
                raise _Broken("record_too_large", _LARGE, self.rest())
            self._fill(max(size, CHUNK_BYTES))

    def _fill(self, size: int) -> None:
        data = self._stream.read1(size)
        self._ended = not data
        self._buffer = self._buffer[self._at :] + self._decoder.decode(data, final=self._ended)
        self._at = 0


def _too_large(where: Place, line: bytes) -> Failure:
    return failure(
        "record_too_large", where, _LARGE, line[:4000].decode("utf-8", "backslashreplace")
    )


def _rows(path: str) -> Iterator[Raw | Failure]:
    with ExitStack() as stack:
        if is_uri(path):
            filesystem, inner = open_filesystem(path)
            source = stack.enter_context(filesystem.open_input_file(inner))
        else:
            source = stack.enter_context(open(path, "rb"))
        number = 0
        for batch in pq.ParquetFile(source).iter_batches(batch_size=PARQUET_ROWS):
            for row in range(batch.num_rows):
                number += 1
                yield _row(batch.slice(row, 1), Place(path, number))


def _row(row: pa.RecordBatch, where: Place) -> Raw | Failure:
    try:
        return Raw(row.to_pylist()[0], where)
    except (ValueError, OverflowError) as error:
        message = (
            f"the row has a value that cannot be read ({error}); allowed: UTF-8, microseconds."
        )
        return failure("unreadable_record", where, message, str(error))
