"""K3 masks, against the formula and the divergence that it estimates."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.correction.base import Learned
from gfcr.correction.k3_mask import K3Mask
from tests.cases import over
from tests.unit.correction.test_corrections import learned, ratios, updates


@given(update=updates, most=st.floats(0.01, 5), level=st.sampled_from(["token", "mean", "largest"]))
def test_what_is_over_the_bound_leaves_the_loss(
    update: list[Learned], most: float, level: Any
) -> None:
    part = K3Mask(most=most, level=level)
    answers, kept, every = part.correct(update), 0, list[float]()
    for answer, each, ratio_T in zip(answers, update, ratios(update), strict=True):
        own_T, mask_T = ratio_T - 1 - np.log(ratio_T), each.rollout.mask_T
        k3 = own_T[mask_T]
        bound_T = {"token": own_T, "mean": k3.mean(), "largest": k3.max()}[level]
        bound_T = np.broadcast_to(bound_T, mask_T.shape)
        sure = np.abs(bound_T - most) > 1e-4
        assert answer.mask_T is not None and answer.weight == 1
        assert (answer.mask_T[sure] == (mask_T & (bound_T <= most))[sure]).all()
        kept += int(answer.mask_T.sum())
        every += k3.tolist()
    assert part.metrics()["masked"] == pytest.approx(1 - kept / len(every))
    assert part.metrics()["divergence"] == pytest.approx(np.mean(every), abs=1e-4)


def test_its_mean_is_the_divergence_of_what_was_sampled() -> None:
    """Each token of a vocabulary as often as it is sampled: the mean is KL(sampled || now)."""
    sampled, now = np.array([0.5, 0.3, 0.2]), np.array([0.25, 0.25, 0.5])
    gaps = np.repeat(np.log(now / sampled), [5, 3, 2]).tolist()
    update = [learned(gaps=[gap]) for gap in gaps]
    part = K3Mask(most=100.0)
    part.correct(update)
    expected = float((sampled * np.log(sampled / now)).sum())
    assert part.metrics()["divergence"] == pytest.approx(expected, abs=1e-5)


def test_it_is_not_symmetric() -> None:
    """A token ten times as likely counts 6.7, one a tenth as likely 1.4."""
    for gap, k3 in ((np.log(10), 6.697), (-np.log(10), 1.403)):
        part = K3Mask(most=100.0)
        part.correct([learned(gaps=[float(gap)])])
        assert part.metrics()["divergence"] == pytest.approx(k3, abs=1e-3)


@over("level", ["token", "mean", "largest"])
def test_on_policy_data_stays_and_what_is_beyond_all_numbers_goes(level: Any) -> None:
    part = K3Mask(level=level)
    with np.errstate(all="raise"):
        here, gone = part.correct([learned(gaps=[0.0] * 4), learned(gaps=[900.0] * 4)])
    assert here.mask_T is not None and here.mask_T.tolist() == [True, False, True, True]
    assert gone.mask_T is not None and not gone.mask_T.any()
