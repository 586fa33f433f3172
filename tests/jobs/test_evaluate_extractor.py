"""The job on the made-up data folder, with the rules and the fake extractor."""

import json

from glong.training.judging import evaluation_sets
from jobs.evaluate_extractor import main


def evaluate(data, out, *options):
    status = main(["--data", str(data), "--out", str(out), *options])
    report = json.loads((out / "report.json").read_text()) if status == 0 else {}
    return status, report


def test_a_report_has_every_set_and_figure(data, tmp_path):
    status, report = evaluate(data, tmp_path / "out", "--extractor", "rules")
    assert status == 0
    assert set(report["sets"]) == {name for name, _ in evaluation_sets(data)}
    scores = report["sets"]["personaext_heldout"]
    assert {
        "precision", "recall", "f1", "soft_f1", "valid_rate", "triplets_per_turn", "n",
    } <= set(scores)  # fmt: skip
    # "i have 20 dogs ." is plain, and its label is a synonym of its verb.
    assert (scores["pair_recall"], scores["soft_f1"], scores["valid_rate"]) == (1, 1, 1)
    assert report["turns_per_s"] > 0
    assert "| personaext_heldout |" in (tmp_path / "out/report.md").read_text()


def test_chosen_sets_alone_are_read(data, tmp_path):
    _, report = evaluate(data, tmp_path, "--extractor", "fake", "--sets", "persona", "--limit", "3")
    assert list(report["sets"]) == ["personaext_heldout"]
    assert 3 <= report["sets"]["personaext_heldout"]["n"] <= 5


def test_the_summary_is_the_report(data, tmp_path):
    summary = tmp_path / "summary.json"
    options = ("--extractor", "fake", "--sets", "persona", "--summary", str(summary))
    status, report = evaluate(data, tmp_path, *options)
    assert (status, json.loads(summary.read_text())) == (0, report)
    options = ("--extractor", "fake", "--summary", str(tmp_path / "none/summary.json"))
    assert evaluate(data, tmp_path, *options)[0] == 2


def test_wrong_use_ends_with_2_and_says_what_is_allowed(data, tmp_path, capsys):
    wrong = ("--extractor", "rules", "--sets", "persona,nothing")
    assert evaluate(data, tmp_path, *wrong)[0] == 2
    said = capsys.readouterr().err
    assert "--sets has 'nothing'" in said
    assert "personaext_heldout, " in said
    assert evaluate(tmp_path, tmp_path, "--extractor", "rules")[0] == 2
    assert "--data names the folder" in capsys.readouterr().err
