import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from glong.errors import ConfigError, SourceError
from glong.training.summaries import TASKS, Case, Pair, make_cases, make_pairs
from glong.training.summary_sources import (
    EVALUATION_SETS,
    FILES,
    SOURCES,
    Annotated,
    evaluation_set,
    is_held_out,
    third_person,
    training_set,
)
from glong.types import Extraction, Session, Triplet, Turn

HELD_OUT = next(f"valid_{n}" for n in range(100) if is_held_out(f"valid_{n}"))
TRAINED = next(f"valid_{n}" for n in range(100) if not is_held_out(f"valid_{n}"))


def msc(episode: str, text: str) -> dict[str, Any]:
    """An episode of sessions 1, 3 and 5."""
    said = {"speaker": "Speaker 1", "text": text, "persona_text": "I'm a nurse. My dog barks."}
    answer = {"speaker": "Speaker 2", "text": f"Lovely weather, {text}"}
    sessions = [{"session": n, "dialog": [said, answer]} for n in (1, 3, 5)]
    return {
        "id": episode,
        "personas_before_session_3": [["I have figs."], ["I like tea. I like tea."]],
        "sessions": sessions,
    }


def write(data: Path, name: str, content: str) -> None:
    path = data / FILES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content.encode()))


def lines(*rows: Any) -> str:
    return "\n".join(json.dumps(row) for row in rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Every file that is read, each with one or two records."""
    write(tmp_path, "msc_valid", lines(msc(TRAINED, "I nurse."), msc(HELD_OUT, "I cook.")))
    write(tmp_path, "msc_test", lines(msc("test_0", "I sing.")))
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["user 1 personas", "user 2 personas", "Best Generated Conversation"])
    writer.writerow(["I like jam.\nI am old.", "I run.", "User 1: Hi!\nUser 2: Hello.\nI run."])
    write(tmp_path, "spc_valid", table.getvalue())
    write(
        tmp_path,
        "samsum_train",
        lines(
            {"dialogue_segments": ["Ada: Hi Ben: Yo", "Ben: Bye"], "summary": "Ada meets Ben."},
            {"dialogue_segments": ["Cleo: Same words"], "summary": "A copy."},
        ),
    )
    held = {"id": "9", "dialogue": "Cy: <file_gif>\r\nDi: same WORDS!", "summary": "Known."}
    write(tmp_path, "samsum_validation", json.dumps([held]))
    person = {"fname": "t0", "dialogue": "#Person1#: Hi\n#Person2#: Oh", "summary": "#Person1# is."}
    write(tmp_path, "dialogsum_train", lines(person))
    write(tmp_path, "dialogsum_dev", lines(person | {"fname": "d0"}))
    return tmp_path


def test_the_default_reads_msc_and_personas_and_never_what_is_held_out(data: Path) -> None:
    found = training_set(data, "default")
    assert [one.dataset for one in found] == ["msc_valid", "msc_valid", "spc_valid"]
    assert {one.session.dialogue_id for one in found} == {TRAINED, "spc_0"}


def test_research_adds_summaries_but_no_session_of_an_evaluation_set(data: Path) -> None:
    found = training_set(data, "research")[3:]
    assert [one.dataset for one in found] == ["samsum_train", "dialogsum_train", "dialogsum_dev"]
    assert [turn.speaker for turn in found[0].session.turns] == ["Ada", "Ben", "Ben"]
    assert found[1].kept == ("Person 1 is",)
    assert [turn.speaker for turn in found[1].session.turns] == ["Person 1", "Person 2"]


def test_early_sessions_are_beside_what_later_ones_kept_and_late_ones_beside_their_own(
    data: Path,
) -> None:
    first, third = evaluation_set(data, "msc_test")
    assert first.kept == ("Speaker 1 has figs", "Speaker 2 like tea")
    assert third.kept == ("Speaker 1 is a nurse", "Speaker 1's dog barks")
    assert [one.session.session_id for one in (first, third)] == ["session_1", "session_3"]


def test_the_held_out_part_is_in_no_training_set(data: Path) -> None:
    held = {one.session.dialogue_id for one in evaluation_set(data, "msc_valid_heldout")}
    assert held == {HELD_OUT}


def test_attachments_and_lines_without_a_name_make_no_turn(data: Path) -> None:
    (one,) = evaluation_set(data, "samsum_validation")
    assert [(turn.speaker, turn.text) for turn in one.session.turns] == [("Di", "same WORDS!")]
    persona = training_set(data, "default")[-1]
    assert [turn.text for turn in persona.session.turns] == ["Hi!", "Hello. I run."]


def test_wrong_names_and_broken_files_say_what_is_allowed(data: Path) -> None:
    with pytest.raises(ConfigError, match="allowed: default, research"):
        training_set(data, "all")
    with pytest.raises(ConfigError, match="allowed: msc_valid_heldout, msc_test"):
        evaluation_set(data, "samsum_test")
    write(data, "msc_test", "{")
    with pytest.raises(SourceError, match="not the set msc_test"):
        evaluation_set(data, "msc_test")
    (data / FILES["spc_valid"]).unlink()
    with pytest.raises(SourceError, match="cannot be read"):
        training_set(data, "default")


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("I'm a nurse.", "Mira is a nurse"),
        ("i have two dogs", "Mira has two dogs"),
        ("I don't like tea!", "Mira doesn't like tea"),
        ("My  mother sings.", "Mira's mother sings"),
        ("I", "I"),
        ("Dogs are fine.", "Dogs are fine"),
    ],
)
def test_third_person(sentence: str, expected: str) -> None:
    assert third_person(sentence, "Mira") == expected


SESSION = Session(
    "d",
    "s",
    None,
    (
        Turn(0, "Speaker 1", "I grill peppers every week. What a day it was!"),
        Turn(1, "Speaker 2", "My brother sells old cars. The weather turned cold and rainy here."),
    ),
)
FACTS = (
    Triplet("I", "grill", "peppers", 0),
    Triplet("I", "see", "a rainy day", 0),
    Triplet("my brother", "sell", "old cars", 1),
    Triplet("I", "grill", "peppers", 0),
)
KEPT = ("Speaker 1 grill peppers on Sundays", "Speaker 2's brother sells old cars")


class Given:
    """An extractor that finds what it was given."""

    fingerprint = "given"

    def extract(self, sessions: Any) -> list[Extraction]:
        return [Extraction(FACTS) for _ in sessions]


def cases(dataset: str = "msc_valid") -> list[Case]:
    return make_cases([Annotated(dataset, SESSION, KEPT)], Given())


def test_facts_have_resolved_names_and_each_text_once() -> None:
    (case,) = cases()
    assert case.texts == (
        "Speaker 1 grill peppers",
        "Speaker 1 see a rainy day",
        "Speaker 2's brother sell old cars",
    )
    assert case.mentioned() == (True, False, True)


def pairs_by_task(dataset: str = "msc_valid", seeds: int = 12) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {task: [] for task in TASKS}
    for seed in range(seeds):
        for pair in make_pairs(cases(dataset), seed):
            found[pair.task].append(pair)
    return found


def test_targets_say_only_what_the_reference_mentions() -> None:
    for pair in pairs_by_task()["facts"]:
        wanted = [t for t, keep in zip(pair.texts, pair.favoured, strict=True) if keep]
        assert pair.target == " ".join(f"{text}." for text in wanted)
        assert "rainy" not in pair.target
    assert any("brother sells old cars." in pair.target for pair in pairs_by_task()["summary"])


def test_sentences_are_mixed_with_small_talk() -> None:
    found = pairs_by_task()["sentences"]
    assert found
    for pair in found:
        talk = [t for t, keep in zip(pair.texts, pair.favoured, strict=True) if not keep]
        assert all("weather" in text or "day" in text for text in talk)
        assert all(text in pair.target for text in set(pair.texts) - set(talk))


def test_prose_gives_dialogues_and_no_sentences() -> None:
    found = pairs_by_task("samsum_train")
    assert not found["sentences"]
    assert not found["dialogue"]  # every turn shares content with this reference
    only = Annotated("samsum_train", SESSION, KEPT[:1])
    (pair,) = make_pairs(make_cases([only], Given()), 0, ["dialogue"])
    assert pair.favoured == (True, False)
    assert pair.texts[0].endswith(": I grill peppers every week. What a day it was!")


def test_every_pair_has_both_kinds_and_numbered_speakers_get_names_in_some() -> None:
    found = [pair for of_task in pairs_by_task().values() for pair in of_task]
    assert all(any(pair.favoured) and not all(pair.favoured) for pair in found)
    numbered = [any("Speaker" in text for text in pair.texts) for pair in found]
    assert any(numbered)
    assert not all(numbered)


def test_pairs_repeat_with_their_seed_and_do_not_depend_on_their_mates() -> None:
    (case,) = cases()
    other = Case("spc_valid", SESSION, case.triplets, case.kept)
    alone = make_pairs([case], 4)
    assert make_pairs([other, case], 4)[-len(alone) :] == alone
    assert make_pairs([case], 5) != alone


def test_a_case_without_mentioned_facts_gives_no_facts() -> None:
    (case,) = cases()
    assert make_pairs([Case("msc_valid", SESSION, case.triplets, ())], 0) == []
    assert make_pairs([Case("msc_valid", SESSION, (), KEPT)], 0, ["facts", "summary"]) == []


@pytest.mark.data
def test_the_real_sets_have_the_sizes_that_the_card_gives(data_dir: Path) -> None:
    sizes = {name: len(evaluation_set(data_dir, name)) for name in EVALUATION_SETS}
    assert sizes == {"msc_valid_heldout": 184, "msc_test": 2004, "samsum_validation": 818}
    assert [len(training_set(data_dir, sources)) for sources in SOURCES] == [2816, 18618]
