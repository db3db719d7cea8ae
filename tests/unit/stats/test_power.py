import numpy as np
import pytest
from scipy.stats import nct, t

from gfcr.stats import compare, holm
from gfcr.stats.interval import spread
from gfcr.stats.power import Components, components, detectable, power, seeds_needed
from tests.cases import over

MIXES = {
    "seeds": Components(seed=0.002, prompt=0.0, residual=0.05),
    "prompts": Components(seed=0.0, prompt=0.1, residual=0.1),
    "all": Components(seed=0.001, prompt=0.05, residual=0.3),
}


def differences(rng, mix, *, effect, seeds, prompts):
    """One study's paired differences under the model."""
    seed_S1 = rng.normal(0, mix.seed**0.5, (seeds, 1))
    prompt_1P = rng.normal(0, mix.prompt**0.5, (1, prompts))
    rest_SP = rng.normal(0, mix.residual**0.5, (seeds, prompts))
    return effect + seed_S1 + prompt_1P + rest_SP


def found_share(mix, *, effect, seeds, prompts, alpha=0.05, studies=1500):
    rng = np.random.default_rng(11)
    zero = np.zeros((seeds, prompts))
    hits = 0
    for _ in range(studies):
        drawn = differences(rng, mix, effect=effect, seeds=seeds, prompts=prompts)
        hits += compare(drawn, baseline=zero).p_value < alpha
    return hits / studies


# 1,500 studies at 80 %: the standard error is 0.0103, three of them 0.031.
@pytest.mark.whole
@over("mix", MIXES.values(), ids=MIXES)
@over(("seeds", "prompts"), [(2, 40), (3, 60), (6, 1), (5, 40)])
def test_studies_find_the_detectable_difference_four_times_in_five(mix, seeds, prompts):
    effect = detectable(mix, seeds=seeds, prompts=prompts)
    share = found_share(mix, effect=effect, seeds=seeds, prompts=prompts)
    assert share == pytest.approx(0.8, abs=0.031)


@pytest.mark.whole
def test_among_several_arms_holm_finds_the_one_that_differs_at_the_planned_power():
    mix, seeds, prompts, arms = MIXES["all"], 4, 50, 3
    effect = detectable(mix, seeds=seeds, prompts=prompts, alpha=0.05 / arms)
    rng = np.random.default_rng(5)
    zero, hits = np.zeros((seeds, prompts)), 0
    for _ in range(800):
        effects = [effect, *([0.0] * (arms - 1))]
        drawn = [differences(rng, mix, effect=e, seeds=seeds, prompts=prompts) for e in effects]
        hits += holm([compare(d, baseline=zero).p_value for d in drawn])[0] < 0.05
    # Holm's later steps are laxer than the first: a little more than 80 %.
    assert 0.8 - 0.042 <= hits / 800 <= 0.87


def test_answers_of_zero_and_one_are_found_as_planned():
    """Binomial answers, runs that differ in skill: not the model's normals."""
    rng = np.random.default_rng(2)
    seeds, prompts, skill, rate = 5, 200, 0.03, 0.5
    mix = Components(seed=2 * skill**2, prompt=0.0, residual=2 * rate * (1 - rate))
    effect = detectable(mix, seeds=seeds, prompts=prompts)

    def arm(mean):
        rate_S1 = np.clip(rng.normal(mean, skill, (seeds, 1)), 0, 1)
        return rng.binomial(1, np.broadcast_to(rate_S1, (seeds, prompts))).astype(float)

    studies = [compare(arm(rate + effect), baseline=arm(rate)) for _ in range(1000)]
    # Rates off 1/2 vary less than planned for: a little more than 80 %.
    assert 0.76 <= np.mean([c.p_value < 0.05 for c in studies]) <= 0.88


def test_without_an_effect_power_is_at_most_the_level():
    for mix in MIXES.values():
        assert power(0.0, components=mix, seeds=4, prompts=30, alpha=0.05) <= 0.052


def test_components_are_recovered_from_many_seeds_and_prompts():
    rng = np.random.default_rng(0)
    for mix in MIXES.values():
        found = components(differences(rng, mix, effect=0.1, seeds=300, prompts=300))
        assert found.residual == pytest.approx(mix.residual, rel=0.05)
        assert found.prompt == pytest.approx(mix.prompt, rel=0.35, abs=1e-3)
        assert found.seed == pytest.approx(mix.seed, rel=0.35, abs=1e-3)


def test_one_score_a_seed_is_all_seed_variance():
    assert components([0.1, 0.3]) == Components(seed=pytest.approx(0.02), prompt=0.0, residual=0.0)


@over("mix", MIXES.values(), ids=MIXES)
def test_more_seeds_more_prompts_and_fewer_arms_detect_less(mix):
    sizes = [detectable(mix, seeds=s, prompts=40) for s in (2, 3, 5, 10, 30)]
    assert sizes == sorted(sizes, reverse=True)
    assert detectable(mix, seeds=5, prompts=80) < detectable(mix, seeds=5, prompts=40)
    assert detectable(mix, seeds=5, prompts=40, alpha=0.01) > sizes[2]


def test_seeds_needed_is_the_fewest_that_are_enough():
    mix = MIXES["all"]
    needed = seeds_needed(0.1, components=mix, prompts=100)
    assert needed is not None
    assert detectable(mix, seeds=needed, prompts=100) <= 0.1
    assert detectable(mix, seeds=needed - 1, prompts=100) > 0.1


