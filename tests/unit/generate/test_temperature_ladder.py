"""Temperatures within a group."""

from dataclasses import dataclass, replace
from typing import final

import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError, PartError
from gfcr.generate.temperature_ladder import TemperatureLadder
from gfcr.stages import Generate, Session
from gfcr.testing import factories as make


def test_scales_go_evenly_from_low_to_high() -> None:
    part = TemperatureLadder(low=0.5, high=2.0)
    assert [part.scale(i, of=4) for i in range(4)] == [0.5, 1.0, 1.5, 2.0]
    assert part.scale(0, of=1) == 1.25


def test_each_rollout_is_asked_for_at_its_own_temperature() -> None:
    asked: list[float] = []

    def script(request: object) -> list[int]:
        asked.append(request.sampling.temperature)  # pyright: ignore[reportAttributeAccessIssue]
        return [5, make.CODEC.eos_id]

    plan = strategies.load("temperature_ladder", group_size=3, low=0.5, high=1.5)
    batch = make.pipeline(plan, prompts=2, script=script).next_batch()
    for group in batch.groups:
        assert [r.notes.get("temperature", 1.0) for r in group.rollouts] == [0.5, 1.0, 1.5]
    assert sorted(asked) == [0.5, 0.5, 1.0, 1.0, 1.5, 1.5]


def test_it_needs_a_correction_and_low_below_high() -> None:
    with pytest.raises(ConfigError, match="off the policy"):
        strategies.load("grpo", generate="temperature_ladder").check()
    with pytest.raises(ConfigError, match=r"low=2\.0 is above"):
        TemperatureLadder(low=2.0)


@final
@dataclass(kw_only=True)
class Hotter(Generate):
    """Samples at twice the job's temperature, and says nothing of it to the strategy."""

    async def run(self, session: Session) -> None:
        heat = 2 * session.job.sampling.temperature
        opened = [session.open(i, temperature=heat) for i in range(session.job.num_samples)]
        await session.gather(*(t.sample() for t in opened))


def test_a_part_that_samples_hotter_is_refused_where_nothing_weighs_it() -> None:
    plan = strategies.load("grpo", group_size=2)
    with pytest.raises(PartError, match=r"generate.*temperature=2\.0 \(job: 1\.0\)"):
        make.pipeline(replace(plan, generate=Hotter()), prompts=2).next_batch()
    weighed = strategies.load("grpo", group_size=2, loss={"off_policy": "behaviour"})
    batch = make.pipeline(replace(weighed, generate=Hotter()), prompts=2).next_batch()
    assert all(len(g.rollouts) == 2 for g in batch.groups)
