"""VIP: the division of least variance, and the rates it is made for."""

from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.vip import Vip
from gfcr.errors import ConfigError
from gfcr.stages import Harvest, Job
from gfcr.testing import factories as make
from gfcr.types import Group, Prompt
from tests.cases import over

Kind = Literal["rloo", "dr_grpo"]
RATES = st.lists(st.floats(0.02, 0.98), min_size=1, max_size=4)


def _prompt(number: int, text: str) -> Prompt:
    return make.prompt(number, text=text)


def _visit(part: Vip, of: Prompt, right: int, wrong: int) -> None:
    group: Group = make.group([1.0] * right + [0.0] * wrong, of=of)
    part.observe(Harvest(step=0, groups=(group,), aborted=()), view=make.view())


def _variance(kind: Kind, num: int, rate: float) -> float:
    v = 1 / (num - 1) if kind == "rloo" else (num - 1) / num**2
    return v * rate * (1 - rate)


@settings(max_examples=100, deadline=None)
@given(RATES, st.sampled_from(["rloo", "dr_grpo"]), st.integers(0, 24))
def test_no_division_varies_less(rates: list[float], kind: Kind, extra: int) -> None:
    num = len(rates)
    total = 3 * num + min(extra, 6 * num)
    shares = Vip(kind=kind, low=3, high=9).divide(np.array(rates), total=total)
    best = min(
        sum(_variance(kind, n, p) for n, p in zip(ns, rates, strict=True))
        for ns in product(range(3, 10), repeat=num)
        if sum(ns) == total
    )
    assert sum(shares) == total and set(shares) <= set(range(3, 10))
    got = sum(_variance(kind, n, p) for n, p in zip(shares, rates, strict=True))
    assert got == pytest.approx(best)


@given(st.floats(0.02, 0.98), st.integers(1, 9), st.integers(3, 16))
def test_equal_rates_are_uniform(rate: float, prompts: int, each: int) -> None:
    shares = Vip(low=3, high=16).divide(np.full(prompts, rate), total=each * prompts)
    assert shares == [each] * prompts


def test_prompts_near_a_half_get_most() -> None:
    shares = Vip().divide(np.array([0.02, 0.2, 0.5, 0.8, 0.98]), total=60)
    assert shares[2] == max(shares) and shares[0] == min(shares)
    assert abs(shares[1] - shares[3]) <= 1 and abs(shares[0] - shares[4]) <= 1


def test_the_variance_that_it_lowers_is_that_of_the_estimator() -> None:
    """Of sum_i A_i z_i / n with unit scores z of zero mean, and rewards apart from them."""
    rng, rate = np.random.default_rng(0), 0.3
    for kind, num in (("rloo", 4), ("dr_grpo", 4), ("rloo", 8), ("dr_grpo", 8)):
        rewards = (rng.random((200_000, num)) < rate).astype(float)
        scores = rng.choice([-1.0, 1.0], size=rewards.shape)
        centred = rewards - rewards.mean(1, keepdims=True)
        advantages = centred * (num / (num - 1) if kind == "rloo" else 1)
        measured = (advantages * scores).mean(1).var()
        assert measured == pytest.approx(_variance(kind, num, rate), rel=0.02)


def test_alike_prompts_are_expected_to_be_as_hard() -> None:
    part = Vip()
    for i, (text, right) in enumerate(
        (("1+2=", 7), ("1+3=", 8), ("99-88-77=", 0), ("98-88-77=", 1))
    ):
        _visit(part, _prompt(i, text), right, 8 - right)
    easy, hard, seen = part.rates([_prompt(7, "1+4="), _prompt(8, "97-88-77="), _prompt(1, "1+3=")])
    assert hard < 0.4 < 0.5 < easy < seen


def test_nothing_known_is_uniform() -> None:
    part, view = Vip(), make.view(group_size=5)
    jobs = [view.job(make.prompt(i, text=f"{i}=")) for i in range(6)]
    assert [j.num_samples for j in part.allocate(jobs, view=view)] == [5] * 6


def test_resumed_groups_are_left_as_they_are() -> None:
    part, view = Vip(), make.view(group_size=5)
    resumed = Job(
        prompt=make.prompt(1), num_samples=2, sampling=view.sampling, resume=(make.rollout(),)
    )
    assert part.allocate([resumed], view=view) == [resumed]
    given_ = part.allocate([resumed, view.job(make.prompt(0))], view=view)
    assert [j.num_samples for j in given_] == [2, 5]


def test_all_right_all_wrong_and_unscorable_prompts() -> None:
    part, prompt = Vip(), make.prompt(0)
    part.observe(Harvest(step=0, groups=(make.group([None, None]),), aborted=()), view=make.view())
    assert not part.seen
    for right, wrong in ((8, 0), (0, 8)):
        _visit(part, prompt, right, wrong)
        (rate,) = part.rates([prompt])
        assert 0.02 <= rate <= 0.98
    assert len(part.seen) == 1


def test_the_oldest_visits_are_forgotten() -> None:
    part = Vip(memory=2)
    for number in (0, 1, 0, 2):
        _visit(part, make.prompt(number), 1, 1)
    assert list(part.seen) == ["p0", "p2"]


@over("bad", [{"kind": "dr_grpo", "low": 2}, {"low": 9, "high": 8}], ids=["not convex", "crossed"])
def test_bounds_that_cannot_be_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"vip\.low={bad['low']}"):
        Vip(**bad)


def test_bounds_that_exclude_the_group_size_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"vip: group_size=2 lies outside low=3"):
        strategies.load("vip", group_size=2).check()


def test_the_strategy_divides_the_budget_and_each_prompt_counts_alike() -> None:
    task = make.CoinTask(rates=(0.05, 0.5, 0.95), num_train=12)
    run = make.pipeline(strategies.load("vip"), task=task, prompts=12)
    first, second = run.next_batch(), run.next_batch()
    assert {len(g.rollouts) for g in first.groups} == {8}
    by_rate: dict[object, list[int]] = {}
    for group in second.groups:
        by_rate.setdefault(group.prompt.meta["rate"], []).append(len(group.rollouts))
        assert sum(s.weight for s in group.signals) == pytest.approx(8)
        rewards = group.raw_rewards_N
        for signal, reward in zip(group.signals, rewards, strict=True):
            others = (rewards.sum() - reward) / (len(rewards) - 1)
            assert signal.advantage == pytest.approx(reward - others, abs=1e-5)
    assert sum(map(sum, by_rate.values())) == 96 == second.metrics["controls.vip/total"]
    assert np.mean(by_rate[0.5]) > max(np.mean(by_rate[0.05]), np.mean(by_rate[0.95]))
