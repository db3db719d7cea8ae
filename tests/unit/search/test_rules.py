"""Stopping rules on scores alone."""

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.experiment.source import Pause
from gfcr.search.base import Length, Scores
from gfcr.search.halving import Halving
from gfcr.search.wilcoxon import Wilcoxon
from tests.cases import over


def scores(means: dict[str, float], *, seeds: int = 5, noise: float = 0.0) -> Scores:
    rng = np.random.default_rng(3)
    return {
        arm: {s: mean + noise * float(rng.normal()) for s in range(seeds)}
        for arm, mean in means.items()
    }


def test_halving_keeps_the_best_share_whatever_the_order() -> None:
    rng = np.random.default_rng(0)
    for arms in (2, 5, 9, 12):
        means = {f"a{i}": float(v) for i, v in enumerate(rng.permutation(arms) / arms)}
        for factor in (2, 3, 4):
            stopped = Halving(first=1, factor=factor).give_up(scores(means))
            kept = sorted(set(means) - set(stopped), key=lambda arm: means[arm])
            best = sorted(means, key=lambda arm: means[arm])[-max(1, arms // factor) :]
            assert kept == best
            backwards = dict(reversed(means.items()))
            assert set(Halving(first=1, factor=factor).give_up(scores(backwards))) == set(stopped)


def test_halving_keeps_what_optuna_s_pruner_lets_pass_were_each_arm_the_last_to_arrive() -> None:
    optuna = pytest.importorskip("optuna")
    rng = np.random.default_rng(1)
    for arms in (2, 3, 7, 10):
        means = {f"a{i}": float(v) for i, v in enumerate(rng.integers(4, size=arms) / 4)}
        for factor in (2, 3):
            pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=factor)
            stopped: set[str] = set()
            for last in means:
                study = optuna.create_study(direction="maximize", pruner=pruner)
                for arm in sorted(means, key=lambda arm: arm == last):
                    trial = study.ask()
                    trial.report(means[arm], 1)
                    pruned = trial.should_prune()
                stopped |= {last} if pruned else set()
            assert set(Halving(first=1, factor=factor).give_up(scores(means))) == stopped


def test_halving_stops_none_of_equal_arms() -> None:
    assert not Halving(first=1).give_up(scores(dict.fromkeys("abcdef", 0.5)))
    by_rounding = {"a": {0: 0.1, 1: 0.5}, "b": {0: 0.2, 1: 0.4}}
    assert not Halving(first=1, factor=2).give_up(by_rounding), "their sums differ in a last digit"


def test_halving_compares_arms_on_the_seeds_of_those_that_have_most() -> None:
    lucky = {"a": {0: 0.9}, "b": {0: 0.95, 1: 0.0}, "c": {0: 0.1, 1: 0.8}}
    stopped = Halving(first=1, factor=2).give_up(lucky)
    assert {*stopped} == {"c"} and "over 2 seed(s)" in stopped["c"]
    assert not Halving(first=1).give_up({"a": {0: 1.0}, "b": {1: 0.0}})


def test_halving_s_rungs_grow_to_the_end() -> None:
    rounds = Halving(first=10, factor=3).rounds(
        seeds=[4, 7], length=Length(updates=90, generated_tokens=None, every=5)
    )
    assert [r.until for r in rounds] == [
        Pause(of="updates", at=10),
        Pause(of="updates", at=30),
        None,
    ]
    assert all(r.seeds == (4, 7) for r in rounds)
    tokens = Halving(first=100, factor=4, resource="generated_tokens").rounds(
        seeds=[0], length=Length(updates=9, generated_tokens=1000, every=1)
    )
    assert [r.until for r in tokens[:-1]] == [
        Pause(of="generated_tokens", at=100),
        Pause(of="generated_tokens", at=400),
    ]


BAD = {
    "beyond": (Halving(first=90), Length(updates=90, every=10), "not below"),
    "no budget": (
        Halving(first=9, resource="generated_tokens"),
        Length(updates=90, every=1),
        "budget.generated_tokens=None",
    ),
    "no score": (Halving(first=10), Length(updates=90), "evaluation.every=0"),
    "between": (Halving(first=10), Length(updates=90, every=4), "evaluation.every=4"),
    "few seeds": (Wilcoxon(p=0.1), Length(updates=9), "3 seeds"),
    "never asked": (Wilcoxon(p=0.3, after=3), Length(updates=9), "after=3 .* from 1 to 2, or more"),
}


@over("case", BAD)
def test_a_rule_that_does_not_fit_says_what_to_do(case: str) -> None:
    rule, length, words = BAD[case]
    with pytest.raises(ConfigError, match=words):
        rule.rounds(seeds=[0, 1, 2], length=length)


@over("values", [{"first": 0}, {"first": 1, "factor": 1}])
def test_halving_s_settings_are_checked(values: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"is not allowed: give an integer from [12] to"):
        Halving(**values)


def test_wilcoxon_stops_what_the_best_beats_on_every_seed() -> None:
    paired = {
        "best": {s: 0.6 + 0.1 * s for s in range(5)},
        "worse": {s: 0.5 + 0.1 * s for s in range(5)},
        "mixed": {s: 0.6 + 0.1 * s + (0.01 if s % 2 else -0.03) for s in range(5)},
        "failing": {0: 0.1},
    }
    stopped = Wilcoxon(p=0.1).give_up(paired)
    assert set(stopped) == {"worse"} and "against best" in stopped["worse"]


@pytest.mark.filterwarnings("ignore:WilcoxonPruner is experimental")
def test_wilcoxon_stops_what_optuna_s_pruner_does() -> None:
    optuna = pytest.importorskip("optuna")
    rng = np.random.default_rng(2)
    for p, after in ((0.1, 2), (0.3, 4), (0.6, 1)):
        pruner = optuna.pruners.WilcoxonPruner(p_threshold=p, n_startup_steps=after)
        for seeds in (1, 2, 4, 7):
            given = {arm: dict(enumerate(rng.integers(4, size=seeds) / 4)) for arm in "abcd"}
            means = {arm: sum(own.values()) / seeds for arm, own in given.items()}
            best = max(means, key=lambda arm: means[arm])
            study = optuna.create_study(direction="maximize", pruner=pruner)
            study.add_trial(
                optuna.trial.create_trial(value=means[best], intermediate_values=given[best])
            )
            stopped: set[str] = set()
            for arm in given.keys() - {best}:
                trial = study.ask()
                for step, value in given[arm].items():
                    trial.report(value, step)
                stopped |= {arm} if trial.should_prune() else set()
            assert set(Wilcoxon(p=p, after=after).give_up(given)) == stopped


def test_wilcoxon_waits_for_seeds() -> None:
    means = {"a": 0.9, "b": 0.1}
    assert not Wilcoxon(p=0.1).give_up(scores(means, seeds=3)), "1 / 2^3 is above 0.1"
    assert set(Wilcoxon(p=0.1).give_up(scores(means, seeds=4))) == {"b"}
    assert not Wilcoxon(p=0.1, after=5).give_up(scores(means, seeds=4))


def test_wilcoxon_rarely_stops_an_arm_as_good_as_the_other() -> None:
    """Two equal arms: the lesser one is stopped about as often as the level says, twice over."""
    rng = np.random.default_rng(1)
    stops = sum(
        bool(
            Wilcoxon(p=0.05).give_up(
                {arm: dict(enumerate(map(float, rng.normal(size=8)))) for arm in "ab"}
            )
        )
        for _ in range(300)
    )
    # The better of two is chosen by the same scores: a one-sided test made two-sided, 0.1.
    assert 0.04 < stops / 300 < 0.16


def test_between_two_best_arms_their_order_decides_nothing() -> None:
    own = {"a": [0.5] * 5, "b": [0.0, 1.0, 0.5, 0.25, 0.75], "c": [0.4] * 5}
    scores = {arm: dict(enumerate(values)) for arm, values in own.items()}
    rule = Wilcoxon()
    assert {*rule.give_up(scores)} == {*rule.give_up(dict(reversed(scores.items())))} == {"c"}
