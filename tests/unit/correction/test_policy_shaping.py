"""LUFFY's shaping: the gradient of w / (w + gamma), for what was replayed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gfcr.correction.base import Learned
from gfcr.correction.policy_shaping import PolicyShaping
from tests.cases import over
from tests.unit.correction.test_corrections import learned


def replayed(gaps: list[float]) -> Learned:
    made = learned(gaps=gaps)
    return replace(made, rollout=replace(made.rollout, origin="replay"))


@over("gamma", [0.1, 1.0])
def test_a_weight_is_the_gradient_of_the_shaped_ratio(gamma: float) -> None:
    gaps = [-8.0, 0.0, -2.0, -0.5, 0.3, 4.0]
    update = [replayed(gaps), learned(gaps=gaps)]
    shaped, fresh = PolicyShaping(gamma=gamma).correct(update)
    now_T = torch.tensor(update[0].logprobs_T.astype(float), requires_grad=True)
    ratio_T = torch.exp(now_T - torch.tensor(update[0].rollout.logprobs_T.astype(float)))
    (ratio_T / (ratio_T + gamma)).sum().backward()
    assert now_T.grad is not None
    mask_T = update[0].rollout.mask_T
    np.testing.assert_allclose(
        np.asarray(shaped.weight)[mask_T], now_T.grad.numpy()[mask_T], rtol=1e-5
    )
    assert fresh.weight == 1.0 and fresh.mask_T is None and shaped.mask_T is None


def test_it_is_greatest_at_gamma_and_finite_far_away() -> None:
    gaps = [float(g) for g in np.linspace(-8, 8, 321)]
    part = PolicyShaping(gamma=0.1)
    (shaped,) = part.correct([replayed(gaps)])
    best = gaps[int(np.argmax(np.asarray(shaped.weight)))]
    assert best == pytest.approx(np.log(0.1), abs=0.05)
    (far,) = PolicyShaping().correct([replayed([-90.0, 0.0, 90.0])])
    assert np.isfinite(far.weight).all()


def test_without_replays_the_mean_weight_is_one() -> None:
    part = PolicyShaping()
    part.correct([learned(gaps=[0.5] * 4)])
    assert part.metrics() == {"weight": 1.0}
    part.correct([replayed([0.0] * 4)])
    assert part.metrics()["weight"] == pytest.approx(0.1 / 1.21)
