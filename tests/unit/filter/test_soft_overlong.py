import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import ConfigError
from gfcr.filter.soft_overlong import SoftOverlong
from gfcr.testing import factories as make
from tests.cases import over


def _penalty(length: int, *, buffer: float = 0.2, penalty: float = 1.0, cap: int = 100) -> float:
    group = make.group_of([make.rollout(length=length, reward=1.0)])
    part = SoftOverlong(buffer=buffer, penalty=penalty)
    (signal,) = part.apply(group, view=make.view(max_tokens=cap)).signals
    assert signal.reward is not None
    return 1.0 - signal.reward


@given(st.integers(1, 100))
def test_it_is_the_piecewise_line_of_the_paper(length: int) -> None:
    expected = 0.0 if length <= 80 else (length - 80) / 20
    assert _penalty(length) == pytest.approx(expected, abs=1e-9)


def test_the_full_penalty_is_reached_at_the_cap() -> None:
    assert _penalty(80) == 0
    assert _penalty(100, penalty=0.5) == pytest.approx(0.5)
    assert _penalty(75, buffer=0.5) == pytest.approx(0.5)
    assert _penalty(150) == 1.0, "a job of its own may have a higher cap"


def test_unscorable_stays_unscorable() -> None:
    group = make.group_of([make.rollout(length=40, reward=None)])
    assert SoftOverlong().apply(group, view=make.view()).signals[0].reward is None


@over("buffer", [0.0, 1.1])
def test_a_buffer_out_of_range_is_refused(buffer: float) -> None:
    with pytest.raises(ConfigError, match=f"buffer={buffer}"):
        SoftOverlong(buffer=buffer)
