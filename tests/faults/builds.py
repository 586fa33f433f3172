"""One small input, the job that builds it, and how two stores are compared."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from glong.errors import StoreError
from glong.store import Store
from glong.tables import VARYING_COLUMNS
from tests.faults.processes import Running, running

__all__ = ["WAVE_SIZE", "Bench", "Tables", "assert_same", "assert_sound", "committed", "tables_of"]

N_FILES, N_DIALOGUES, N_SESSIONS, N_TURNS = 4, 20, 4, 6
WAVE_SIZE = 20
MODELS = """\
extractor = { backend = "fake", batch_size = 8 }
scorer = { backend = "fake", batch_size = 8 }
encoder = { backend = "fake", stage_batch_size = 8 }
"""
"""Small batches, so that a build has many tasks and each stage is at work for most of its time."""

Tables = Mapping[str, list[dict[str, Any]]]
"""Table name -> its visible rows, by id."""


def write_input(folder: Path) -> None:
    """320 sessions in 4 files; each file repeats one of its dialogues and has a broken line."""
    folder.mkdir()
    for file in range(N_FILES):
        dialogues = [_dialogue(f"d{file}-{i}", 1000 * file + i) for i in range(N_DIALOGUES)]
        lines = [json.dumps(dialogue) for dialogue in [*dialogues, dialogues[0]]]
        lines.insert(N_DIALOGUES // 2, '{"dialogue_id": "broken", "sessions": 7}')
        (folder / f"part-{file}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _dialogue(dialogue_id: str, topic: int) -> dict[str, Any]:
    return {
        "dialogue_id": dialogue_id,
        "sessions": [
            {
                "session_id": f"s{number}",
                "started_at": f"2026-01-0{number + 1}T10:00:00Z",
                "turns": [
                    {"speaker": "AB"[i % 2], "text": f"turn {i} of topic {topic} day {number}"}
                    for i in range(N_TURNS)
                ],
            }
            for number in range(N_SESSIONS)
        ],
    }


@dataclass(frozen=True)
class Bench:
    """Starts jobs on one input.

    Attributes:
        input: folder with the files.
        models: TOML of the fake models.
        logs: folder for the output of the jobs.
        environment: of the jobs; it says which cluster they use, or none.
        cluster: that cluster.
        n_sessions: of the input.
    """

    input: Path
    models: Path
    logs: Path
    environment: Mapping[str, str]
    cluster: Running | None = None
    n_sessions: int = N_FILES * N_DIALOGUES * N_SESSIONS
    _numbers: Iterator[int] = field(default_factory=count)

    @contextmanager
    def build(
        self, store: Path, *options: str, fault: Mapping[str, Any] | None = None
    ) -> Iterator[Running]:
        """The job as users start it, or with a fault of :mod:`tests.faults.slow_build`."""
        start = ["jobs/build_memory.py"]
        if fault is not None:
            start = ["-m", "tests.faults.slow_build", json.dumps(fault)]
        fixed = {
            "--input": self.input,
            "--store": store,
            "--models": self.models,
            "--wave-size": WAVE_SIZE,
            # With fixed numbers two jobs fit beside each other on the tests' cluster.
            "--extract-actors": 1,
            "--weigh-actors": 1,
            "--embed-actors": 1,
        }
        arguments = [str(part) for option in fixed.items() for part in option]
        log = self.logs / f"{store.name}-{next(self._numbers)}.log"
        with running([*start, *arguments, *options], log, self.environment) as job:
            yield job

    def finish(self, store: Path, *options: str) -> None:
        """Run the job to its end."""
        with self.build(store, *options) as job:
            job.succeed()


def committed(store: Path) -> int:
    """Sessions that the manifest names; 0 while there is no store."""
    try:
        return Store.open(str(store)).manifest(columns=["session_key"]).num_rows
    except StoreError:
        return 0


def tables_of(store: Path, folder: Path) -> Tables:
    """The visible rows of every table without the columns that differ between runs."""
    Store.open(str(store)).export(folder, with_vectors=True)
    return {path.stem: _rows(path) for path in sorted(folder.glob("*.jsonl"))}


def _rows(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in row.items() if k not in VARYING_COLUMNS} for row in rows]


def assert_same(found: Tables, expected: Tables) -> None:
    """Row for row; says which row is the first that differs."""
    assert list(found) == list(expected)
    for table, rows in expected.items():
        for place, (row, other) in enumerate(zip(rows, found[table], strict=False)):
            assert other == row, f"row {place} of {table}"
        assert len(found[table]) == len(rows), f"rows of {table}"


def assert_sound(store: Path, folder: Path, reference: Tables) -> int:
    """Every rule holds, and of each session all rows of the reference are visible, or none.

    Returns:
        The sessions that are visible.
    """
    assert Store.open(str(store)).verify() == []
    found = tables_of(store, folder)
    keys = {row["session_key"] for row in found["sessions"]}
    for table in ("sessions", "turns", "entities", "edges"):
        expected = [row for row in reference[table] if row["session_key"] in keys]
        assert_same({table: found[table]}, {table: expected})
    # Failures of reading belong to no session: each is there once, or not yet.
    ids = [row["failure_id"] for row in found["failures"]]
    assert len(ids) == len(set(ids))
    assert all(row in reference["failures"] for row in found["failures"])
    return len(keys)
