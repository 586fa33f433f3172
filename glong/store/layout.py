"""Where a store lies and what it was made with: paths, metadata, making and opening its tables.

A store is a LanceDB database: one Lance table ``NAME.lance`` for each entry of
:func:`glong.tables.stored_schemas`, under one folder or object-store URI. What it was made with
stands in the schema metadata of every table. Knows nothing of rows.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import lance
import pyarrow as pa

from glong.errors import ConfigError, ConflictError, SchemaError, StoreError, StoreNotFoundError
from glong.tables import FORMAT_VERSION, stored_schemas

__all__ = ["Layout", "StoreMeta", "create_or_open_layout", "open_layout", "read_meta", "translated"]

PREFIX = "glong."
"""Of our keys in a table's schema metadata; other keys are left alone."""


@dataclass(frozen=True, slots=True)
class StoreMeta:
    """What a store was made with.

    Attributes:
        encoder: fingerprint of the encoder; every vector of the store is its.
        dimension: length of a vector.
        prompt_version: version of the extraction prompt of the first build; informational.
        glong_version: version of glong that made the store; informational.
        format_version: version of the tables' layout.
    """

    encoder: str
    dimension: int
    prompt_version: str
    glong_version: str
    format_version: int = FORMAT_VERSION

    def to_metadata(self) -> dict[str, str]:
        """As schema metadata of a table."""
        names = ("encoder", "dimension", "prompt_version", "glong_version", "format_version")
        return {PREFIX + name: str(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """An open store: where it is, how to reach it, what it was made with.

    Attributes:
        uri: absolute path or object-store URI, without a trailing slash.
        storage_options: passed to the object store; keys as in Lance.
        meta: what the store was made with.
        session: Lance's cache of metadata and index pages, shared by all reads through this object.
    """

    uri: str
    storage_options: dict[str, str] | None
    meta: StoreMeta
    session: Any = field(repr=False)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of all tables; ``sessions`` comes last."""
        return tuple(stored_schemas(self.meta.dimension))

    def path(self, table: str) -> str:
        """URI of one table."""
        return f"{self.uri}/{table}.lance"

    def dataset(self, table: str, version: int | None = None) -> lance.LanceDataset:
        """One table at its latest or the given version.

        Raises:
            StoreError: the table or the version is not there.
        """
        with translated(f"open table {table} of the store {self.uri}"):
            return lance.dataset(
                self.path(table),
                version=version,
                storage_options=self.storage_options,
                session=self.session,
            )


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Turn what Lance raises (``OSError``, ``ValueError``, ``RuntimeError``) into our errors.

    Args:
        action: what was tried, as in "Could not ACTION".

    Raises:
        ConflictError: another writer committed first, and Lance's own retries did not help.
        StoreError: everything else.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        conflict = "conflict" in str(error).lower()
        kind = ConflictError if conflict else StoreError
        raise kind(f"Could not {action}: {_short(error)}") from error


def _short(error: Exception) -> str:
    """A Lance message without the locations in Rust sources that it ends in."""
    return re.sub(r"(, \S+\.rs:\d+:\d+)+.*", "", str(error), flags=re.DOTALL)


def _session() -> Any:
    """A cache of Lance's; its type is exported at run time, but not to type checkers."""
    return lance.Session()  # type: ignore[attr-defined]


def normalise_uri(uri: str) -> str:
    """An absolute path (a later ``chdir`` changes nothing) or the URI; no trailing slash.

    ``file://`` becomes a path, since only by a path is a store known as local, which has a lock.

    Raises:
        ConfigError: it names a file of another host.
    """
    if uri.lower().startswith("file://"):
        return os.path.abspath(_path_of(uri))
    local = "://" not in uri
    return os.path.abspath(os.path.expanduser(uri)) if local else uri.rstrip("/")


def _path_of(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise ConfigError(
            f"The store {uri} is of host {parts.netloc!r}; allowed: file:///PATH, where PATH is"
            " from the root on, or the path alone."
        )
    return unquote(parts.path)


def open_layout(uri: str, storage_options: Mapping[str, str] | None = None) -> Layout:
    """Open a store.

    Raises:
        StoreNotFoundError: there is none.
        StoreError: it cannot be reached.
        SchemaError: it is a database of something else, or of another format version.
    """
    uri = normalise_uri(uri)
    options = dict(storage_options) if storage_options else None
    session = _session()
    sessions = _find(f"{uri}/sessions.lance", options, session)
    if sessions is None:
        raise StoreNotFoundError(
            f"There is no store at {uri}. Check --store, or make one with"
            " `python jobs/build_memory.py --input FILE --store URI`."
        )
    meta = read_meta(sessions)
    _check_format(uri, meta)
    return Layout(uri, options, meta, session)


def create_or_open_layout(
    uri: str, meta: StoreMeta, storage_options: Mapping[str, str] | None = None
) -> Layout:
    """Open a store, or make one; safe if two processes do so at once.

    Raises:
        SchemaError: it was made with another encoder, dimension or format.
        StoreError: it cannot be reached or made.
    """
    uri = normalise_uri(uri)
    options = dict(storage_options) if storage_options else None
    session = _session()
    # `sessions` is made last, so where it is the store is whole; a half-made one is completed here.
    if (sessions := _find(f"{uri}/sessions.lance", options, session)) is None:
        _create(Layout(uri, options, meta, session))
        return Layout(uri, options, meta, session)
    found = read_meta(sessions)
    check_compatible(uri, found, meta)
    return Layout(uri, options, found, session)


def _create(layout: Layout) -> None:
    """Make what is missing.

    The metadata of each table is checked before the next is made, so of two processes with
    different encoders that start at once only one gets past the first table.
    """
    import lancedb  # seconds to import, and needed only here

    with translated(f"make a store at {layout.uri}"):
        database = lancedb.connect(layout.uri, storage_options=layout.storage_options)
    for name, schema in stored_schemas(layout.meta.dimension).items():
        find = partial(_find, layout.path(name), layout.storage_options, layout.session)
        if (dataset := find()) is None:
            try:
                database.create_table(name, schema=schema.with_metadata(layout.meta.to_metadata()))
            except (OSError, ValueError, RuntimeError) as error:
                if find() is None:  # else another process was faster
                    message = f"Could not make table {name} of {layout.uri}: {_short(error)}"
                    raise StoreError(message) from error
            dataset = layout.dataset(name)
        check_compatible(layout.uri, read_meta(dataset), layout.meta)


def _find(path: str, options: dict[str, str] | None, session: Any) -> lance.LanceDataset | None:
    """The table, or ``None`` if there is none."""
    try:
        return lance.dataset(path, storage_options=options, session=session)
    except ValueError as error:
        if "not found" in str(error).lower():
            return None
        raise StoreError(f"Could not open {path}: {_short(error)}") from error
    except OSError as error:
        raise StoreError(f"Could not open {path}: {_short(error)}") from error


def read_meta(dataset: lance.LanceDataset) -> StoreMeta:
    """What a table says it was made with.

    Raises:
        SchemaError: it carries no such metadata.
    """
    raw: pa.KeyValueMetadata = dataset.schema.metadata or {}
    found = {key.decode(): value.decode() for key, value in raw.items()}
    try:
        return StoreMeta(
            encoder=found[PREFIX + "encoder"],
            dimension=int(found[PREFIX + "dimension"]),
            prompt_version=found[PREFIX + "prompt_version"],
            glong_version=found[PREFIX + "glong_version"],
            format_version=int(found[PREFIX + "format_version"]),
        )
    except (KeyError, ValueError) as error:
        raise SchemaError(
            f"{dataset.uri} is a Lance table, but not of a glong store ({error} in its metadata);"
            " give --store another folder."
        ) from error


def _check_format(uri: str, found: StoreMeta) -> None:
    if found.format_version != FORMAT_VERSION:
        raise SchemaError(
            f"The store {uri} has format version {found.format_version}; this glong reads"
            f" {FORMAT_VERSION}. Use glong {found.glong_version}, which made it, or a new --store."
        )


def check_compatible(uri: str, found: StoreMeta, wanted: StoreMeta) -> None:
    """Refuse a store whose vectors the present models cannot be compared with.

    Raises:
        SchemaError: format, encoder or dimension differ; versions of prompt and glong may.
    """
    _check_format(uri, found)
    if (found.encoder, found.dimension) != (wanted.encoder, wanted.dimension):
        raise SchemaError(
            f"The store {uri} was made with encoder {found.encoder} ({found.dimension} dimensions);"
            f" these models have {wanted.encoder} ({wanted.dimension} dimensions)."
            " Use a new --store, or the models that made this one."
        )
