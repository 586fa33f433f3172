from collections import defaultdict
from datetime import datetime

from glong.sources import Reader, sample_dialogues
from glong.types import Session


def read() -> dict[str, list[Session]]:
    dialogues = defaultdict(list)
    for item in Reader(str(sample_dialogues())):
        assert isinstance(item, Session), item
        dialogues[item.dialogue_id].append(item)
    return dialogues


def test_the_samples_are_a_dozen_native_dialogues_of_several_sessions() -> None:
    dialogues = read()
    assert Reader(str(sample_dialogues())).format == "native"
    assert len(dialogues) == 12
    for sessions in dialogues.values():
        assert 2 <= len(sessions) <= 4
        assert all(6 <= len(session.turns) <= 12 for session in sessions)
        starts = [session.started_at or datetime.max for session in sessions]
        assert starts == sorted(set(starts))


def test_nothing_in_them_is_assumed_or_left_out() -> None:
    reader = Reader(str(sample_dialogues()))
    assert sum(1 for _ in reader) == reader.counts["sessions"]
    assert reader.assumptions == ()
    assert set(reader.counts) == {"sessions", "turns"}


def test_the_first_two_answer_the_questions_of_the_demo() -> None:
    (first, sessions), (second, others), *_ = read().items()
    assert (first, second) == ("mira-and-tom", "priya-and-daniel")
    texts = [turn.text for session in sessions for turn in session.turns if turn.speaker == "Mira"]
    assert any("grilling courgettes and peppers" in text for text in texts)
    assert any("My greyhound" in text for text in texts)
    assert any("bees" in turn.text for session in others for turn in session.turns)


def test_there_are_three_speakers_turn_times_an_assistant_and_other_languages() -> None:
    dialogues = read()
    speakers = {
        name: {turn.speaker for session in sessions for turn in session.turns}
        for name, sessions in dialogues.items()
    }
    assert len(speakers["the-lighthouse-trip"]) == 3
    assert all(turn.time for turn in dialogues["the-lighthouse-trip"][0].turns)
    assert speakers["nadia-and-assistant"] == {"user", "assistant"}
    assert {"lena-und-oskar", "carmen-y-luis", "haruka-and-ken"} <= set(dialogues)
