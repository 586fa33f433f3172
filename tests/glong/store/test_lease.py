import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from glong.errors import ConflictError
from glong.store import Store, Target, lease
from glong.store.lease import KEY, alone, writing
from tests.glong.store.rows import (
    NO_FAILURES,
    START,
    built,
    built_session,
    new_store,
    wave,
)

NOW = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "s")
    store.append_wave(wave("b1", built_session("d", "s1")))
    return store


def test_writers_are_refused_while_a_purge_holds_the_store_and_go_on_after_it(store: Store) -> None:
    edge = store.visible("edges")["edge_id"][0].as_py()
    files = store.write_fragments(built(built_session("d", "s2")), "b2", START)
    writes = (
        lambda: store.append_wave(wave("b3", built_session("d", "s3"))),
        lambda: store.touch("default", "d", [edge], NOW),
        lambda: store.forget("default", Target("d", "s1"), NOW),
        lambda: store.write_fragments(built(built_session("d", "s4")), "b4", START),
        lambda: store.commit_fragments([files], NO_FAILURES),
        lambda: store.compact(now=NOW),
    )
    with alone(store.layout):
        for write in writes:
            with pytest.raises(ConflictError, match=r"[Tt]ry again"):
                write()
        assert store.routine() == ()
        assert store.read_graph("default", "d").n_edges == 2
    for write in writes:
        write()
    assert store.verify() == []


def test_a_purge_waits_for_writes_that_have_begun(store: Store) -> None:
    with (
        writing(store.layout),
        writing(store.layout),
        pytest.raises(ConflictError, match="Others are writing"),
        alone(store.layout, wait_s=0.05),
    ):
        pass
    with alone(store.layout, wait_s=0.05):
        pass
    with writing(store.layout):
        pass


def test_files_written_before_a_purge_and_not_committed_are_refused_after_it(store: Store) -> None:
    files = store.write_fragments(built(built_session("d", "s2")), "b2", START)
    store.purge(NOW)
    with pytest.raises(ConflictError, match="Run the job again"):
        store.commit_fragments([files], NO_FAILURES)
    assert store.verify() == []


def test_the_lease_of_a_process_that_died_ends_by_itself(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = f"purge-1 {(datetime.now(UTC) + timedelta(minutes=1)).isoformat()}"
    store.layout.dataset("forgotten").update_config({KEY: entry})
    with pytest.raises(ConflictError, match="purge-1"), writing(store.layout):
        pass
    later = datetime.now(UTC) + timedelta(minutes=2)
    with monkeypatch.context() as patch:
        patch.setattr(lease, "_now", lambda: later)
        with writing(store.layout):
            pass
    store.purge(NOW)  # takes it over: nobody holds the lock
    with writing(store.layout):
        pass


def test_where_there_is_no_lock_a_purge_waits_for_the_lease_of_another(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_is_local", lambda layout: False)
    with (
        alone(store.layout),
        pytest.raises(ConflictError, match="holds"),
        alone(store.layout),
    ):
        pass
    with alone(store.layout):
        pass


def test_a_killed_purge_leaves_no_lock(store: Store) -> None:
    code = (
        "import os, signal, sys\n"
        "from glong.store import Store\n"
        "from glong.store.lease import alone\n"
        "with alone(Store.open(sys.argv[1]).layout):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, store.uri], check=False, env=os.environ)
    assert done.returncode == -9
    store.purge(NOW)
    store.append_wave(wave("b2", built_session("d", "s2")))
