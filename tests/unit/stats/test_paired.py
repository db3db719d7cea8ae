"""What is said of two arms, written out: differences, power, verdicts at their edges."""

from math import inf, nan

import numpy as np
import pytest
from scipy.stats import t

from gfcr.stats import Comparison, Interval, compare, holm, judge, noise_floor
from gfcr.stats.interval import mean_error
from gfcr.stats.paired import paired_mean
from tests.cases import over


def arms(seeds, prompts, *, scale=1.0):
    baseline, arm = np.random.default_rng(prompts).uniform(0, scale, (2, seeds, prompts))
    return arm, baseline


@over(("seeds", "prompts"), [(4, 1), (3, 6)])
@over("scale", [1.0, 5.0])
def test_a_comparison_is_the_mean_error_of_the_differences(seeds, prompts, scale):
    arm, baseline = arms(seeds, prompts, scale=scale)
    span = inf if scale > 1 else 1.0
    want = mean_error(arm - baseline, span=span)
    for found in (compare(arm, baseline=baseline), compare(arm, baseline=baseline, span=span)):
        assert (found.pairs, found.difference) == (seeds, want.interval())
        assert found.inner == want.inner(level=0.05) and found.p_value == want.p_value()
        sum_ = t.ppf(0.975, want.df) + t.ppf(0.8, want.df)
        assert found.detectable == pytest.approx(sum_ * want.error)
    rows = [(x > y) + (x == y) / 2 for x in arm.mean(1) for y in baseline.mean(1)]
    assert found.improves == pytest.approx(np.mean(rows))


def test_a_known_span_is_taken_whatever_the_scores():
    arm, baseline = arms(3, 6)
    assert compare(arm, baseline=baseline, span=0.01).difference.high <= 0.01


def test_one_pair_is_a_difference_and_no_more():
    found = compare([[0.9, 0.5]], baseline=[[0.1, 0.5]])
    assert (found.pairs, found.p_value, found.improves) == (1, 1.0, 1.0)
    assert found.difference.value == found.inner.value == pytest.approx(0.4)
    limits = [*(found.difference.low, found.difference.high), *(found.inner.low, found.inner.high)]
    assert np.isnan([*limits, found.detectable]).all()


def test_arms_of_other_shapes_are_refused():
    with pytest.raises(AssertionError, match="paired scores have one shape"):
        compare([0.1, 0.2], baseline=[0.1])


@over("sizes", [(1e6, 1.0), (1.0, 1e6), (-1e6, 1.0), (1.0, -1e6)])
def test_rounding_goes_by_the_larger_arm(sizes):
    arm, baseline = (np.full((3, 2), size) for size in sizes)
    level = sum(sizes)
    arm, baseline = level + arm, level + baseline
    arm[0] += 1e-9
    found = paired_mean(arm, baseline_SP=arm - 0.5e-7, span=None)
    assert found.value == found.error == 0.0
    assert paired_mean(arm, baseline_SP=arm - 1e-3, span=None).value == pytest.approx(1e-3)


def test_one_score_beyond_a_share_in_either_arm_makes_the_span_unknown():
    for which in (0, 1):
        pair = arms(3, 6)
        pair[which][1, 1] = 3.0
        found = compare(pair[0], baseline=pair[1])
        assert found.inner == mean_error(pair[0] - pair[1], span=inf).inner(level=0.05)


def test_what_is_rounding_goes_by_the_scores_not_by_their_differences():
    edge = paired_mean(np.array([[1.0, 1e-12]] * 2), baseline_SP=np.eye(1, 2) * [1, 0], span=None)
    assert edge.value == 0.0
    near = 1000.0 + np.arange(4) * 1e-10
    found = compare(near + 1e-6, baseline=np.full(4, 1000.0))
    assert found.difference.value == pytest.approx(1e-6, rel=1e-3)
    assert found.p_value == 2.0**-3, "no error is known: the sign-flip test"


def test_adjusted_p_values_end_at_1():
    assert holm([0.9, 0.6, 0.01]) == pytest.approx([1.0, 1.0, 0.03])


def told(value, *, p_value, inner=(-1.0, 1.0), pairs=2):
    comparison = Comparison(
        pairs=pairs,
        difference=Interval(value=value, low=-inf, high=inf),
        inner=Interval(value=value, low=inner[0], high=inner[1]),
        p_value=nan,
        detectable=nan,
        improves=nan,
    )
    return judge(comparison, p_value=p_value, margin=0.1)


def test_a_verdict_has_sharp_edges():
    assert [told(v, p_value=0.049) for v in (0.5, -0.5)] == ["better", "worse"]
    assert told(0.5, p_value=0.05) == "inconclusive"
    assert told(0.5, p_value=0.0, pairs=1) == "inconclusive"
    inners = [(-0.09, 0.09), (-0.1, 0.09), (-0.09, 0.1), (0.02, 0.09), (-0.09, 0.5), (-0.5, 0.09)]
    verdicts = [told(0.0, p_value=1.0, inner=inner) for inner in inners]
    equivalent, open_ = "equivalent", "inconclusive"
    assert verdicts == [equivalent, open_, open_, equivalent, open_, open_]


def halves(scores, pairs):
    sizes = [abs(np.mean(scores[list(a)]) - np.mean(scores[list(b)])) for a, b in pairs]
    return float(np.median(sizes)), float(np.quantile(sizes, 0.95))


def test_the_noise_floor_is_over_every_way_to_halve_the_seeds():
    scores = np.random.default_rng(0).normal(size=(4, 3))
    pairs = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    found = noise_floor(scores)
    assert found is not None and (found.seeds, found.splits) == (2, 3)
    assert (found.typical, found.high) == pytest.approx(halves(scores, pairs))
    compared = [compare(scores[list(a)], baseline=scores[list(b)]) for a, b in pairs]
    assert found.false_wins == np.mean([c.p_value < 0.05 for c in compared])


def test_halves_that_differ_for_sure_are_counted_as_false_wins():
    """Two kinds of run, one far above: the split that tells them apart is the only one to win."""
    scores = np.array([0.0, 1e-3, 2e-3, 5.002, 5.001, 5.0])
    found = noise_floor(scores)
    assert found is not None and found.false_wins == pytest.approx(0.1)


def test_of_ten_seeds_and_more_200_splits_are_drawn_the_same_each_time():
    assert noise_floor(np.arange(9.0)).splits == 315
    for seeds in (10, 11):
        scores = np.random.default_rng(1).normal(size=seeds)
        found = noise_floor(scores)
        assert found is not None and (found.seeds, found.splits) == (5, 200)
        assert found == noise_floor(scores)
    # Halves of one run apart: they never share it, and one in eleven draws leaves it out.
    apart = noise_floor(np.eye(11)[0])
    assert apart is not None and apart.typical == apart.high == pytest.approx(1 / 5)


def test_means_that_differ_by_rounding_are_a_tie() -> None:
    thirds = np.array([[1, 2, 1, 1, 2, 3, 0, 2, 1, 3]]) / 3
    orders = [np.random.default_rng(seed).permutation(10) for seed in range(20)]
    shuffled = [thirds[:, order] for order in orders]
    assert len({float(each.mean()) for each in shuffled}) > 1
    assert all(compare(each, baseline=thirds).improves == 0.5 for each in shuffled)
