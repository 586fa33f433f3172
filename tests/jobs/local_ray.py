"""Ray's part of the build job, done in this process: what a job decides can then be tested fast.

It keeps what matters to the stages: functions and their arguments are pickled as on the way to a
worker, batches are formed across blocks, and a batch function may return one table or several. That
the real Ray does the same is tested in the slow tests of ``test_build_memory.py``.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from ray import cloudpickle


@dataclasses.dataclass
class LocalDataset:
    """Blocks, lazily; the methods that :mod:`jobs.pipeline` and the job call."""

    blocks: Callable[[], Iterable[pa.Table]]

    def repartition(self, *, target_num_rows_per_block: int) -> "LocalDataset":
        return LocalDataset(lambda: _batches(self.blocks(), target_num_rows_per_block))

    def map_batches(
        self,
        function: Any,
        *,
        batch_size: int,
        batch_format: str,
        fn_constructor_args: tuple[object, ...] = (),
        **resources: object,
    ) -> "LocalDataset":
        assert batch_format == "pyarrow"
        packed = cloudpickle.dumps((function, fn_constructor_args))

        def blocks() -> Iterator[pa.Table]:
            sent, arguments = cloudpickle.loads(packed)
            call = sent(*arguments) if isinstance(sent, type) else sent
            for batch in _batches(self.blocks(), batch_size):
                result = call(batch)
                yield from [result] if isinstance(result, pa.Table) else result

        return LocalDataset(blocks)

    def iter_batches(self, *, batch_size: None, batch_format: str) -> Iterator[pa.Table]:
        assert batch_format == "pyarrow"
        yield from self.blocks()


def _batches(blocks: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    held: pa.Table | None = None
    for block in blocks:
        held = block if held is None else pa.concat_tables([held, block])
        while held.num_rows >= size:
            yield held.slice(0, size)
            held = held.slice(size)
    if held is not None and held.num_rows:
        yield held


def from_items(items: list[dict[str, Any]], override_num_blocks: int) -> LocalDataset:
    """As ``ray.data.from_items``."""
    assert override_num_blocks == len(items)
    return LocalDataset(lambda: [pa.Table.from_pylist([item]) for item in items])


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put it in Ray's place for one test."""
    import ray
    import ray.data

    from glong.models.load import identify_models
    from jobs import build_memory

    monkeypatch.setattr(ray, "put", lambda value: value)
    monkeypatch.setattr(ray, "get", lambda value: value)
    monkeypatch.setattr(ray.data, "from_items", from_items)
    monkeypatch.setattr(build_memory, "_connect", lambda: None)
    monkeypatch.setattr(build_memory, "_identify", identify_models)
    monkeypatch.setattr(build_memory, "_cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(build_memory, "_workers_write", lambda writer: writer == "workers")
