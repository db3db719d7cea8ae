"""Effects of crossed factors, and who earned what, on made-up runs."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.studies.attribution import anova, shapley
from gfcr.studies.crossed import Crossed, crossed
from gfcr.studies.effects import effects
from gfcr.sweep.factors import expand
from gfcr.tracking.records import RunRecord
from tests.cases import over

FACTORS = {"size": ("s", "m", "l"), "gate": ("all", "alive")}
LEVELS = {"+".join(c): dict(zip(FACTORS, c, strict=True)) for c in product(*FACTORS.values())}
SIZE, GATE, BOTH = {"s": 0.0, "m": 0.1, "l": 0.3}, {"all": 0.0, "alive": 0.05}, 0.2


def runs(*, seeds=4, prompts=50, noise=0.0, seed=0, interaction=BOTH):
    """Scores that add up, but for `l` with `alive`, which add `interaction` more."""
    rng = np.random.default_rng(seed)
    shared_P = rng.normal(0.4, 0.1, prompts)
    found = {}
    for arm, levels in LEVELS.items():
        mean = SIZE[levels["size"]] + GATE[levels["gate"]]
        mean += interaction * (arm == "l+alive")
        found[arm] = []
        for s in range(seeds):
            luck = rng.normal(0, noise)
            values = shared_P + 0.01 * s + mean + luck + rng.normal(0, 3 * noise, prompts)
            held = {f"p{i}": float(v) for i, v in enumerate(values)}
            after = {"accuracy": float(values.mean()), "per_prompt": held}
            found[arm].append(
                RunRecord(
                    run_id=f"{arm}{s}",
                    study="s",
                    arm=arm,
                    seed=s,
                    status="finished",
                    tags={},
                    params={},
                    result={"heldout": {"after": after}},
                )
            )
    return found


def test_effects_are_the_ones_put_in() -> None:
    found = {e.name: e.difference.value for e in effects(crossed(runs(), levels=LEVELS))}
    assert found == pytest.approx(
        {
            "size=m": 0.1,
            "size=l": 0.3 + BOTH / 2,  # averaged over both gates
            "gate=alive": 0.05 + BOTH / 3,  # averaged over three sizes
            "size=m x gate=alive": 0.0,
            "size=l x gate=alive": BOTH,
        },
        abs=1e-9,
    )


def test_a_clear_interaction_is_told_from_none() -> None:
    found = {e.name: e for e in effects(crossed(runs(noise=0.01), levels=LEVELS))}
    assert found["size=l x gate=alive"].p_adjusted < 0.05
    assert found["size=m x gate=alive"].p_value > 0.05
    assert all(e.p_adjusted >= e.p_value for e in found.values())


def test_without_interaction_few_studies_claim_one() -> None:
    p_values = [
        effects(crossed(runs(noise=0.03, seed=s, interaction=0.0), levels=LEVELS))[-1].p_value
        for s in range(60)
    ]
    # At 5 %, more than 8 of 60 happens once in 200 tries.
    assert sum(p < 0.05 for p in p_values) <= 8


def test_one_seed_has_no_limits() -> None:
    found = effects(crossed(runs(seeds=1), levels=LEVELS))
    assert all(np.isnan(e.difference.low) and e.p_adjusted == 1 for e in found)


def test_what_is_not_crossed_or_not_run_is_refused() -> None:
    missing = runs()
    missing["m+all"] = []
    with pytest.raises(ConfigError, match=r"no finished run of m\+all.* its reason in study\.lead"):
        crossed(missing, levels=LEVELS)
    part = {arm: chosen for arm, chosen in LEVELS.items() if arm != "l+alive"}
    partly = crossed(runs(), levels=part)
    for told in (effects, anova, shapley):
        with pytest.raises(ConfigError, match="design full"):
            told(partly)
    with pytest.raises(ConfigError, match="factors"):
        crossed(runs(), levels={})
    apart = runs()
    apart["s+all"] = [r for r in runs(seeds=9)["s+all"] if r.seed > 5]
    with pytest.raises(ConfigError, match="no seed in common"):
        crossed(apart, levels=LEVELS)


def test_shapley_values_share_an_interaction_and_add_up_to_the_gain() -> None:
    design = crossed(runs(), levels=LEVELS)
    found = {e.name: e.difference.value for e in shapley(design)}
    assert found == pytest.approx({"size=l": 0.3 + BOTH / 2, "gate=alive": 0.05 + BOTH / 2})
    gain = (design.scores["l+alive"] - design.scores["s+all"]).mean()
    assert sum(found.values()) == pytest.approx(gain)


def test_shapley_values_of_a_named_arm_have_paired_intervals() -> None:
    design = crossed(runs(noise=0.01), levels=LEVELS)
    (only,) = shapley(design, arm="m+all")
    assert only.name == "size=m" and only.difference.low < 0.1 < only.difference.high
    assert shapley(design, arm="s+all") == []
    with pytest.raises(ConfigError, match=r"Did you mean 'm\+all'"):
        shapley(design, arm="m+al")


def test_the_analysis_of_variance_is_that_of_statsmodels() -> None:
    folder = Path(__file__).parents[1] / "stats"
    reference = json.loads((folder / "rliable_reference.json").read_text())["anova"]
    scores = np.array(reference["scores"])
    factors = {
        f: [f"{f}{i}" for i in range(n)] for f, n in zip("abc", scores.shape[1:], strict=True)
    }
    arms, tables = {}, {}
    for at in np.ndindex(*scores.shape[1:]):
        levels = {f: factors[f][i] for f, i in zip("abc", at, strict=True)}
        name = "+".join(levels.values())
        arms[frozenset(levels.items())] = name
        tables[name] = scores[(slice(None), *at)][:, None]
    design = Crossed(factors=factors, arms=arms, scores=tables, seeds=tuple(range(len(scores))))
    found = {t.name.replace(" x ", ":"): t for t in anova(design)}
    assert found.keys() == reference["table"].keys()
    for name, want in reference["table"].items():
        term = found[name]
        assert [term.df, term.df_error] == want["df"]
        assert (term.f, term.p_value) == pytest.approx((want["f"], want["p"]), rel=1e-6)
    assert sum(t.share for t in found.values()) == pytest.approx(1)


def test_the_variance_goes_to_what_made_it_and_one_seed_tests_nothing() -> None:
    found = {t.name: t for t in anova(crossed(runs(noise=0.01), levels=LEVELS))}
    assert found["size"].share > found["size x gate"].share > 0.05
    assert found["size"].p_adjusted < 0.05
    alone = anova(crossed(runs(seeds=1), levels=LEVELS))
    assert all(np.isnan(t.f) and t.p_adjusted == 1 for t in alone)


@pytest.mark.slow
@over("seeds", [2, 3])
def test_answers_of_zero_and_one_that_agree_by_chance_show_no_effect(seeds: int) -> None:
    """16 prompts, four arms alike: a contrast's means over seeds are often equal, or nearly so."""
    rng, wrong, studies = np.random.default_rng(seeds), {"anova": 0, "effects": 0}, 200
    factors = {"a": ["a0", "a1"], "b": ["b0", "b1"]}
    for _ in range(studies):
        levels = [dict(zip("ab", chosen, strict=True)) for chosen in product(*factors.values())]
        arms = {frozenset(chosen.items()): "+".join(chosen.values()) for chosen in levels}
        design = Crossed(
            factors=factors,
            arms=arms,
            scores={
                arm: rng.integers(0, 2, (seeds, 16)) + rng.normal(0, 1e-5, (seeds, 16))
                for arm in arms.values()
            },
            seeds=tuple(range(seeds)),
            span=1.0,
        )
        found = effects(design)
        wrong["anova"] += any(t.p_adjusted < 0.05 for t in anova(design))
        wrong["effects"] += any(e.p_adjusted < 0.05 for e in found)
        for effect in found:
            assert -effect.order <= effect.difference.low <= effect.difference.high <= effect.order
    # 200 studies at a true rate of 5 %: more than 19 happens once in 200 tries.
    assert max(wrong.values()) <= 19


