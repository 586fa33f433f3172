from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glong.errors import ModelError
from glong.types import Edge, Triplet
from glong.weighting import (
    merge_windows,
    normalise,
    plan_windows,
    pool,
    summary_mask,
    triplet_text,
)

COUNTS = st.lists(st.integers(1, 40), max_size=60)
SCORES = st.lists(st.floats(1e-30, 1e30), min_size=1, max_size=30).map(np.array)


@st.composite
def plans(draw):
    counts = draw(COUNTS)
    max_tokens = draw(st.integers(1, 60))
    overlap = draw(st.integers(0, max_tokens - 1))
    return counts, max_tokens, overlap, plan_windows(counts, max_tokens, overlap)


def test_text_of_a_triplet_is_readable():
    assert (
        triplet_text(Triplet("Mira", "likes", "grilled peppers", 0)) == "Mira likes grilled peppers"
    )
    assert triplet_text(Triplet(" Mira ", "works_as", "a\n nurse", 3)) == "Mira works as a nurse"


def test_text_of_an_edge_equals_that_of_its_triplet():
    edge = Edge("e", "Mira", "has_pet", "a cat_bird", 1.0, None, None, "s", 0)
    assert triplet_text(edge) == triplet_text(Triplet("Mira", "has_pet", "a cat_bird", 0))
    assert triplet_text(edge) == "Mira has pet a cat_bird"


def test_short_session_is_one_window():
    assert plan_windows([5, 5, 6], max_tokens=16, overlap_tokens=4) == (slice(0, 3),)


def test_no_triplets_no_windows():
    assert plan_windows([], max_tokens=16, overlap_tokens=4) == ()


def test_windows_overlap_by_whole_triplets():
    windows = plan_windows([4, 4, 4, 4, 4, 4], max_tokens=16, overlap_tokens=8)
    assert windows == (slice(0, 4), slice(2, 6))


def test_triplet_longer_than_a_window_stands_alone():
    windows = plan_windows([3, 50, 3, 3], max_tokens=10, overlap_tokens=5)
    assert windows == (slice(0, 1), slice(1, 2), slice(2, 4))


@given(plans())
def test_windows_cover_every_triplet_in_order(plan):
    counts, _, _, windows = plan
    covered = {k for window in windows for k in range(window.start, window.stop)}
    assert covered == set(range(len(counts)))
    for before, after in pairwise(windows):
        assert before.start < after.start <= before.stop < after.stop


@given(plans())
def test_windows_keep_their_bounds(plan):
    counts, max_tokens, overlap, windows = plan
    for window in windows:
        assert sum(counts[window]) <= max_tokens or window.stop - window.start == 1
    for before, after in pairwise(windows):
        assert sum(counts[after.start : before.stop]) <= overlap


def test_pool_matches_a_case_computed_by_hand():
    # 2 heads, 3 summary tokens (the last is padding), 4 source tokens (the last is the end token).
    attention = np.array(
        [
            [[0.4, 0.2, 0.2, 0.2], [0.1, 0.1, 0.6, 0.2], [1.0, 0.0, 0.0, 0.0]],
            [[0.2, 0.2, 0.4, 0.2], [0.3, 0.1, 0.2, 0.4], [1.0, 0.0, 0.0, 0.0]],
        ],
        dtype=np.float32,
    )
    # A of (1): rows [.3 .2 .3 .2] and [.2 .1 .4 .3]; S of (2): .3+.2+.2+.1 = .8 and .3+.4 = .7.
    scores = pool(attention, [(0, 2), (2, 3)], np.array([True, True, False]))
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, [0.8, 0.7], rtol=1e-6)
    np.testing.assert_allclose(normalise(scores), [1.0, 0.875], rtol=1e-6)


def test_pool_ignores_padding_of_the_summary():
    rng = np.random.default_rng(7)
    attention = rng.dirichlet(np.ones(6), size=(3, 5))
    mask = np.array([True, True, True, False, False])
    short = pool(attention[:, :3], [(0, 2), (2, 5)], mask[:3])
    np.testing.assert_array_equal(pool(attention, [(0, 2), (2, 5)], mask), short)


def test_pool_gives_no_triplet_zero():
    attention = np.zeros((1, 1, 3), dtype=np.float32)
    attention[0, 0, 0] = 1.0
    assert pool(attention, [(0, 1), (1, 3)], np.array([True]))[1] > 0


def test_summary_mask_ends_with_the_end_token():
    summary = np.array([[5, 9, 1, 0, 0], [1, 0, 0, 0, 0], [5, 5, 5, 5, 5], [5, 1, 1, 5, 0]])
    expected = [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]
    np.testing.assert_array_equal(summary_mask(summary, eos_id=1), np.array(expected, dtype=bool))


def test_single_window_keeps_its_scores():
    scores = np.array([0.3, 0.1, 2.0])
    np.testing.assert_array_equal(merge_windows([slice(0, 3)], [scores], [7, 5, 9]), scores)


def test_triplet_in_two_windows_gets_the_mean():
    windows = [slice(0, 2), slice(1, 3)]
    merged = merge_windows(windows, [np.array([3.0, 1.5]), np.array([4.5, 3.0])], [1, 1, 1])
    np.testing.assert_allclose(merged, [2.0, 2.0, 2.0])


@given(plans())
def test_even_attention_gives_even_scores_a_token_however_it_is_cut(plan):
    counts, _, _, windows = plan
    if not counts:
        return
    scores = [np.array(counts[w], dtype=float) / sum(counts[w]) for w in windows]
    merged = merge_windows(windows, scores, counts)
    np.testing.assert_allclose(merged, np.array(counts) / sum(counts))


@given(SCORES)
def test_weights_are_in_range_with_a_maximum_of_one(scores):
    weights = normalise(scores)
    assert weights.dtype == np.float64
    assert weights.max() == 1.0
    assert (weights > 0).all()
    assert (weights.astype(np.float32) > 0).all()
    assert weights.argmax() == scores.argmax()


@given(SCORES, st.floats(1e-6, 1e6))
def test_weights_do_not_depend_on_the_scale_of_scores(scores, factor):
    np.testing.assert_allclose(normalise(scores * factor), normalise(scores), rtol=1e-12)


def test_no_scores_no_weights():
    assert normalise(np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_score_is_refused(bad):
    with pytest.raises(ModelError, match="finite and above 0"):
        normalise(np.array([1.0, bad]))
