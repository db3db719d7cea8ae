"""Main effects from some of the arms of a design."""

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.leaderboard.measure import result_of
from gfcr.studies.crossed import crossed
from gfcr.studies.effects import effects
from gfcr.sweep.designs import fractional, screening
from gfcr.tracking.records import RunRecord
from tests.cases import over

ADDS = (0.2, 0.0, -0.1, 0.05, 0.0)


def levels(design: np.ndarray) -> dict[str, dict[str, str]]:
    return {
        f"arm{n}": {f"f{i}": "on" if sign > 0 else "off" for i, sign in enumerate(row)}
        for n, row in enumerate(design)
    }


def runs(
    chosen: dict[str, dict[str, str]], *, both: float = 0.0, noise: float = 0.0
) -> dict[str, list[RunRecord]]:
    """Scores that add up, and `both` where the first two factors are on."""
    rng = np.random.default_rng(0)
    found: dict[str, list[RunRecord]] = {}
    for arm, row in chosen.items():
        on = [row[f"f{i}"] == "on" for i in range(len(row))]
        mean = 0.4 + sum(a for a, is_on in zip(ADDS, on, strict=False) if is_on)
        mean += both * (on[0] and on[1])
        for seed in range(4):
            values = mean + rng.normal(0, noise, 20)
            held = {f"p{i}": float(v) for i, v in enumerate(values)}
            after = {"accuracy": float(values.mean()), "per_prompt": held}
            record = RunRecord(
                run_id=f"{arm}{seed}",
                study="s",
                arm=arm,
                seed=seed,
                status="finished",
                tags={},
                params={},
                result={"heldout": {"after": after}},
            )
            found.setdefault(arm, []).append(record)
    return found


@over("design", [fractional(5), screening(5)], ids=["fractional", "screening"])
def test_effects_that_add_up_are_found(design: np.ndarray) -> None:
    chosen = levels(design)
    assert not crossed(runs(chosen), levels=chosen).full
    found = effects(crossed(runs(chosen), levels=chosen))
    assert {e.name: e.difference.value for e in found} == pytest.approx(
        {f"f{i}=on": a for i, a in enumerate(ADDS)}, abs=1e-9
    )


def test_an_interaction_leaves_the_other_effects_of_a_fraction_alone() -> None:
    chosen = levels(fractional(5))
    found = effects(crossed(runs(chosen, both=0.4), levels=chosen))
    values = [e.difference.value for e in found]
    # Half of the time the other one is on, too.
    assert values == pytest.approx([ADDS[0] + 0.2, ADDS[1] + 0.2, *ADDS[2:]], abs=1e-9)


def test_what_is_there_is_told_from_what_is_not() -> None:
    chosen = levels(screening(5))
    found = effects(crossed(runs(chosen, noise=0.05), levels=chosen))
    judged = [e.p_adjusted < 0.05 for e in found]
    assert judged[0] and judged[2] and not judged[1] and not judged[4]


def test_one_factor_at_a_time_tells_no_effects_apart() -> None:
    chosen = levels(np.array([[-1, -1, -1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]))
    with pytest.raises(ConfigError, match="cannot be told apart"):
        effects(crossed(runs(chosen), levels=chosen))


def test_a_prompt_that_nobody_could_score_is_left_out_of_every_arm() -> None:
    """Were it worth 0, the arm whose verifier failed would look worse."""
    chosen = levels(screening(5))
    found = runs(chosen)
    held = result_of(found["arm0"][1])["heldout"]["after"]
    del held["per_prompt"]["p3"]
    held["unscorable"] = {"p3": 1}
    left = effects(crossed(found, levels=chosen))
    assert {e.prompts for e in left} == {19}
    whole = effects(crossed(runs(chosen), levels=chosen))
    values = [e.difference.value for e in whole]
    assert [e.difference.value for e in left] == pytest.approx(values)
    held["per_prompt"], held["unscorable"] = {}, {f"p{i}": 1 for i in range(20)}
    with pytest.raises(ConfigError, match="could be scored in all runs"):
        crossed(found, levels=chosen)
