import csv
import gzip
import io
import json

import pytest

from glong.training.corpora import data_hash
from glong.training.datasets import relation_dialogues, training_dialogues
from glong.training.examples import normal_form
from glong.training.judging import evaluation_sets
from glong.types import Triplet
from glong.words import split_words


def _gzip(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


@pytest.fixture
def data(tmp_path):
    """Training data, of which the evaluation data repeats "i like pizza" and "i am a nurse"."""

    def session(*texts):
        turns = [{"speaker": "A", "text": text, "persona_text": text} for text in texts]
        return json.dumps({"sessions": [{"session": 1, "dialog": turns}]})

    rows = [{"tokens": ["i", "like", "tea"], "head": [0], "tail": [2], "label": "like_drink"}]
    _gzip(tmp_path / "personaext/personaext_union.jsonl.gz", "\n".join(map(json.dumps, rows)))
    _gzip(
        tmp_path / "msc/msc_valid.jsonl.gz",
        session("I like pizza.", "I like chess.", "I'm a nurse."),
    )
    _gzip(tmp_path / "msc/msc_test.jsonl.gz", session("i like pizza", "i am a nurse ."))
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["user 1 personas", "user 2 personas", "Best Generated Conversation"])
    writer.writerow(["I like pizza.", "I like old films.", "User 1: I like pizza."])
    name = "synthetic_persona_chat/Synthetic-Persona-Chat_valid.csv.gz"
    _gzip(tmp_path / name, table.getvalue())
    _gzip(tmp_path / "dialogre/test.json.gz", "[]")
    _gzip(tmp_path / "locomo/locomo10.json.gz", "[]")
    return tmp_path


def test_what_an_evaluation_reads_is_never_learnt_however_short(data):
    found = training_dialogues(data, lambda pairs: [{} for _ in pairs], n_composed=30, seed=1)
    assert {dialogue.source for dialogue in found} >= {"msc", "synthetic", "persona", "composed"}
    labelled = [turn for d in found for turn in d.turns if turn.facts or turn.is_complete]
    texts = {normal_form(turn.text) for turn in labelled}
    assert "i like chess" in texts
    assert "i like pizza" not in texts
    assert not any("nurse" in text for text in texts)
    # Composed exchanges turn a sentence round, so its object would show.
    assert not any(
        "pizza" in turn.text for d in found if d.source == "composed" for turn in d.turns
    )


def test_a_turn_with_a_sentence_that_no_pattern_reads_does_not_teach_silence(data):
    turn = {"speaker": "A", "text": "Cats? Sure!", "persona_text": "Fond of cats."}
    session = {"sessions": [{"session": 1, "dialog": [turn, turn | {"persona_text": ""}]}]}
    _gzip(data / "msc/msc_valid.jsonl.gz", json.dumps(session))
    found = training_dialogues(data, lambda pairs: [{} for _ in pairs], n_composed=0, seed=1)
    (dialogue,) = [one for one in found if one.source == "msc"]
    assert [turn.is_complete for turn in dialogue.turns] == [False, True]


def _pair(subject, relation, target, trigger):
    return {"x": subject, "y": target, "r": [relation], "t": [trigger]}


@pytest.fixture
def spoken(data):
    """DialogRE: one dialogue of which three turns state a relation by our name."""
    lines = [
        "Speaker 1: This is my sister Monica, she likes Ross.",
        "Speaker 2: I am a doctor. My sister says hi.",
        "Speaker 1, Speaker 2: Ross works with Emma.",
        "Speaker 2: I like pizza.",
    ]
    pairs = [
        _pair("Speaker 1", "per:siblings", "Monica", "sister"),
        _pair("Monica", "per:siblings", "Speaker 1", "sister"),
        _pair("Monica", "per:positive_impression", "Ross", "likes"),
        _pair("Speaker 2", "per:title", "doctor", ""),
        _pair("Speaker 1", "per:positive_impression", "Emma", ""),
        _pair("Speaker 1", "per:friends", "Ross", "works with"),
        _pair("Speaker 2", "per:positive_impression", "pizza", "like"),
        _pair("Ross", "unanswerable", "Emma", ""),
    ]
    for name in ("train", "test"):
        _gzip(data / f"dialogre/{name}.json.gz", json.dumps([[lines, pairs]]))
    _gzip(data / "dialogre/dev.json.gz", "[]")
    return data


def test_a_turn_states_a_relation_of_the_dialogue_that_it_shows(spoken):
    _gzip(spoken / "dialogre/test.json.gz", "[]")
    (dialogue,) = relation_dialogues(spoken)
    facts = []
    for turn in dialogue.turns:
        words = split_words(turn.text)
        for fact in turn.facts:
            subject = "I" if fact.subject is None else words.span(*fact.subject.span)
            facts.append((subject, fact.relation, words.span(*fact.object.span)))
    assert facts == [
        ("I", "have_sibling", "Monica"),
        ("Monica", "like_general", "Ross"),
        ("I", "has_profession", "doctor"),
    ]  # "pizza": MSC test has that turn
    assert not any(turn.is_complete for turn in dialogue.turns)


def test_a_dialogue_that_an_evaluation_reads_states_nothing(spoken):
    assert relation_dialogues(spoken) == []


def test_relations_of_dialogues_are_judged_by_our_names(spoken):
    ((case,),) = [cases for name, cases in evaluation_sets(spoken) if name == "dialogre_test"]
    assert Triplet("Speaker 1", "have_sibling", "Monica", 0) in case.gold
    assert Triplet("Speaker 1", "friends", "Ross", 0) in case.gold
    assert len(case.gold) == 7
    assert [turn.speaker for turn in case.session.turns][2] == "Speaker 1, Speaker 2"


def test_the_hash_of_the_data_changes_with_a_file(data):
    before = data_hash(data)
    assert data_hash(data) == before
    _gzip(data / "dialogre/test.json.gz", "[ ]")
    assert data_hash(data) != before
