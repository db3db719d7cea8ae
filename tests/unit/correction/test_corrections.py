"""Each correction against its formula, on random updates."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.correction.band import Band
from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.correction.ess_guard import EssGuard
from gfcr.correction.icepop import Icepop
from gfcr.correction.opsm import Opsm
from gfcr.correction.own_tokens import OwnTokens
from gfcr.correction.truncated import Truncated
from gfcr.errors import ConfigError
from gfcr.testing import factories as make
from tests.cases import over

EVERY: tuple[Correction, ...] = (
    *(Truncated(), Truncated(level="sequence"), Truncated(level="geometric")),
    *(Icepop(), Band(), Band(level="sequence"), Opsm(), OwnTokens(), EssGuard()),
)


def learned(
    *, gaps: Sequence[float], advantage: float = 1.0, lags: Sequence[int] | None = None
) -> Learned:
    """A rollout whose second token is the environment's, where it has three or more."""
    num = len(gaps)
    mask_T = np.array([num < 3 or i != 1 for i in range(num)])
    before_T = np.where(mask_T, np.float32(-1.5), np.float32(0))
    now_T = np.where(mask_T, before_T + np.array(gaps, np.float32), np.float32(0))
    versions_T = np.where(mask_T, 7 - np.array(lags or [0] * num), -1).astype(np.int32)
    columns = {"mask_T": mask_T, "versions_T": versions_T}
    return Learned(
        rollout=make.rollout(length=num, logprobs=before_T.tolist(), **columns),
        advantage_T=np.where(mask_T, np.float32(advantage), np.float32(0)),
        logprobs_T=now_T,
        version=7,
    )


updates = st.lists(
    st.builds(
        learned,
        gaps=st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=9),
        advantage=st.floats(-2, 2, width=32),
    ),
    min_size=1,
    max_size=6,
)


def weights(part: Correction, update: Sequence[Learned]) -> list[Any]:
    return [np.asarray(c.weight, np.float64) for c in part.correct(update)]


def ratios(update: Sequence[Learned]) -> list[Any]:
    own = [u.logprobs_T.astype(float) - u.rollout.logprobs_T.astype(float) for u in update]
    return [np.exp(gap_T) for gap_T in own]


@over("part", EVERY, ids=repr)
def test_on_policy_data_is_left_as_it_is(part: Correction) -> None:
    update = [learned(gaps=[0.0] * n, advantage=a) for n, a in ((1, 1.0), (4, -1.0), (6, 0.5))]
    for answer, each in zip(part.correct(update), update, strict=True):
        assert np.all(np.asarray(answer.weight) == 1)
        assert answer.mask_T is None or (answer.mask_T == each.rollout.mask_T).all()


@given(update=updates, cap=st.floats(0.5, 5))
def test_truncated_weights_are_the_ratio_up_to_the_cap(update: list[Learned], cap: float) -> None:
    found = weights(Truncated(cap=cap), update)
    for weight_T, ratio_T in zip(found, ratios(update), strict=True):
        assert weight_T == pytest.approx(np.minimum(ratio_T, cap), rel=1e-5)


@given(update=updates)
def test_a_rollout_s_weight_is_the_product_or_its_root(update: list[Learned]) -> None:
    whole = weights(Truncated(cap=100.0, level="sequence"), update)
    root = weights(Truncated(cap=100.0, level="geometric"), update)
    for product, mean, ratio_T, each in zip(whole, root, ratios(update), update, strict=True):
        assert product == pytest.approx(min(np.prod(ratio_T), 100), rel=1e-4)
        num = each.rollout.mask_T.sum()
        assert mean == pytest.approx(min(np.prod(ratio_T) ** (1 / num), 100), rel=1e-4)


@given(update=updates)
def test_icepop_keeps_the_ratio_inside_the_band_and_nothing_outside(update: list[Learned]) -> None:
    part = Icepop(low=0.5, high=2.0)
    found, outside, tokens = weights(part, update), 0, 0
    for weight_T, ratio_T, each in zip(found, ratios(update), update, strict=True):
        inside = (ratio_T >= 0.5) & (ratio_T <= 2)
        sure = np.abs(np.log(ratio_T / 0.5)) > 1e-4
        sure &= np.abs(np.log(ratio_T / 2)) > 1e-4
        expected = np.where(inside, ratio_T, 0)
        assert weight_T[sure] == pytest.approx(expected[sure], rel=1e-5)
        outside += int((weight_T[each.rollout.mask_T] == 0).sum())
        tokens += int(each.rollout.mask_T.sum())
    assert part.metrics()["outside"] == pytest.approx(outside / tokens)


