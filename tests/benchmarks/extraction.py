"""Extraction through the pipeline against bare vLLM, and against the paper's way, in one run.

``python tests/benchmarks/extraction.py --input LOCOMO --minutes 5 --out extraction.json``

- *pipeline*: the job's own Ray Data pipeline with a vLLM extractor, fake scorer and encoder; from
  the first row into the warm extraction stage to the last row out of it.
- *bare*: the same prompts given to ``vllm.LLM.generate`` in one call, engine warm. The physical
  limit here: the pipeline cannot be faster than the engine that it feeds. Run before the pipeline
  and after it; the mean of both counts, so that a machine that speeds up or slows down does not
  decide the ratio.
- *paper*: one utterance at a time through transformers, as the paper's code does, on some of the
  same sessions.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from glong.build import Fingerprints
from glong.config import FAKE_MODELS, ExtractorSpec
from glong.extraction import chat, plan_windows
from glong.models.rendering import render
from glong.models.smollm2 import smollm2_folder
from glong.planning import Rebuild
from glong.sources import Reader
from glong.store import Forgotten
from glong.types import GenerationRequest, Session

HERE = Path(__file__).parent
SECONDS_PER_SESSION = 4.0
"""Of bare vLLM on two cores, a LoCoMo session (measured: 3.8); sizes the work."""
N_PAPER_TURNS = 24
N_WARM = 5
"""Sessions for warming up: the engine then has compiled its schemas and cached its prompt."""


@dataclass(frozen=True)
class Work:
    """Sessions that warm the engine up, and those whose time counts."""

    warm: list[Session]
    timed: list[Session]


def spec_of(batch_size: int) -> ExtractorSpec:
    """SmolLM2 under vLLM, bounded as in preset ``small``."""
    return ExtractorSpec(
        backend="vllm",
        model="package:smollm2",
        min_triplets=3,
        max_tokens=144,
        max_model_tokens=4096,
        batch_size=batch_size,
    )


def read_work(path: str, minutes: float, batch_size: int) -> Work:
    """As many sessions as the minutes allow, in whole calls."""
    sessions = [item for item in Reader(path) if isinstance(item, Session)]
    n_calls = max(1, round(minutes * 60 / SECONDS_PER_SESSION / batch_size))
    wanted = N_WARM + batch_size * n_calls
    if len(sessions) < wanted:
        raise SystemExit(f"{path} has {len(sessions)} sessions; {wanted} are needed.")
    return Work(sessions[:N_WARM], sessions[N_WARM:wanted])


def run_pipeline(work: Work, spec: ExtractorSpec) -> dict[str, Any]:
    """Seconds from the first row into the warm stage to the last row out of it."""
    import ray

    from jobs import pipeline
    from jobs.reading import ReadPlan
    from jobs.resources import plan_resources
    from jobs.stages import ExtractStage, split_events

    class WarmStage(ExtractStage):
        def load(self) -> None:
            super().load()
            self.extractor.extract(work.warm)

    pipeline.ExtractStage = WarmStage  # type: ignore[misc]
    models = replace(FAKE_MODELS, name="benchmark", extractor=spec)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.jsonl"
        path.write_text("\n".join(map(_native, work.timed)), encoding="utf-8")
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        manifest = pa.table({name: pa.array([], pa.string()) for name in _MANIFEST})
        read = ReadPlan(
            tenant="t",
            format_name="native",
            rebuild=Rebuild.NONE,
            limit=0,
            fingerprints=Fingerprints("", "", ""),
            manifest=ray.put(manifest),
            forgotten=Forgotten(),
        )
        plan = plan_resources(models, {"CPU": 2.0})
        calls = []
        dataset = pipeline.build_dataset([str(path)], read, models, plan)
        for block in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
            _, events = split_events(block)
            calls += [e for e in events if e.get("stage") == "extract" and e["n_sessions"]]
        ray.shutdown()
    began_at, ended_at = (pick(c[name] for c in calls) for pick, name in _ENDS)
    return {
        "seconds": ended_at - began_at,
        "busy_seconds": sum(call["seconds"] for call in calls),
        "tokens_out": sum(call["tokens_out"] for call in calls),
        "n_sessions": sum(call["n_sessions"] for call in calls),
        "n_calls": len(calls),
    }


_ENDS = ((min, "began_at"), (max, "ended_at"))
_MANIFEST = ("session_key", "content_hash", "status", "extractor", "scorer", "encoder")


def _native(session: Session) -> str:
    turns = [{"speaker": t.speaker, "text": t.text} for t in session.turns]
    started = session.started_at.isoformat() if session.started_at else "2026-01-01T00:00:00Z"
    one = {"session_id": session.session_id, "started_at": started, "turns": turns}
    return json.dumps({"dialogue_id": session.dialogue_id, "sessions": [one]})


def requests_of(sessions: list[Session], spec: ExtractorSpec) -> list[GenerationRequest]:
    """The very requests that the extractor makes of the sessions."""
    return [chat(window, spec) for session in sessions for window in plan_windows(session, spec)]


def run_bare(work: Work, spec: ExtractorSpec) -> dict[str, Any]:
    """The same prompts through vLLM alone, in a fresh process."""
    from transformers import AutoTokenizer

    from glong.models.vllm import engine_settings

    tokenizer = AutoTokenizer.from_pretrained(smollm2_folder())
    warm, timed = requests_of(work.warm, spec), requests_of(work.timed, spec)
    job = {
        "model": str(smollm2_folder()),
        "settings": engine_settings(spec, "", on_gpu=False),
        "prompts": [render(tokenizer, request) for request in [*warm, *timed]],
        "schemas": [request.json_schema for request in [*warm, *timed]],
        "max_tokens": spec.max_tokens,
        "n_warm": len(warm),
    }
    environment = os.environ | {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "passive",
    }
    with tempfile.TemporaryDirectory() as folder:
        job_file, out_file = Path(folder) / "job.json", Path(folder) / "out.json"
        job_file.write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, str(HERE / "bare_vllm.py"), str(job_file), str(out_file)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        result: dict[str, Any] = json.loads(out_file.read_text(encoding="utf-8"))
    return {"seconds": result["seconds"], "tokens_out": result["tokens_out"]}


def run_paper(work: Work, spec: ExtractorSpec) -> dict[str, Any]:
    """One utterance at a time through transformers: each pays the whole prompt."""
    from glong.models.load import load_generator

    one_turn = replace(
        spec, backend="transformers", window_turns=1, context_turns=0, max_tokens=48, min_triplets=1
    )
    generator = load_generator(one_turn)
    requests = requests_of(work.timed, one_turn)[:N_PAPER_TURNS]
    generator.generate(requests[:1])
    began_s = time.perf_counter()
    for request in requests:
        generator.generate([request])
    return {"seconds": time.perf_counter() - began_s, "n_turns": len(requests)}


def _shown(name: str, result: dict[str, Any]) -> dict[str, Any]:
    print(name, json.dumps(result), file=sys.stderr, flush=True)
    return result


def compare(path: str, minutes: float, batch_size: int) -> dict[str, Any]:
    """All three, one after another on an otherwise idle machine."""
    spec = spec_of(batch_size)
    work = read_work(path, minutes, batch_size)
    n_turns = sum(len(session.turns) for session in work.timed)
    before = _shown("bare", run_bare(work, spec))
    pipeline = _shown("pipeline", run_pipeline(work, spec))
    after = _shown("bare", run_bare(work, spec))
    bare = {
        "seconds": (before["seconds"] + after["seconds"]) / 2,
        "seconds_before_and_after": [before["seconds"], after["seconds"]],
        "tokens_out": before["tokens_out"],
    }
    paper = _shown("paper", run_paper(work, spec))
    rates = {
        "pipeline": n_turns / pipeline["seconds"],
        "bare": n_turns / bare["seconds"],
        "paper": paper["n_turns"] / paper["seconds"],
    }
    return {
        "n_sessions": len(work.timed),
        "n_turns": n_turns,
        "pipeline": pipeline,
        "bare": bare,
        "paper": paper,
        "turns_per_s": rates,
        "pipeline_over_bare": pipeline["seconds"] / bare["seconds"],
        "pipeline_times_paper": rates["pipeline"] / rates["paper"],
    }


def main() -> None:
    """Print and write the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True, help="LoCoMo, or any input of many sessions")
    parser.add_argument("--minutes", type=float, default=5.0, help="work of the bare engine")
    parser.add_argument("--batch-size", type=int, default=25, help="sessions a call of the stage")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    args = parser.parse_args()
    result = compare(args.input, args.minutes, args.batch_size)
    text = json.dumps(result, indent=2)
    print(text)
    if args.out:
        args.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
