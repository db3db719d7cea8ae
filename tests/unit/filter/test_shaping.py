"""What changes rewards comes before the map that makes advantages of them."""

import pytest

from gfcr.errors import ConfigError
from gfcr.filter.cosine_length import CosineLength
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.kimi_length import KimiLength
from gfcr.filter.length_gate import LengthGate
from gfcr.filter.soft_overlong import SoftOverlong
from gfcr.generate.sample import Sample
from gfcr.stages import Filter
from gfcr.strategy import Strategy
from tests.cases import over

SHAPING = [
    CosineLength(),
    KimiLength(),
    SoftOverlong(),
    LengthGate(failing="set"),
    LengthGate(failing="add"),
]


def _strategy(**filters: Filter) -> Strategy:
    return Strategy(name="t", generate=Sample(), filters=filters, group_size=8)


@over("shaping", SHAPING, ids=repr)
def test_before_the_map_it_is_taken_and_behind_it_refused(shaping: Filter) -> None:
    _strategy(shape=shaping, advantage=GroupAdvantage()).check()
    told = r"strategy\.filters\.shape: strategy\.filters\.advantage makes advantages.*put it first"
    with pytest.raises(ConfigError, match=told):
        _strategy(advantage=GroupAdvantage(), shape=shaping).check()


def test_a_gate_that_leaves_out_may_stand_behind_the_map() -> None:
    _strategy(advantage=GroupAdvantage(), gate=LengthGate(failing="reject")).check()
