import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import ConfigError
from gfcr.filter.length_gate import LengthGate
from gfcr.testing import factories as make


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 30))
def test_a_rollout_passes_between_the_bounds_and_at_them(length: int, low: int, high: int) -> None:
    low = min(low, high)
    gate = LengthGate(min_tokens=low, max_tokens=high)
    passes = gate.passes(make.rollout(length=length), view=make.view())
    assert passes == (length in range(low, high + 1))


def test_what_a_tool_said_is_no_length() -> None:
    mask = np.array([True, False, False, True])
    rollout = make.rollout(length=4, mask_T=mask)
    assert LengthGate(max_tokens=2).passes(rollout, view=make.view())
    assert not LengthGate(min_tokens=3).passes(rollout, view=make.view())


def test_bounds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"length_gate\.min_tokens=5 exceeds .*max_tokens=4"):
        LengthGate(min_tokens=5, max_tokens=4)