def test_a_band_masks_rollouts_by_their_mean_or_their_sum() -> None:
    near, far = learned(gaps=[0.009, 0, 0.0, 0.0]), learned(gaps=[0.03, 0, 0.03, 0.03])
    part = Band()
    assert [c.mask_T.any() for c in part.correct([near, far])] == [True, False]  # pyright: ignore
    assert part.metrics() == {"masked": 0.5}
    long = learned(gaps=[0.005] * 9)
    assert Band().correct([long])[0].mask_T.any()  # pyright: ignore
    assert not Band(level="sequence").correct([long])[0].mask_T.any()  # pyright: ignore


@over(
    ("gap", "advantage", "kept"),
    [(-0.5, -1.0, False), (-0.5, 1.0, True), (0.5, -1.0, True), (-0.05, -1.0, True)],
)
def test_opsm_leaves_out_what_is_bad_and_hardly_said_any_more(
    gap: float, advantage: float, kept: bool
) -> None:
    (answer,) = Opsm(delta=0.1).correct([learned(gaps=[gap] * 4, advantage=advantage)])
    assert answer.mask_T is not None and bool(answer.mask_T.any()) == kept


def test_opsm_tells_the_share_that_it_masked_and_keeps_what_is_neither_good_nor_bad() -> None:
    part = Opsm(delta=0.1)
    update = [learned(gaps=[-0.5] * 4, advantage=a) for a in (-1.0, 0.0, 1.0, 2.0)]
    kept = [a.mask_T is not None and bool(a.mask_T.any()) for a in part.correct(update)]
    assert kept == [False, True, True, True] and part.metrics() == {"masked": 0.25}


def test_own_tokens_masks_what_older_policies_sampled() -> None:
    (answer,) = OwnTokens(max_lag=1).correct([learned(gaps=[0.0] * 5, lags=[3, 3, 2, 1, 0])])
    assert answer.mask_T is not None
    assert answer.mask_T.tolist() == [False, False, False, True, True]


@given(update=updates)
def test_the_effective_sample_size_is_kish_s_and_small_ones_skip_the_update(
    update: list[Learned],
) -> None:
    part = EssGuard(cap=4.0, least=0.8)
    answers: Sequence[Corrected] = part.correct(update)
    pairs = zip(ratios(update), update, strict=True)
    every = np.concatenate([np.minimum(r, 4.0)[u.rollout.mask_T] for r, u in pairs])
    expected = every.sum() ** 2 / (len(every) * (every**2).sum())
    assert part.metrics()["ess"] == pytest.approx(expected, rel=1e-4)
    skipped = all(a.mask_T is not None and not a.mask_T.any() for a in answers)
    assert skipped == (part.metrics()["ess"] < 0.8) == bool(part.metrics()["skipped"])


def test_updates_that_were_skipped_are_counted() -> None:
    part = EssGuard(cap=100.0, least=0.9)
    for gap, skipped in ((4.0, 1), (0.0, 1), (4.0, 2)):
        (answer,) = part.correct([learned(gaps=[gap, 0.0])])
        assert part.metrics()["skipped"] == skipped
        mask_T = answer.mask_T
        assert mask_T is None or (mask_T.dtype, mask_T.tolist()) == (np.bool_, [False, False])
        assert (mask_T is None) == (gap == 0)


@over(
    "part",
    [
        *(Band(low=1.0, high=2.0), Band(low=0.5, high=1.0), Opsm(delta=0.0)),
        *(Icepop(low=1.0, high=2.0), Icepop(low=0.5, high=1.0), EssGuard(least=1.0)),
    ],
    ids=repr,
)
def test_what_lies_on_an_edge_is_inside(part: Correction) -> None:
    (answer,) = part.correct([learned(gaps=[0.0, 0.0], advantage=-1.0)])
    assert np.all(np.asarray(answer.weight) == 1)
    assert answer.mask_T is None or answer.mask_T.all()


@over("level", ["token", "sequence", "geometric"])
def test_a_weight_for_each_token_is_refused_where_a_rollout_has_one_ratio(level: Any) -> None:
    plan = strategies.load("rloo", correction={"name": "truncated", "level": level})
    with pytest.raises(ConfigError) if level == "token" else nullcontext():
        plan.check()


@over("level", ["sequence", "geometric"])
def test_ratios_beyond_all_numbers_have_the_cap_and_no_warning(level: Any) -> None:
    with np.errstate(all="raise"):
        (answer,) = Truncated(cap=3.0, level=level).correct([learned(gaps=[900.0, 900.0])])
        assert answer.weight == 3.0
        (answer,) = Band(level=level).correct([learned(gaps=[900.0, 900.0])])
    assert answer.mask_T is not None and not answer.mask_T.any()


@over("made", [lambda: Icepop(low=5.0), lambda: Band(low=2.0), lambda: Band(low=1.0, high=1.0)])
def test_a_band_without_width_is_refused(made: Any) -> None:
    with pytest.raises(ConfigError, match="give low < high"):
        made()
