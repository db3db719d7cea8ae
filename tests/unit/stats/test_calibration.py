"""Whole studies as the leaderboard judges them: false wins, planted effects, the noise floor."""

import numpy as np
import pytest
from scipy.stats import binom

from gfcr.stats import compare, holm, judge, noise_floor
from gfcr.stats.power import Components, detectable, power
from tests.cases import over

STUDIES = 200
MIX = Components(seed=0.0004, prompt=0.01, residual=0.2)
"""Of a paired difference: runs differ by 0.02, effects between prompts by 0.1, answers are 0/1."""


def verdicts(effects, *, seeds, prompts=100, seed=0):
    """The verdicts of `STUDIES` studies with one arm an effect against one shared baseline.

    The baseline's own luck, half of a difference's variance, is in all of a study's differences.
    """
    rng = np.random.default_rng(seed)
    return [study(rng, effects, seeds=seeds, prompts=prompts, margin=0.02) for _ in range(STUDIES)]


def study(rng, effects, *, seeds, prompts, margin):
    def luck():
        runs_S1 = rng.normal(0, (MIX.seed / 2) ** 0.5, (seeds, 1))
        prompts_P = rng.normal(0, (MIX.prompt / 2) ** 0.5, prompts)
        cells_SP = rng.normal(0, (MIX.residual / 2) ** 0.5, (seeds, prompts))
        return runs_S1 + prompts_P + cells_SP

    baseline = luck()
    found = [compare(effect + luck(), baseline=baseline) for effect in effects]
    adjusted = holm([c.p_value for c in found])
    return [judge(c, p_value=p, margin=margin) for c, p in zip(found, adjusted, strict=True)]


def at_most(rate, *, of, miss=0.005):
    """The count that a true rate exceeds once in 200 times."""
    return int(binom.ppf(1 - miss, of, rate))


@pytest.mark.slow
@over("seeds", [2, 3, 5])
@over("arms", [1, 4])
def test_of_200_studies_without_effects_at_most_one_in_twenty_names_a_winner(seeds, arms):
    found = verdicts([0.0] * arms, seeds=seeds)
    wrong = sum(bool({"better", "worse"} & {*told}) for told in found)
    assert wrong <= at_most(0.05, of=STUDIES)
    wins = sum("better" in told for told in found)
    assert wins / STUDIES <= 0.05


@over("seeds", [3, 5])
def test_planted_effects_are_found_at_the_stated_power(seeds):
    arms, low = 3, binom.ppf(0.005, STUDIES, 0.8)
    effect = detectable(MIX, seeds=seeds, prompts=100, alpha=0.05 / arms)
    found = verdicts([effect, 0.0, 0.0], seeds=seeds, seed=1)
    hits = sum(told[0] == "better" for told in found)
    # Holm's later steps find a little more than its first, by which power is stated.
    assert low <= hits <= at_most(0.85, of=STUDIES)
    assert not any(told[0] == "worse" for told in found)


def test_half_the_detectable_effect_is_found_as_rarely_as_stated():
    effect = detectable(MIX, seeds=5, prompts=100) / 2
    stated = power(effect, components=MIX, seeds=5, prompts=100)
    hits = sum(t == ["better"] for t in verdicts([effect], seeds=5, seed=2))
    assert binom.ppf(0.005, STUDIES, stated) <= hits <= at_most(stated, of=STUDIES)
    assert 0.2 < stated < 0.5


def test_an_effect_as_large_as_the_margin_is_rarely_called_equivalent():
    rng = np.random.default_rng(4)
    margin, wrong = 0.1, 0
    for _ in range(STUDIES):
        (told,) = study(rng, [margin], seeds=5, prompts=100, margin=margin)
        wrong += told == "equivalent"
    assert wrong <= at_most(0.05, of=STUDIES)


def told(arm, baseline):
    return judge(compare(arm, baseline=baseline), p_value=1.0, margin=0.1)


def test_equivalence_needs_two_pairs_and_an_error():
    assert told([0.5], [0.5]) == "inconclusive"
    # Equal differences have no error to go by: the sign-flip test, 1 in 2^5 one-sided.
    runs = [0.5, 0.6, 0.4, 0.5, 0.7]
    assert told(runs, runs) == "equivalent"
    assert told(runs[:4], runs[:4]) == told([0.9, 0.9], [0.5, 0.5]) == "inconclusive"


@pytest.mark.whole
@over("seeds", [4, 5, 8])
def test_the_noise_floor_is_what_identical_arms_differ_by(seeds):
    rng = np.random.default_rng(seeds)
    spread, floors, fresh = 0.02, [], []
    for _ in range(200):
        scores = 0.6 + rng.normal(0, spread, seeds)
        floors.append(noise_floor(scores).typical)
        one, other = rng.normal(0, spread, (2, seeds // 2)).mean(1)
        fresh.append(abs(one - other))
    # Medians of 200: some 8 % of Monte Carlo error each.
    assert np.median(floors) == pytest.approx(np.median(fresh), rel=0.3)


def test_the_noise_floor_of_equal_runs_is_zero_and_needs_four():
    floor = noise_floor([0.5] * 6)
    assert (floor.high, floor.false_wins, floor.seeds) == (0.0, 0.0, 3)
    assert noise_floor([0.1, 0.2, 0.3]) is None


def test_halves_share_no_run():
    # One run apart: every split differs by a half of it, or by nothing where it is left out.
    floor = noise_floor([0.0, 0.0, 0.0, 0.0, 1.0])
    assert floor.splits == 15 and floor.high == pytest.approx(0.5)
