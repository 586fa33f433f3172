from dataclasses import replace
from pathlib import Path

import lance
import lancedb
import pyarrow as pa
import pytest

from glong.errors import ConfigError, ConflictError, SchemaError, StoreError
from glong.store import Store
from glong.store.layout import normalise_uri, translated
from glong.store.lease import alone, writing
from glong.tables import stored_schemas
from tests.glong.store.rows import META, new_store


def test_a_store_is_made_with_parents_and_opened_again(tmp_path: Path) -> None:
    made = new_store(tmp_path / "a" / "b")
    assert Store.open(str(tmp_path / "a" / "b")).meta == made.meta == META


def test_lancedb_opens_every_table(tmp_path: Path) -> None:
    new_store(tmp_path / "s")
    database = lancedb.connect(tmp_path / "s")
    for table in stored_schemas(META.dimension):
        assert database.open_table(table).count_rows() == 0


def test_opening_what_is_not_there_says_so_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no store at .*build_memory"):
        Store.open(str(tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_is_fixed_when_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = new_store("s")
    monkeypatch.chdir("/")
    assert store.uri == str(tmp_path / "s")
    assert store.version == 1


def test_uris_of_object_stores_are_left_alone() -> None:
    assert normalise_uri("s3://bucket/a/") == "s3://bucket/a"


@pytest.mark.parametrize("host", ["", "localhost"])
def test_a_file_uri_is_the_path_that_it_names(tmp_path: Path, host: str) -> None:
    path = tmp_path / "a b"
    uri = f"file://{host}{tmp_path}/a%20b/"
    store = new_store(uri)
    assert store.uri == Store.open(str(path)).uri == str(path)
    with alone(Store.open(str(path)).layout), pytest.raises(ConflictError), writing(store.layout):
        pass


def test_a_file_uri_of_another_host_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"file://data/mem.*file:///PATH"):
        normalise_uri("file://data/mem")


@pytest.mark.parametrize("other", [{"encoder": "fake-8"}, {"dimension": 8}])
def test_another_encoder_is_refused(tmp_path: Path, other: dict[str, object]) -> None:
    new_store(tmp_path / "s")
    with pytest.raises(SchemaError, match=r"made with encoder fake-4 \(4 dimensions\)"):
        Store.create_or_open(str(tmp_path / "s"), replace(META, **other))


def test_another_prompt_or_glong_is_no_error(tmp_path: Path) -> None:
    new_store(tmp_path / "s")
    newer = replace(META, prompt_version="p2", glong_version="9")
    assert Store.create_or_open(str(tmp_path / "s"), newer).meta == META


def test_another_format_version_is_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    store.layout.dataset("sessions").update_schema_metadata({"glong.format_version": "99"})
    with pytest.raises(SchemaError, match="format version 99; this glong reads 1"):
        Store.open(str(tmp_path / "s"))


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [1]}), tmp_path / "sessions.lance")
    with pytest.raises(SchemaError, match="not of a glong store"):
        Store.open(str(tmp_path))


def test_a_half_made_store_is_completed(tmp_path: Path) -> None:
    schema = stored_schemas(META.dimension)["turns"].with_metadata(META.to_metadata())
    lance.write_dataset(schema.empty_table(), tmp_path / "turns.lance")
    new_store(tmp_path)
    assert Store.open(str(tmp_path)).verify() == []


def test_a_half_made_store_of_another_encoder_is_refused(tmp_path: Path) -> None:
    other = replace(META, encoder="fake-8")
    schema = stored_schemas(META.dimension)["turns"].with_metadata(other.to_metadata())
    lance.write_dataset(schema.empty_table(), tmp_path / "turns.lance")
    with pytest.raises(SchemaError, match="fake-8"):
        new_store(tmp_path)


def test_lance_conflicts_become_conflict_errors() -> None:
    with (
        pytest.raises(ConflictError, match=r"Could not append: Commit conflict$"),
        translated("append"),
    ):
        raise OSError("Commit conflict, /src/commit.rs:1:2")
