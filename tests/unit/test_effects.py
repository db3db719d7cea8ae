"""Effects of crossed factors, on made-up runs."""

from itertools import product

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.studies.effects import effects
from gfcr.tracking.records import RunRecord

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
    found = {e.name: e.difference.value for e in effects(runs(), levels=LEVELS)}
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
    found = {e.name: e for e in effects(runs(noise=0.01), levels=LEVELS)}
    assert found["size=l x gate=alive"].p_adjusted < 0.05
    assert found["size=m x gate=alive"].p_value > 0.05
    assert all(e.p_adjusted >= e.p_value for e in found.values())


def test_without_interaction_few_studies_claim_one() -> None:
    p_values = [
        effects(runs(noise=0.03, seed=s, interaction=0.0), levels=LEVELS)[-1].p_value
        for s in range(60)
    ]
    # At 5 %, more than 8 of 60 happens once in 200 tries.
    assert sum(p < 0.05 for p in p_values) <= 8


def test_one_seed_has_no_limits() -> None:
    found = effects(runs(seeds=1), levels=LEVELS)
    assert all(np.isnan(e.difference.low) and e.p_adjusted == 1 for e in found)


def test_what_is_not_crossed_or_not_run_is_refused() -> None:
    missing = runs()
    missing["m+all"] = []
    with pytest.raises(ConfigError, match=r"no finished run of m\+all"):
        effects(missing, levels=LEVELS)
    part = {arm: chosen for arm, chosen in LEVELS.items() if arm != "l+alive"}
    with pytest.raises(ConfigError, match="design full"):
        effects(runs(), levels=part)
    with pytest.raises(ConfigError, match="factors"):
        effects(runs(), levels={})
    apart = runs()
    apart["s+all"] = [r for r in runs(seeds=9)["s+all"] if r.seed > 5]
    with pytest.raises(ConfigError, match="no seed in common"):
        effects(apart, levels=LEVELS)
