from pathlib import Path

from glong.store.status import bytes_on_disk
from glong.types import Failure
from tests.glong.store.rows import META, built_session, new_store, wave


def test_status_counts_what_is_there(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    mishap = Failure("extract", "bad_json", "no JSON")
    failed = built_session("e", "s1", tenant="acme", status="failed", facts=[], failures=[mishap])
    store.append_wave(wave("b1", built_session("d", "s1"), failed))
    store.append_wave(wave("b2", built_session("d", "s1", content="c2")))
    status = store.status()
    assert status.meta == META
    assert (status.sessions_built, status.sessions_failed) == (1, 1)
    assert (status.dialogues, status.tenants, status.waves) == (2, 2, 2)
    assert (status.rows["edges"], status.visible_rows["edges"]) == (4, 2)
    assert status.garbage_rows == status.garbage_rows | {"edges": 2, "failures": 0, "sessions": 0}
    assert status.bytes_on_disk == sum(
        p.stat().st_size for p in (tmp_path / "s").rglob("*") if p.is_file()
    )


def test_an_empty_store_has_a_status(tmp_path: Path) -> None:
    status = new_store(tmp_path / "s").status()
    assert (status.sessions_built, status.waves, status.index_coverage["edges"]) == (0, 0, 1.0)


def test_the_size_of_an_object_store_is_unknown() -> None:
    assert bytes_on_disk("s3://bucket/store") is None