@over("design", ["fractional", "screening"])
def test_a_fraction_of_the_arms_gives_the_main_effects(design: str) -> None:
    given = {f: {f"{f}0": {}, f"{f}1": {"group_size" if f == "a" else f"x{f}": 2}} for f in "abcde"}
    cells = expand(given, design=design, where="test")
    worth = {"a": 0.1, "b": 0.0, "c": -0.05, "d": 0.2, "e": 0.0}
    levels = {arm: cell.levels for arm, cell in cells.items()}
    noise = np.random.default_rng(0).normal(0, 1e-3, (len(levels), 4, 1))
    scores = {
        arm: 0.4 + noise[i] + sum(worth[f] for f, level in chosen.items() if level.endswith("1"))
        for i, (arm, chosen) in enumerate(levels.items())
    }
    found = effects(
        Crossed(
            factors={f: list(given[f]) for f in given},
            arms={frozenset(chosen.items()): arm for arm, chosen in levels.items()},
            scores=scores,
            seeds=(0, 1, 2, 3),
        )
    )
    assert {e.name: e.difference.value for e in found} == pytest.approx(
        {f"{f}={f}1": value for f, value in worth.items()}, abs=2e-3
    )
    assert {e.name for e in found if e.p_adjusted < 0.05} >= {"a=a1", "c=c1", "d=d1"}


def test_a_sum_in_another_order_is_no_effect() -> None:
    factors = {"a": ["a0", "a1"], "b": ["b0", "b1", "b2"]}
    arms = {frozenset({("a", a), ("b", b)}): a + b for a, b in product(*factors.values())}
    worth = dict(zip(arms.values(), [0.1, 0.2, 0.3, 0.3, 0.2, 0.1], strict=True))
    scores = {arm: np.full((6, 1), value) for arm, value in worth.items()}
    design = Crossed(factors=factors, arms=arms, scores=scores, seeds=tuple(range(6)), span=1.0)
    (of_a,) = (e for e in effects(design) if e.name == "a=a1")
    assert of_a.difference.value == 0 and of_a.p_value == 1
