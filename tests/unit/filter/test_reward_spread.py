"""RLPR's moving threshold on the spread of a group's rewards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.reward_spread import RewardSpread
from gfcr.stages import Harvest
from gfcr.testing import factories as make

REWARDS = st.lists(st.floats(0, 1, width=32), min_size=2, max_size=6)


def _seen(part: RewardSpread, batch: list[list[float]], *, step: int) -> list[bool]:
    view = make.view(step=step)
    groups = [part.apply(make.group(list(rewards)), view=view) for rewards in batch]
    part.observe(Harvest(step=step, groups=tuple(groups), aborted=()), view=view)
    return [group.rejected is None for group in groups]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(REWARDS, min_size=1, max_size=4), min_size=1, max_size=6))
def test_a_group_is_kept_iff_it_spreads_as_the_recursion_asks(batches: list[list[list[float]]]):
    part, usual = RewardSpread(beta=0.8, decay=0.5, begin=2), None
    for step, batch in enumerate(batches):
        stds = [float(np.std(np.float32(r), dtype=np.float64)) for r in batch]
        bound = 0.8 * usual if usual is not None and step >= 2 else 0.0
        sure = [abs(s - bound) > 1e-6 for s in stds]
        kept = _seen(part, batch, step=step)
        assert [k for k, s in zip(kept, sure, strict=True) if s] == [
            std >= bound for std, s in zip(stds, sure, strict=True) if s
        ]
        usual = np.mean(stds) if usual is None else 0.5 * usual + 0.5 * np.mean(stds)
        assert part.usual == pytest.approx(usual, abs=1e-6)


def test_unscorable_rollouts_do_not_spread() -> None:
    group = RewardSpread().apply(make.group([1.0, None, 0.0]), view=make.view())
    assert group.values["reward_std"] == 0.5
    alone = RewardSpread().apply(make.group([1.0, None]), view=make.view())
    assert alone.values["reward_std"] == 0.0


def test_in_a_run_it_rejects_once_it_has_begun() -> None:
    filters = {"gate": {"name": "reward_spread", "begin": 2, "beta": 0.9}}
    task = make.CoinTask(rates=(0.02, 0.5), num_train=64)
    run = make.pipeline(strategies.load("grpo", group_size=8, filters=filters), task=task)
    batches = [run.next_batch() for _ in range(4)]
    rejected = [sum(g.rejected == "reward_spread" for g in b.groups) for b in batches]
    assert rejected[:2] == [0, 0] and sum(rejected) > 0
    assert batches[-1].metrics["filters.gate/usual"] > 0
