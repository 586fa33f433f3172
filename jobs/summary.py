"""What a build counted, and the summary made of it."""

import resource
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

from glong.build import PENDING, Fingerprints
from jobs.options import STAGES

__all__ = ["Tally", "describe", "summarise"]


@dataclass(slots=True)
class Tally:
    """Everything that the summary counts, from rows and events alone.

    Attributes:
        sessions: as planned (``seen``, ``pending``, ``skipped``, ``stale``, ``forgotten``) and as
            they came out (``built``, ``failed``, ``unavailable``: a cause that may pass).
        rows: ``turns``, ``triplets``, ``edges``, ``entities`` of what was built.
        failures: (stage, kind) -> number.
        seconds: stage -> seconds spent in its calls, over all workers.
        tokens: ``tokens_in``, ``tokens_out``.
        reader: what the sources counted (``duplicates``, ``renamed``, ...).
        formats: format -> files.
        assumptions: what the sources had to assume, each once.
    """

    sessions: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    tokens: Counter[str] = field(default_factory=Counter)
    reader: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    assumptions: dict[str, None] = field(default_factory=dict)
    waves: int = 0
    gpu_s: float = 0.0

    def add(self, event: dict[str, Any]) -> None:
        """Count one event of a stage."""
        if "failure" in event:
            self.failures[event["failure"]["stage"], event["failure"]["kind"]] += 1
            return
        self.seconds[event["stage"]] += event["seconds"]
        self.gpu_s += event["seconds"] * event.get("gpus", 0.0)
        for name in ("tokens_in", "tokens_out"):
            self.tokens[name] += event.get(name, 0)
        if event["stage"] == "read":
            self.sessions.update(event["sessions"])
            self.reader.update(event["reader"])
            self.formats[event["format"]] += 1
            self.assumptions.update(dict.fromkeys(event["assumptions"]))

    def add_counts(self, counts: dict[str, Any]) -> None:
        """Add what :func:`jobs.stages.count_rows` counted."""
        for status, n in counts["sessions"].items():
            self.sessions["unavailable" if status == PENDING else status] += n
        self.rows.update(counts["rows"])
        self.sessions["forgotten"] += counts["forgotten"]["sessions"]
        for name in ("turns", "edges"):
            self.sessions[f"forgotten_{name}"] += counts["forgotten"][name]
        self.failures.update({(stage, kind): n for stage, kind, n in counts["failures"]})

    @property
    def failure_rate(self) -> float:
        """Share of the sessions and input records looked at that could not be built."""
        unreadable = sum(n for (stage, _), n in self.failures.items() if stage == "read")
        bad = unreadable + self.sessions["failed"] + self.sessions["unavailable"]
        looked_at = self.sessions["seen"] + unreadable
        return bad / looked_at if looked_at else 0.0


def summarise(
    tally: Tally, fingerprints: Fingerprints, store_version: int, wall_s: float
) -> dict[str, Any]:
    """The numbers of a run; every key is there whatever happened.

    ``sessions_failed`` counts those that failed for good and those that stay pending
    (``sessions_pending``); ``entities`` counts entity rows, one for each session that names it;
    ``stage_s`` adds up the seconds of all workers of a stage.
    """
    failures: dict[str, dict[str, int]] = {}
    for (stage, kind), n in sorted(tally.failures.items()):
        failures.setdefault(stage, {})[kind] = n
    sessions = tally.sessions
    return {
        "sessions_seen": sessions["seen"],
        "sessions_forgotten": sessions["forgotten"],
        "turns_forgotten": sessions["forgotten_turns"],
        "edges_forgotten": sessions["forgotten_edges"],
        "sessions_skipped": sessions["skipped"],
        "sessions_stale": sessions["stale"],
        "sessions_planned": sessions["pending"],
        "sessions_built": sessions["built"],
        "sessions_failed": sessions["failed"] + sessions["unavailable"],
        "sessions_pending": sessions["unavailable"],
        **{name: tally.rows[name] for name in ("turns", "triplets", "edges", "entities")},
        "failures": failures,
        "failure_rate": tally.failure_rate,
        "waves": tally.waves,
        "wall_s": wall_s,
        "stage_s": {name: tally.seconds[name] for name in ("read", *STAGES, "write")},
        "turns_per_s": tally.rows["turns"] / wall_s,
        "tokens_in": tally.tokens["tokens_in"],
        "tokens_out": tally.tokens["tokens_out"],
        "gpu_s": tally.gpu_s,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "store_version": store_version,
        "fingerprints": asdict(fingerprints),
        "formats": dict(tally.formats),
        "assumptions": list(tally.assumptions),
        "reader": dict(tally.reader),
    }


def describe(numbers: dict[str, Any]) -> str:
    """The summary for people."""
    lines = [
        f"{numbers['sessions_seen']} sessions seen: {numbers['sessions_built']} built,"
        f" {numbers['sessions_skipped']} skipped, {numbers['sessions_failed']} failed,"
        f" {numbers['sessions_forgotten']} forgotten.",
        f"{numbers['turns']} turns, {numbers['triplets']} triplets, {numbers['edges']} edges in"
        f" {numbers['waves']} waves, {numbers['wall_s']:.1f} s"
        f" ({numbers['turns_per_s']:.1f} turns/s), driver peak {numbers['peak_rss_mb']:.0f} MB.",
    ]
    if numbers["sessions_stale"]:
        lines.append(
            f"{numbers['sessions_stale']} skipped sessions are stale (made with other models);"
            " build them again with --rebuild stale."
        )
    if numbers["sessions_pending"]:
        lines.append(
            f"{numbers['sessions_pending']} sessions met a cause that may pass;"
            " run the job again to try them."
        )
    for stage, kinds in numbers["failures"].items():
        counts = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
        lines.append(f"failures of stage {stage}: {counts} (stored in the table failures).")
    return "\n".join(lines)
