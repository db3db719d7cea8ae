"""Weights of whole rollouts up to a cap, against the formula; and what length does to them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.correction.base import Learned, applied
from gfcr.correction.sequence_mask import SequenceMask
from gfcr.correction.truncated import Truncated
from gfcr.errors import ConfigError
from tests.cases import over
from tests.unit.correction.test_corrections import learned, ratios, updates, weights


@given(update=updates, cap=st.floats(0.5, 5), level=st.sampled_from(["sequence", "geometric"]))
def test_the_ratio_up_to_the_cap_and_nothing_beyond(
    update: list[Learned], cap: float, level: Any
) -> None:
    part = SequenceMask(cap=cap, level=level)
    found = [float(w) for w in weights(part, update)]
    for weight, ratio_T, each in zip(found, ratios(update), update, strict=True):
        root = 1 if level == "sequence" else 1 / each.rollout.mask_T.sum()
        ratio = float(np.prod(ratio_T) ** root)
        if abs(ratio - cap) > 1e-3:
            assert weight == pytest.approx(ratio if ratio <= cap else 0.0, rel=1e-3)
    assert part.metrics()["masked"] == np.mean([w == 0 for w in found])
    assert part.metrics()["weight"] == pytest.approx(np.mean(found))


def test_a_lower_bound_masks_too_and_edges_are_inside() -> None:
    update = [learned(gaps=[g]) for g in (-1.0, 0.0, 1.0)]
    assert weights(SequenceMask(low=0.5, cap=2.0), update) == [0, 1, 0]
    assert weights(SequenceMask(low=1.0, cap=2.0), update[1:2]) == [1]
    assert weights(SequenceMask(low=0.5, cap=1.0), update[1:2]) == [1]
    assert weights(SequenceMask(), [learned(gaps=[900.0])]) == [0]


def test_nothing_leaves_the_number_that_the_loss_is_divided_by() -> None:
    (answer,) = SequenceMask().correct([learned(gaps=[9.0] * 4)])
    assert answer.weight == 0 and answer.mask_T is None


@over("gap", [-0.01, -0.003])
def test_long_rollouts_shrink_unless_the_weight_is_normalised_by_length(gap: float) -> None:
    """Whole-rollout weights shrank one framework's batch about 17 times; token weights did not."""
    update = [learned(gaps=[gap] * n) for n in (200, 500, 1000)]
    shrunk = SequenceMask()
    shrunk.correct(update)
    normal = SequenceMask(level="geometric")
    normal.correct(update)
    expected = np.mean([np.exp(gap * u.rollout.mask_T.sum()) for u in update])
    assert shrunk.metrics()["weight"] == pytest.approx(expected, rel=1e-3) and expected < 0.3
    assert normal.metrics()["weight"] == pytest.approx(np.exp(gap), rel=1e-4)
    per_token = [np.mean(w) for w in weights(Truncated(), update)]
    assert np.mean(per_token) == pytest.approx(np.exp(gap), rel=1e-3)


def test_a_band_without_width_is_refused() -> None:
    with pytest.raises(ConfigError, match="give low < cap"):
        SequenceMask(low=3.0)


@given(update=updates)
def test_truncated_with_a_cap_out_of_reach_is_the_decoupled_loss(update: list[Learned]) -> None:
    """(pi_before / pi_sampled) A, clipped against the policy before the update."""
    samples = applied(update, by=Truncated(cap=1e12))
    for sample, each, ratio_T in zip(samples, update, ratios(update), strict=True):
        assert sample.advantage_T == pytest.approx(each.advantage_T * ratio_T, rel=1e-4)
        assert sample.old_logprobs_T is each.logprobs_T
