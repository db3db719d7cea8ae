"""A share of each batch are groups of the last batches, drawn evenly, as they were made."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.replay.experience_replay import ExperienceReplay
from gfcr.stages import Harvest, Plan
from gfcr.testing import factories as make
from gfcr.types import Rollout
from tests.cases import over


@over(("share", "replayed"), [(0.0, 0), (0.25, 1), (0.5, 2), (0.74, 2)])
def test_a_share_of_a_batch_comes_back_as_it_was_and_costs_no_tokens(
    share: float, replayed: int
) -> None:
    plan = strategies.load("experience_replay", share=share, capacity=5, group_size=4)
    pipeline = make.pipeline(plan, task=make.CoinTask(num_train=12), prompts=4)
    made, newest = dict[str, Rollout](), list[str]()
    for version in range(8):
        pipeline.sync((), version=version)
        batch = pipeline.next_batch()
        again = [g for g in batch.groups if g.rollouts[0].origin == "replay"]
        fresh = [g for g in batch.groups if g not in again]
        assert len(again) == (replayed if version else 0) and len(batch.groups) == 4
        assert len({g.rollouts[0].group_id for g in again}) == len(again)
        assert {g.rollouts[0].group_id for g in again} <= {*newest}
        assert all(r == replace(made[r.id], origin="replay") for g in again for r in g.rollouts)
        own = [r for g in fresh for r in g.rollouts]
        assert batch.cost.generated_tokens == sum(map(len, own))
        assert batch.metrics["replays.experience/replayed"] == len(again)
        made |= {r.id: r for r in own}
        newest = [*newest, *(g.id for g in fresh)][-5:]
        assert pipeline.tokens()["remainder"] == 0
        pipeline.updated({})
    pipeline.close()


def test_each_group_is_drawn_as_often_as_any_other() -> None:
    part, drawn = ExperienceReplay(share=0.5, capacity=10), Counter[str]()
    groups = [replace(make.group([1.0, 0.0], of=make.prompt(i)), id=f"g{i}") for i in range(12)]
    rejected = [g.reject("dead") if i == 11 else g for i, g in enumerate(groups)]
    part.store(Harvest(step=0, groups=tuple(rejected), aborted=()), view=make.view())
    for step in range(1, 2001):
        plan = part.plan(Plan(num_groups=8, target=8, missing=8), view=make.view(step=step))
        assert plan.unfilled == 4
        drawn.update(job.prompt.id for job in plan.jobs)
    assert {*drawn} == {f"p{i}" for i in range(1, 11)}, "first in, first out, and none rejected"
    spread = (2000 * 0.4 * 0.6) ** 0.5
    assert np.abs(np.array([*drawn.values()]) - 800).max() < 5 * spread
    with pytest.raises(ConfigError, match=r"share=1"):
        ExperienceReplay(share=1)
