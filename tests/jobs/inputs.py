"""Small native inputs, written for a test."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 1, 5, 10, tzinfo=UTC)
SPEAKERS = ("Mira", "Tom")
WORDS = ("greyhound", "courgette", "bookbinder", "Leipzig", "marathon", "balcony", "aubergine")


def session(name: str, *texts: str, day: int = 0) -> dict[str, Any]:
    """A native session in which Mira and Tom take turns."""
    return {
        "session_id": name,
        "started_at": (START + timedelta(days=day)).isoformat(),
        "turns": [{"speaker": SPEAKERS[i % 2], "text": text} for i, text in enumerate(texts)],
    }


def dialogue(name: str, n_sessions: int, n_turns: int = 4) -> dict[str, Any]:
    """A native dialogue; the same arguments give the same texts."""
    sessions = []
    for s in range(n_sessions):
        texts = [
            f"{name}, session {s}, turn {t}: a {WORDS[(s + t) % 7]} and a {WORDS[(s * t) % 7]}."
            for t in range(n_turns)
        ]
        sessions.append(session(f"s{s}", *texts, day=s))
    return {"dialogue_id": name, "sessions": sessions}


def write(path: Path, records: Sequence[object]) -> str:
    """One record a line; a string stands for itself, so that it can be broken JSON."""
    lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)
