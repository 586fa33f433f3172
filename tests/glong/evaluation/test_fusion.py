"""Learning factors: known ones are found again, signs hold, and the same data gives the same."""

from collections.abc import Sequence

import numpy as np
import pytest

from glong.evaluation.fusion import Asked, fit

PARTS = ("words", "turn", "closed", "length", "noise")


def questions(
    factors: Sequence[float], n: int = 120, one_sided: float = 0.0, seed: int = 0
) -> list[Asked]:
    """Ten candidates a question; the gold one has the highest sum of factor times part."""
    numbers = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        values = numbers.normal(size=(10, len(PARTS))).astype(np.float32)
        sums = values @ np.array(factors) + numbers.gumbel(size=10)
        made.append(
            Asked(
                parts={part: values[:, i] for i, part in enumerate(PARTS)},
                is_gold=np.arange(10) == sums.argmax(),
                one_sided=one_sided,
                share=1.0,
            )
        )
    return made


KNOWN = (3.0, 1.0, -2.0, -0.5, 0.0)


def test_known_factors_are_found_again_in_their_order_and_size() -> None:
    found = fit(questions(KNOWN, 400), PARTS, shrink=0.1, tie=0.0)
    equal = [found[part][0] for part in PARTS]
    assert equal == pytest.approx(KNOWN, abs=0.5)
    unseen = questions(KNOWN, 100, seed=1)
    hits = [
        one.is_gold[sum(found[p][0] * values for p, values in one.parts.items()).argmax()]
        for one in unseen
    ]
    best = [
        one.is_gold[sum(f * one.parts[p] for f, p in zip(KNOWN, PARTS, strict=True)).argmax()]
        for one in unseen
    ]
    assert np.mean(hits) >= np.mean(best) - 0.05


def test_a_part_keeps_the_sign_that_it_may_have() -> None:
    found = fit(questions((-3.0, 2.0, 3.0, -2.0, -1.0)), PARTS, tie=0.0)
    assert found["words"] == (0, 0)
    assert found["noise"] == (0, 0)
    assert found["closed"] == (0, 0)
    assert found["turn"][0] > 0
    assert found["length"][0] < 0


def test_the_same_questions_give_the_same_factors() -> None:
    assert fit(questions(KNOWN), PARTS) == fit(questions(KNOWN), PARTS)


def test_dialogues_of_equals_and_of_one_speaker_have_factors_of_their_own() -> None:
    both = questions((3.0, 0.0, 0.0, 2.0, 0.0))
    both += questions((0.0, 3.0, 0.0, -2.0, 0.0), one_sided=1.0)
    apart = fit(both, PARTS, tie=0.0)
    assert apart["words"][0] > 5 * apart["words"][1]
    assert apart["turn"][1] > 5 * apart["turn"][0]
    assert apart["length"][0] > 0 > apart["length"][1]
    tied = fit(both, PARTS, tie=1e5)
    assert all(equal == pytest.approx(one_side, abs=1e-2) for equal, one_side in tied.values())


def test_shrinking_draws_factors_to_nothing() -> None:
    strong = fit(questions(KNOWN), PARTS, shrink=1e6)
    assert max(abs(value) for pair in strong.values() for value in pair) < 1e-3


def test_a_question_counts_as_much_as_its_share() -> None:
    one, other = questions((3.0, 0, 0, 0, 0)), questions((0, 3.0, 0, 0, 0), seed=1)

    def share(rows: list[Asked], value: float) -> list[Asked]:
        return [
            Asked(parts=r.parts, is_gold=r.is_gold, one_sided=r.one_sided, share=value)
            for r in rows
        ]

    found = fit([*share(one, 10.0), *share(other, 0.1)], PARTS)
    assert found["words"][0] > 2 * found["turn"][0]
    alone = fit(one, PARTS)
    without = fit([*one, *share(other, 0.0)], PARTS)
    assert without["words"][0] == pytest.approx(alone["words"][0], rel=0.1)


def test_questions_without_a_gold_candidate_are_left_out() -> None:
    rows = questions(KNOWN, 50)
    nothing = Asked(parts=rows[0].parts, is_gold=np.zeros(10, np.bool_), one_sided=0.5, share=1.0)
    assert fit([*rows, nothing], PARTS) == fit(rows, PARTS)


def test_a_part_that_never_varies_gets_nothing() -> None:
    rows = [
        Asked(
            parts={**row.parts, "noise": np.ones(10, np.float32)},
            is_gold=row.is_gold,
            one_sided=0.0,
            share=1.0,
        )
        for row in questions(KNOWN, 50)
    ]
    found = fit(rows, PARTS)
    assert found["noise"] == pytest.approx((0, 0), abs=1e-3)
    assert found["words"][0] > 0


def test_several_gold_turns_share_a_question() -> None:
    values = np.array([2.0, 2.0, 0.0, 0.0], np.float32)
    one = Asked(parts={"words": values}, is_gold=values > 0, one_sided=0.0, share=1.0)
    assert fit([one] * 20, ["words"])["words"][0] > 0.5


def test_no_question_at_all_says_so() -> None:
    with pytest.raises(ValueError, match="No question"):
        fit([], PARTS)
