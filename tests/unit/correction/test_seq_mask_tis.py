"""A narrow band for rollouts, weights for the tokens of those inside."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.correction.band import Band
from gfcr.correction.base import Learned
from gfcr.correction.seq_mask_tis import SeqMaskTis
from gfcr.correction.truncated import Truncated
from gfcr.errors import ConfigError
from tests.unit.correction.test_corrections import learned, updates, weights


@given(update=updates, high=st.floats(1.01, 3), cap=st.floats(0.5, 4))
def test_it_is_the_geometric_band_and_truncated_token_weights(
    update: list[Learned], high: float, cap: float
) -> None:
    part = SeqMaskTis(low=1 / high, high=high, cap=cap)
    masks = [a.mask_T for a in Band(low=1 / high, high=high).correct(update)]
    for answer, mask_T in zip(part.correct(update), masks, strict=True):
        assert answer.mask_T is not None and (answer.mask_T == mask_T).all()
    for own_T, other_T in zip(
        weights(part, update), weights(Truncated(cap=cap), update), strict=True
    ):
        assert own_T == pytest.approx(other_T, rel=1e-4)
    rejected = np.mean([not m.any() for m in masks if m is not None])
    assert part.metrics()["masked"] == pytest.approx(rejected)


def test_gaps_that_cancel_stay_and_are_weighed() -> None:
    (answer,) = SeqMaskTis().correct([learned(gaps=[0.5, -0.5])])
    assert answer.mask_T is not None and answer.mask_T.all()
    assert answer.weight == pytest.approx(np.exp([0.5, -0.5]), rel=1e-5)


def test_length_does_not_matter_and_edges_are_inside() -> None:
    for num in (1, 10, 1000):
        near, far = learned(gaps=[0.009] * num), learned(gaps=[0.011] * num)
        assert [a.mask_T.any() for a in SeqMaskTis().correct([near, far])] == [True, False]  # pyright: ignore
    for part in (SeqMaskTis(low=1.0, high=2.0), SeqMaskTis(low=0.5, high=1.0)):
        (answer,) = part.correct([learned(gaps=[0.0, 0.0])])
        assert answer.mask_T is not None and answer.mask_T.all()


def test_ratios_beyond_all_numbers_have_the_cap_and_no_warning() -> None:
    with np.errstate(all="raise"):
        (answer,) = SeqMaskTis(cap=3.0).correct([learned(gaps=[900.0, 900.0])])
    assert answer.weight == pytest.approx([3.0, 3.0], rel=1e-5)
    assert answer.mask_T is not None and not answer.mask_T.any()


def test_a_band_without_width_is_refused() -> None:
    with pytest.raises(ConfigError, match="give low < high"):
        SeqMaskTis(low=1.01)
