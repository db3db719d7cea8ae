"""What changes rewards comes before the map that makes advantages of them."""

from typing import Any

import pytest

from gfcr import registry
from gfcr.errors import ConfigError
from gfcr.filter.cosine_length import CosineLength
from gfcr.filter.exit_reward import ExitReward
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.kimi_length import KimiLength
from gfcr.filter.length_gate import LengthGate
from gfcr.filter.soft_overlong import SoftOverlong
from gfcr.generate.sample import Sample
from gfcr.stages import Filter
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from tests.cases import over

SHAPING = [
    CosineLength(),
    ExitReward(),
    KimiLength(),
    SoftOverlong(),
    LengthGate(failing="set"),
    LengthGate(failing="add"),
]

THRESHOLDS: dict[str, dict[str, Any]] = {
    "cosine_length": {},
    "kimi_length": {},
    "exit_reward": {},
    "scaffolded": {},
    "novelty": {"of": "right"},
    "trajectory_entropy": {"of": "right"},
    "balanced_subset": {"keep": 2},
}


def _strategy(**filters: Filter) -> Strategy:
    return Strategy(name="t", generate=Sample(), filters=filters, group_size=8)


@over("shaping", SHAPING, ids=repr)
def test_before_the_map_it_is_taken_and_behind_it_refused(shaping: Filter) -> None:
    _strategy(shape=shaping, advantage=GroupAdvantage()).check()
    told = r"strategy\.filters\.shape: strategy\.filters\.advantage makes advantages.*put it first"
    with pytest.raises(ConfigError, match=told):
        _strategy(advantage=GroupAdvantage(), shape=shaping).check()
    # A gate that leaves out, and changes no reward, may stand behind.
    _strategy(advantage=GroupAdvantage(), gate=LengthGate(failing="reject")).check()


@over("part", THRESHOLDS)
def test_a_reward_of_the_threshold_is_right(part: str) -> None:
    """For a reward of 0.5 a threshold of 0.5 is one of 0.4, and not one of 0.6."""
    lengths, notes = (3, 5, 7, 9), ({}, {"exit": 1}, {"hint": 1}, {"exit": 2})
    rollouts = [
        make.rollout(i, reward=reward, length=length, notes=note)
        for i, (reward, length, note) in enumerate(
            zip((0.0, 0.5, 0.5, 1.0), lengths, notes, strict=True)
        )
    ]

    def made(threshold: float) -> str:
        built = registry.build("filter", {"name": part, **THRESHOLDS[part], "threshold": threshold})
        return repr(built.apply(make.group_of(rollouts), view=make.view()).signals)

    assert made(0.5) == made(0.4) != made(0.6)
