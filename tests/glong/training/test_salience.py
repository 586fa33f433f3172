import numpy as np
import pytest

from glong.training.salience import (
    BASELINES,
    Judged,
    auc,
    baselines,
    content_stems,
    mentions,
    stem,
)


def judged(mentioned: list[int], scores: list[float], dialogue_id: str = "d") -> Judged:
    return Judged(dialogue_id, np.array(mentioned, bool), np.array(scores, float))


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        ("walk walks walked walking", "walk"),
        ("hike hikes hiked hiking", "hik"),
        ("run runs running", "run"),
        ("city cities", "city"),
        ("dog's dogs dog", "dog"),
        ("dress dresses", "dress"),
        ("quickly quick", "quick"),
        ("is", "is"),
    ],
)
def test_forms_of_a_word_share_a_stem(forms: str, expected: str) -> None:
    assert {stem(form) for form in forms.split()} == {expected}


def test_content_stems_leave_stop_words_out() -> None:
    assert content_stems("She is walking the two Dogs to it.") == {"walk", "two", "dog"}
    assert content_stems("is it the") == frozenset()


def test_a_fact_is_mentioned_if_all_content_words_of_its_object_occur() -> None:
    reference = content_stems("I own two brown dogs. I love hiking.")
    assert mentions(reference, "a brown dog") is True
    assert mentions(reference, "a brown cat") is False
    assert mentions(reference, "hikes") is True
    assert mentions(reference, "it") is None


def test_auc_by_hand() -> None:
    # mentioned .9, .4; others .5, .4: pairs .9>.5, .9>.4, .4<.5, .4=.4 -> 2.5 of 4
    found = auc([judged([1, 0, 1, 0], [0.9, 0.5, 0.4, 0.4])])
    assert found.value == 0.625
    assert (found.n_pairs, found.n_sessions, found.n_dialogues) == (4, 1, 1)
    assert (found.low, found.high) == (0.625, 0.625)


def test_pairs_are_made_within_a_session_only_and_count_the_same() -> None:
    # d1: 1 of 1; d2: 0 of 2. Across sessions every mentioned fact would win.
    sessions = [judged([1, 0], [9.0, 8.0], "d1"), judged([1, 0, 0], [1.0, 2.0, 3.0], "d2")]
    found = auc(sessions)
    assert found.value == pytest.approx(1 / 3)
    assert (found.low, found.high) == (0.0, 1.0)


def test_sessions_without_a_pair_add_nothing() -> None:
    one_sided = [judged([1, 1], [1.0, 2.0], "all"), judged([0], [1.0], "none"), judged([], [], "e")]
    assert auc([*one_sided, judged([1, 0], [1.0, 0.0])]).n_dialogues == 1
    assert np.isnan(auc(one_sided).value)


def test_the_interval_is_over_dialogues_and_repeats_with_its_seed() -> None:
    rng = np.random.default_rng(1)
    sessions = [judged([1, 0, 0, 1], list(rng.random(4)), f"d{i // 2}") for i in range(80)]
    found = auc(sessions, seed=3)
    assert found == auc(sessions, seed=3)
    assert found.low < found.value < found.high
    assert (found.n_sessions, found.n_dialogues) == (80, 40)


def test_baselines_by_hand() -> None:
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
    found = baselines(["a b c", "a", "a b"], vectors, np.random.default_rng(0))
    assert tuple(found) == BASELINES
    assert list(found["lead"]) == [0, -1, -2]
    assert list(found["length"]) == [3, 1, 2]
    assert list(found["brevity"]) == [-3, -1, -2]
    assert found["centrality"] == pytest.approx([0.3, 0.7, 0.4])
    assert baselines(["a"], vectors[:1], np.random.default_rng(0))["centrality"] == [0]


def test_no_facts_have_no_scores() -> None:
    found = baselines([], np.zeros((0, 2), np.float32), np.random.default_rng(0))
    assert all(scores.shape == (0,) for scores in found.values())
