"""DARS: how many rollouts are added, and what they make prompts weigh."""

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.dars import Dars
from gfcr.errors import ConfigError
from gfcr.stages import Harvest, SampleMore
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over

Kind = Literal["dr_grpo", "grpo"]


def _group(right: int, wrong: int, **changes: Any) -> Group:
    return make.group([1.0] * right + [0.0] * wrong, **changes)


@over(
    ("knobs", "right", "num", "extra"),
    [
        ({}, 1, 8, 11),  # (4 - 1.75) / .21875 = 10.3
        ({}, 0, 8, 27),  # a = 1/16: (4 - .9375) / .1171875 = 26.1
        ({}, 3, 8, 1),  # (4 - 3.75) / .46875 = .5
        ({}, 4, 8, 0),
        ({}, 8, 8, 0),
        ({"schedule": "hw"}, 1, 8, 24),  # (7 - 1.75) / .21875, a whole number
        ({"schedule": "hw"}, 3, 8, 3),  # (5 - 3.75) / .46875 = 2.7
        ({"kind": "grpo"}, 1, 8, 5),  # (8 - 5.2915) / .66144 = 4.1
        ({}, 0, 1, 0),
    ],
)
def test_the_formula(knobs: dict[str, Any], right: int, num: int, extra: int) -> None:
    assert Dars(**knobs).extra(right=right, num=num) == extra


@given(st.integers(2, 64), st.data(), st.sampled_from(["dr_grpo", "grpo"]))
def test_equal_treatment_brings_each_prompt_just_to_the_peak(
    num: int, data: st.DataObject, kind: Kind
) -> None:
    right = data.draw(st.integers(0, num))
    extra = Dars(kind=kind).extra(right=right, num=num)
    rate = max(right, 0.5) / num
    each = 2 * rate * (1 - rate) if kind == "dr_grpo" else 2 * np.sqrt(rate * (1 - rate))
    peak = num / 2 if kind == "dr_grpo" else num
    if rate >= 0.5:
        assert extra == 0
    else:
        assert (num + extra - 1) * each < peak <= (num + extra) * each + 1e-6


@given(st.integers(2, 64), st.data())
def test_hardness_weighted_adds_no_less(num: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, num))
    extras = [Dars(schedule=s).extra(right=right, num=num) for s in ("et", "hw")]
    assert extras[0] <= extras[1]


def test_a_prompt_is_asked_again_once() -> None:
    part, view = Dars(), make.view(group_size=8)
    assert part.decide(_group(1, 7), view=view) == SampleMore(num_samples=11)
    assert part.decide(_group(1, 7), view=view) is None  # even where all that were added were cut
    assert part.decide(_group(8, 0, id="h"), view=view) is None
    part.observe(
        Harvest(step=0, groups=(_group(1, 18), _group(8, 0, id="h")), aborted=()), view=view
    )
    assert part.metrics() == {"extra": 11.0, "raised": 0.5}
    assert part.state_dict()["extras"] == {}
    # A group that lives into the next batch has had its rollouts.
    assert part.decide(_group(1, 18), view=view) is None


def test_a_batch_made_beside_another_has_its_own_counts() -> None:
    part, view = Dars(), make.view(group_size=8)
    part.decide(_group(1, 7), view=view), part.decide(_group(0, 8, id="later"), view=view)
    cut = make.rollout(group_id="cut")
    part.decide(_group(0, 8, id="cut"), view=view)
    part.observe(Harvest(step=0, groups=(_group(1, 18),), aborted=(cut,)), view=view)
    assert part.metrics() == {"extra": 11.0, "raised": 1.0} and part.extras == {"later": 24}
    later = _group(0, 32, id="later")
    part.observe(Harvest(step=1, groups=(later,), aborted=()), view=view)
    assert part.metrics() == {"extra": 24.0, "raised": 1.0} and not part.extras
    part.observe(Harvest(step=2, groups=(later,), aborted=()), view=view)
    assert part.metrics() == {}


def test_no_group_grows_beyond_its_bound() -> None:
    view = make.view(group_size=8)
    assert Dars(high=32).decide(_group(0, 8), view=view) == SampleMore(num_samples=24)
    assert Dars(high=8).decide(_group(0, 8), view=view) is None


def test_unscorable_rollouts_count_for_nothing() -> None:
    part, view = Dars(high=12), make.view(group_size=8)
    assert part.decide(make.group([None] * 8), view=view) is None
    partly = make.group([1.0, 0.0, 0.0, 0.0, 0.0, None, None, None], id="h")
    # a = 1/5: (2.5 - 1.6) / .32 = 2.8; the bound holds for all eight.
    assert part.decide(partly, view=view) == SampleMore(num_samples=3)


def test_the_strategy_adds_to_hard_prompts_what_the_formula_says() -> None:
    task = make.CoinTask(rates=(0.0, 0.2, 0.5, 0.9))
    run = make.pipeline(strategies.load("dars"), task=task, prompts=16)
    batch = run.next_batch()
    part = Dars()
    for group in batch.groups:
        first = int(group.raw_rewards_N[:8].sum())
        assert len(group.rollouts) == 8 + min(24, part.extra(right=first, num=8))
        mean = group.raw_rewards_N.mean()
        got = np.array([s.advantage for s in group.signals], np.float64)
        np.testing.assert_allclose(got, group.raw_rewards_N - mean, atol=1e-6)
    assert len({len(g.rollouts) for g in batch.groups}) > 3
    extra = sum(len(g.rollouts) - 8 for g in batch.groups)
    assert batch.metrics["controls.dars/extra"] == extra > 0


def test_a_bound_below_two_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Dars\.high=1"):
        Dars(high=1)
