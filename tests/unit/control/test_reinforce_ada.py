"""Reinforce-Ada: when a prompt leaves, and what it costs."""

from typing import Any, Literal

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.control.reinforce_ada import ReinforceAda
from gfcr.errors import ConfigError
from gfcr.stages import Harvest, SampleMore
from gfcr.testing import factories as make
from tests.cases import over


@over(
    ("mode", "right", "wrong", "leaves"),
    [
        ("balance", 4, 4, True),
        ("balance", 5, 3, False),
        ("balance", 3, 13, False),
        ("balance", 12, 4, True),
        ("positive", 0, 8, False),
        ("positive", 1, 7, True),
        ("positive", 8, 0, True),
    ],
)
def test_the_leaving_rule(
    mode: Literal["balance", "positive"], right: int, wrong: int, leaves: bool
) -> None:
    group = make.group([1.0] * right + [0.0] * wrong)
    answer = ReinforceAda(mode=mode).decide(group, view=make.view(group_size=8))
    assert answer == (None if leaves else SampleMore(num_samples=8))


def test_no_prompt_gets_more_than_its_rounds_even_if_all_its_rollouts_are_cut() -> None:
    part, view = ReinforceAda(max_rounds=3), make.view(group_size=4)
    alone = make.group([0.0])
    answers = [part.decide(alone, view=view) for _ in range(3)]
    assert answers == [SampleMore(num_samples=4), SampleMore(num_samples=4), None]


def test_unscorable_rollouts_are_neither_right_nor_wrong() -> None:
    group = make.group([1.0] * 4 + [None] * 4)
    assert ReinforceAda().decide(group, view=make.view(group_size=8)) is not None


def test_a_group_that_is_replayed_gets_no_more_rollouts() -> None:
    """What `group_replay` brings is whole, and taught something before."""
    group = make.group_of([make.rollout(i, reward=float(i), origin="replay") for i in range(2)])
    assert ReinforceAda().decide(group, view=make.view(group_size=2)) is None


def _run(rates: tuple[float, ...], **knobs: Any) -> tuple[Any, Any]:
    pipeline = make.pipeline(
        strategies.load("reinforce_ada", **knobs), task=make.CoinTask(rates=rates)
    )
    return pipeline, pipeline.next_batch()


def test_dead_prompts_take_all_rounds_and_live_ones_leave_early() -> None:
    _, batch = _run((0.0, 0.5))
    sizes = {0.0: [], 0.5: []}
    for group in batch.groups:
        sizes[group.prompt.meta["rate"]].append(len(group.rollouts))
    assert set(sizes[0.0]) == {32}
    assert np.mean(sizes[0.5]) < 20
    assert 1 < batch.metrics["controls.reinforce_ada/rounds"] < 4
    rewards = [g.raw_rewards_N for g in batch.groups]
    balanced = np.mean([min(r.sum(), len(r) - r.sum()) >= 4 for r in rewards])
    assert batch.metrics["controls.reinforce_ada/satisfied"] == pytest.approx(balanced)
    assert 0 < balanced < 1


def test_it_trains_a_balanced_eight_against_the_mean_of_the_pool() -> None:
    _, batch = _run((0.3,))
    for group in batch.groups:
        kept, rewards = group.kept_N, group.raw_rewards_N
        assert kept.sum() == 8
        pool_mean, pool_std = rewards.mean(), rewards.std(ddof=1)
        for signal, reward, keep in zip(group.signals, rewards, kept, strict=True):
            if keep and pool_std > 0:
                expected = (reward - pool_mean) / (pool_std + 1e-4)
                assert signal.advantage == pytest.approx(expected, abs=1e-4)
    assert any(len(g.rollouts) > 8 for g in batch.groups)
    assert batch.metrics["rejected/downsampled"] == sum(len(g.rollouts) - 8 for g in batch.groups)


def test_positive_stops_at_the_first_success() -> None:
    _, batch = _run((0.15,), mode="positive", max_rounds=6)
    rewards = [g.raw_rewards_N for g in batch.groups]
    assert all(r.sum() == 0 for g in rewards for r in [g[: len(g) - 8]])
    assert any(len(r) > 8 for r in rewards)


def test_memory_is_empty_between_batches() -> None:
    pipeline, _ = _run((0.5,))
    assert pipeline.strategy.controls["reinforce_ada"].state_dict()["rounds"] == {}


def test_a_batch_made_beside_another_has_its_own_counts() -> None:
    part, view = ReinforceAda(mode="positive", max_rounds=3), make.view(group_size=2)
    first, later, cut = (make.group([0.0] * 2, id=name) for name in ("first", "later", "cut"))
    for group in (first, first, later, cut):
        part.decide(group, view=view)
    aborted = (make.rollout(group_id="cut"),)
    part.observe(Harvest(step=0, groups=(first,), aborted=aborted), view=view)
    assert part.metrics() == {"rounds": 2.0, "satisfied": 0.0} and part.rounds == {"later": 1}
    part.observe(Harvest(step=1, groups=(later,), aborted=()), view=view)
    assert part.metrics() == {"rounds": 1.0, "satisfied": 0.0} and not part.rounds


@over("bad", [{"max_rounds": 0}, {"positives": 0}, {"keep": 1}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"ReinforceAda.{next(iter(bad))}="):
        ReinforceAda(**bad)


def test_a_reward_at_the_threshold_is_right() -> None:
    part = ReinforceAda(mode="positive", threshold=0.7)
    view = make.view(group_size=2)
    assert part.decide(make.group([0.7, 0.0]), view=view) is None
    assert part.decide(make.group([0.6, 0.0]), view=view) is not None


def test_of_an_odd_number_the_smaller_half_has_to_be_right() -> None:
    view = make.view(group_size=5)
    for right, wrong, leaves in ((2, 3, True), (1, 4, False), (3, 2, False)):
        group = make.group([1.0] * right + [0.0] * wrong)
        assert (ReinforceAda(keep=5).decide(group, view=view) is None) == leaves


@over(("pool", "rounds"), [(3, 1.0), (6, 1.0), (8, 2.0), (11, 2.0)])
def test_a_pool_that_was_resumed_has_had_its_whole_rounds(pool: int, rounds: float) -> None:
    part, view = ReinforceAda(), make.view(group_size=4)
    group = make.group([0.0] * pool)
    part.decide(group, view=view)
    part.observe(Harvest(step=0, groups=(group,), aborted=()), view=view)
    assert part.metrics() == {"rounds": rounds, "satisfied": 0.0}
