import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.band_pass import BandPass
from gfcr.filter.reward_spread import RewardSpread
from gfcr.filter.reward_variance import RewardVariance
from gfcr.testing import factories as make


@given(st.integers(0, 10), st.integers(1, 10), st.integers(0, 20), st.integers(0, 20))
def test_a_group_is_kept_if_and_only_if_its_mean_is_in_the_band(
    right: int, size: int, one: int, other: int
) -> None:
    right, (low, high) = min(right, size), sorted((one, other))
    group = make.group([1.0] * right + [0.0] * (size - right))
    group = BandPass(low=low / 20, high=high / 20).apply(group, view=make.view())
    inside = low * size <= 20 * right <= high * size
    assert group.rejected == (None if inside else "band_pass")


def test_rounded_rewards_count_as_what_they_stand_for() -> None:
    group = make.group([0.1, 0.1, 0.1])
    assert BandPass(low=0.1, high=0.1).apply(group, view=make.view()).rejected is None


def test_unscorable_rollouts_and_rejected_ones_do_not_count() -> None:
    group = make.group([1.0, None, 0.0, 1.0, 1.0]).reject_rollouts([3, 4], reason="other")
    assert BandPass(low=0.5, high=0.5).apply(group, view=make.view()).rejected is None
    unscorable = make.group([None])
    assert BandPass().apply(unscorable, view=make.view()) is unscorable
    # Nor does an episode more than once that is several rollouts: one of four is right here.
    turns = [(0, 1.0)] * 6 + [(1, 0.0), (2, 0.0), (3, 0.0)]
    notes = [{"episode": float(number)} for number, _ in turns]
    rollouts = [
        make.rollout(i, reward=r, notes=n)
        for i, ((_, r), n) in enumerate(zip(turns, notes, strict=True))
    ]
    group, view = make.group_of(rollouts), make.view()
    assert BandPass(low=0.25, high=0.25).apply(group, view=view).rejected is None
    assert RewardVariance().apply(group, view=view).values["reward_variance"] == 0.75
    spread = RewardSpread().apply(group, view=view).values["reward_std"]
    assert spread == pytest.approx(0.1875**0.5)


def test_shaping_does_not_move_a_group_into_the_band() -> None:
    group = make.group([1.0, 1.0]).with_rewards([0.5, 0.5])
    assert BandPass().apply(group, view=make.view()).rejected == "band_pass"


def test_bounds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^band_pass\.low=0\.8 exceeds band_pass\.high=0\.2"):
        BandPass(low=0.8, high=0.2)


def test_in_a_run_no_group_out_of_the_band_is_trained() -> None:
    filters = {"band": {"name": "band_pass", "low": 0.3, "high": 0.7}}
    run = make.pipeline(strategies.load("grpo", filters=filters))
    batch = run.next_batch()
    means = {g.id: float(g.raw_rewards_N.mean()) for g in batch.groups}
    trained = {s.rollout.group_id for s in batch.samples}
    assert trained == {g for g, mean in means.items() if 0.3 <= mean <= 0.7} != means.keys()
    assert batch.metrics["rejected/band_pass"] == 8 * (8 - len(trained))
