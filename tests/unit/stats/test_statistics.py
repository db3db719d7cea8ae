import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.stats import (
    bootstrap_interval,
    compare,
    holm,
    iqm,
    judge,
    mean_interval,
    probability_of_improvement,
)
from tests.cases import over


def study(rng, *, seeds=5, prompts=60, effect=0.0, seed_spread=0.04, samples=2):
    """Scores `(S, P)` of a baseline and an arm: prompts differ in difficulty, runs in luck."""
    difficulty_P = rng.beta(2, 2, size=prompts)

    def arm(shift):
        skill_S1 = rng.normal(shift, seed_spread, size=(seeds, 1))
        rate_SP = np.clip(difficulty_P + skill_S1, 0, 1)
        return rng.binomial(samples, rate_SP) / samples

    return arm(0.0), arm(effect)


def verdicts(*, studies=200, **kwargs):
    rng = np.random.default_rng(7)
    found = []
    for _ in range(studies):
        baseline, arm = study(rng, **kwargs)
        comparison = compare(arm, baseline=baseline)
        found.append(judge(comparison, p_value=comparison.p_value, margin=0.02))
    return found


@over("seeds", [2, 3, 5])
@over("seed_spread", [0.0, 0.04])
def test_identical_arms_are_told_apart_in_at_most_one_study_in_twenty(seeds, seed_spread):
    found = verdicts(seeds=seeds, seed_spread=seed_spread)
    false = sum(v in ("better", "worse") for v in found)
    # 200 studies at a true rate of 5 %: more than 17 happens once in 70 tries.
    assert false <= 17


def test_a_real_effect_is_found():
    found = verdicts(effect=0.15, studies=100)
    assert found.count("better") >= 80
    assert found.count("worse") == 0


def test_many_tight_seeds_prove_equivalence():
    found = verdicts(seeds=20, prompts=400, seed_spread=0.005, samples=8, studies=50)
    assert found.count("equivalent") >= 45


def test_an_effect_of_the_detectable_size_is_found_four_times_in_five():
    rng = np.random.default_rng(3)
    sizes = []
    for _ in range(200):
        baseline, arm = study(rng, prompts=200)
        sizes.append(compare(arm, baseline=baseline).detectable)
    found = verdicts(effect=float(np.median(sizes)), prompts=200)
    # Answers saturate at 0 and 1, which takes a little of the effect away.
    assert 0.6 <= found.count("better") / len(found) <= 0.9


def test_one_pair_gives_no_interval_and_no_verdict():
    comparison = compare([0.9], baseline=[0.1])
    assert comparison.difference.value == pytest.approx(0.8)
    assert np.isnan(comparison.difference.low)
    assert judge(comparison, p_value=0.0, margin=9.0) == "inconclusive"
    assert mean_interval([0.9]) is None
    assert bootstrap_interval([0.9]) is None


def test_one_score_per_seed_gives_the_paired_t_test():
    # By hand: differences 0.1, 0.2, 0.3; mean 0.2, sd 0.1, t = 0.2 / (0.1 / sqrt 3), df 2.
    comparison = compare([0.5, 0.7, 0.9], baseline=[0.4, 0.5, 0.6])
    assert comparison.difference.value == pytest.approx(0.2)
    assert comparison.p_value == pytest.approx(0.0741799, abs=1e-6)
    assert comparison.difference.high == pytest.approx(0.2 + 4.3026527 * 0.1 / 3**0.5)


def test_prompts_only_widen_an_interval():
    rng = np.random.default_rng(0)
    for _ in range(30):
        baseline, arm = study(rng)
        crossed = compare(arm, baseline=baseline).difference
        seeds_only = compare(arm.mean(1), baseline=baseline.mean(1)).difference
        assert crossed.value == pytest.approx(seeds_only.value)
        assert crossed.high - crossed.low >= seeds_only.high - seeds_only.low - 1e-12


def test_iqm_is_that_of_rliable():
    # rliable.metrics.aggregate_iqm = scipy.stats.trim_mean(scores, 0.25, axis=None)
    assert iqm([[0.0, 1.0], [2.0, 30.0]]) == pytest.approx(1.5)
    assert iqm([5.0, 1.0, 2.0, 3.0, 100.0]) == pytest.approx(10 / 3)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_a_bootstrap_interval_stays_within_the_scores_and_repeats(scores):
    found = bootstrap_interval(scores)
    assert found == bootstrap_interval(scores)
    assert min(scores) - 1e-9 <= found.low <= found.high <= max(scores) + 1e-9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_the_order(p_values):
    adjusted = holm(p_values)
    assert all(a >= p for a, p in zip(adjusted, p_values, strict=True))
    pairs = sorted(zip(p_values, adjusted, strict=True))
    assert [a for _, a in pairs] == sorted(a for _, a in pairs)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.lists(st.floats(0, 1), min_size=1))
def test_probability_of_improvement_is_shared_between_the_two(a, b):
    assert probability_of_improvement(a, over=b) == pytest.approx(
        1 - probability_of_improvement(b, over=a)
    )