def test_seeds_do_not_help_where_prompts_are_too_few():
    assert seeds_needed(0.01, components=MIXES["prompts"], prompts=20) is None


def test_one_seed_detects_nothing():
    assert np.isnan(detectable(MIXES["all"], seeds=1, prompts=40))
    assert power(1.0, components=MIXES["all"], seeds=1, prompts=40) == 0.0


@over(("seeds", "alpha"), [(2, 0.05), (4, 0.05), (4, 0.01), (12, 0.05)])
def test_without_prompts_power_is_that_of_the_noncentral_t(seeds, alpha):
    mix = Components(seed=0.04, prompt=0.0, residual=0.0)
    error, limit = 0.2 / seeds**0.5, t.ppf(1 - alpha / 2, seeds - 1)
    for effect in (0.0, 0.1, -0.25, 0.6):
        stated = power(effect, components=mix, seeds=seeds, prompts=1, alpha=alpha)
        exact = nct.sf(limit, seeds - 1, effect / error) + nct.cdf(
            -limit, seeds - 1, effect / error
        )
        # 40,000 draws of the estimated error.
        assert stated == pytest.approx(exact, abs=0.01)


@over("mix", MIXES.values(), ids=MIXES)
@over(("seeds", "prompts"), [(2, 5), (4, 3), (6, 1), (5, 12)])
def test_power_is_by_the_errors_that_studies_would_estimate(mix, seeds, prompts):
    """Each study's own error, from simulated cells in place of drawn mean squares."""
    rng, studies = np.random.default_rng(9), 20_000
    drawn = rng.normal(0, mix.seed**0.5, (studies, seeds, 1))
    drawn = drawn + rng.normal(0, mix.prompt**0.5, (studies, 1, prompts))
    drawn += rng.normal(0, mix.residual**0.5, (studies, seeds, prompts))
    found = spread(drawn)
    true = mix.variance(seeds=seeds, prompts=prompts)
    wanted = mix.seed / seeds + mix.prompt / prompts + mix.residual / seeds / prompts
    assert true == pytest.approx(wanted) == pytest.approx(found.mean.var(), rel=0.05)
    for effect in (0.0, 2 * true**0.5, -4 * true**0.5):
        rejected = abs(found.mean + effect) > t.ppf(0.975, found.df) * found.variance**0.5
        stated = power(effect, components=mix, seeds=seeds, prompts=prompts)
        assert stated == pytest.approx(rejected.mean(), abs=0.013)


def test_where_nothing_varies_every_effect_is_found_and_none_is_not():
    none = Components(seed=0.0, prompt=0.0, residual=0.0)
    asked = {"components": none, "seeds": 2, "prompts": 5}
    assert (power(0.0, **asked), power(1e-9, **asked), power(-1e-9, **asked)) == (0, 1, 1)
    assert detectable(none, seeds=2, prompts=5) == 0.0
    assert np.isnan(detectable(none, seeds=1, prompts=5))


@over("asked", [{}, {"alpha": 0.01, "at_power": 0.95}, {"at_power": 0.06}])
@over("seeds", [2, 6])
def test_the_detectable_effect_has_the_power_asked_for_and_the_seeds_needed_are_enough(
    seeds, asked
):
    mix, at = MIXES["all"], {"at_power": 0.8, "alpha": 0.05, **asked}
    effect = detectable(mix, seeds=seeds, prompts=30, **asked)
    found = power(effect, components=mix, seeds=seeds, prompts=30, alpha=at["alpha"])
    assert found == pytest.approx(at["at_power"], abs=1e-6)
    above = effect * (1 + 1e-9)
    assert seeds_needed(above, components=mix, prompts=30, **asked) == seeds
    assert seeds_needed(above, components=mix, prompts=30, most=seeds, **asked) == seeds
    fewer = seeds - 1
    assert seeds_needed(above, components=mix, prompts=30, most=fewer, **asked) is None


def test_components_are_those_of_the_analysis_of_variance_and_never_below_0():
    table = np.array([[0.1, 0.7, 0.2], [0.6, 0.9, 0.4], [0.3, 0.8, 0.1], [0.4, 0.6, 0.5]])
    found, parts = components(table), spread(table)
    assert found.residual == pytest.approx(float(parts.cell) * 12)
    assert found.seed == pytest.approx(float(parts.by_seed - parts.cell) * 4)
    assert found.prompt == pytest.approx(float(parts.by_prompt - parts.cell) * 3)
    assert min(found.seed, found.prompt) > 0
    crossed = components(np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert (crossed.seed, crossed.prompt) == (0.0, 0.0) and crossed.residual == pytest.approx(1.0)


@over("value", [0.0, -0.25, 0.5])
def test_equal_cells_have_the_residual_of_one_more_answer_each_way(value):
    found = components(np.full((3, 4), value), span=1.0)
    assert (found.seed, found.prompt) == (0.0, 0.0)
    assert found.residual == pytest.approx(12 * 2 / 14**2)
    assert components(np.full((3, 4), value)).residual == 0.0


def test_a_thousand_seeds_are_the_most_without_a_word():
    mix = Components(seed=0.04, prompt=0.0, residual=0.0)
    sizes = [detectable(mix, seeds=seeds, prompts=1) for seeds in (1000, 1001)]
    assert sizes[0] > sizes[1]
    assert seeds_needed(sum(sizes) / 2, components=mix, prompts=1) is None
    assert seeds_needed(sum(sizes) / 2, components=mix, prompts=1, most=1001) == 1001
