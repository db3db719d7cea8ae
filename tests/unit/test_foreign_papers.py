"""Strategies of papers of 2026, written outside the package: each is its formula, and fires."""

from collections import Counter
from itertools import product
from typing import Any

import numpy as np

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over
from tests.unit.test_foreign import load, run
from tests.unit.test_foreign_laws import SEEDS, advantages, near


def rewards(rng: np.random.Generator) -> list[float | None]:
    """Rewards of a group: zeros and ones, or any numbers, one in eight of them unscorable."""
    num = int(rng.integers(2, 9))
    drawn = rng.integers(0, 2, num) if rng.random() < 0.5 else rng.normal(0.3, 1, num)
    return [None if rng.random() < 1 / 8 else float(r) for r in drawn]


# ---------------------------------------------------------------- F-GRPO


@over("seed", SEEDS)
def test_fgrpo_counts_a_group_by_its_wrong_answers(seed: int) -> None:
    group = make.group(given := rewards(np.random.default_rng(seed)))
    found = load("fgrpo", power=2.0).filters["focal"].apply(group, view=make.view())
    right = [r > 0 for r in given if r is not None]
    wanted = (1 - sum(right) / len(right)) ** 2 if right else 1.0
    assert all(near(signal.weight, wanted) for signal in found.signals)
    assert [s.rejected for s in found.signals] == [s.rejected for s in group.signals]


def test_fgrpo_trains_on_the_focal_weight_times_grpo_s_advantage() -> None:
    _, batches = run(load("fgrpo"))
    held = {r.id: g for b in batches for g in b.groups for r in g.rollouts}
    base = {g.id: GroupAdvantage().apply(g, view=make.view()) for g in held.values()}
    weights = Counter[float]()
    for sample in (s for b in batches for s in b.samples):
        group: Group = held[sample.rollout.id]
        index = [r.id for r in group.rollouts].index(sample.rollout.id)
        weight = 1 - np.mean(group.raw_rewards_N)
        assert near(sample.advantage_T, weight * advantages(base[group.id])[index])
        weights[round(float(weight), 3)] += 1
    assert len(weights) > 3


# ---------------------------------------------------------------- HORA


def hit(right: int, wrong: int, num: int) -> float:
    """P(one of `num` is right), by Simpson's rule over the posterior of the success rate."""
    p = np.linspace(0, 1, 2001)
    law = p**right * (1 - p) ** wrong
    weights = np.where(np.arange(2001) % 2, 4, 2) - (p == 0) - (p == 1)
    return float((weights * law * (1 - (1 - p) ** num)).sum() / (weights * law).sum())


@over("seed", range(8))
def test_hora_s_groups_have_the_largest_sum_of_hits_of_all_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    part: Any = load("hora", least=1).controls["allot"]
    jobs = [make.view(group_size=3).job(make.prompt(i)) for i in range(4)]
    counts = {j.prompt.id: tuple(map(int, rng.integers(0, 6, 2))) for j in jobs}
    part.counts = dict(counts)
    sizes = [job.num_samples for job in part.allocate(jobs, view=make.view())]

    def worth(held: Any) -> float:
        return sum(hit(*counts[j.prompt.id], n) for j, n in zip(jobs, held, strict=True))

    all_ = [held for held in product(range(1, 10), repeat=4) if sum(held) == 12]
    assert sum(sizes) == 12 and near(worth(sizes), max(map(worth, all_)))


def test_hora_gives_more_to_what_was_seldom_right_and_spends_no_more() -> None:
    task = make.CoinTask(rates=(0.1, 0.95), num_train=8)
    pipeline, batches = run(load("hora"), task=task, updates=8)
    assert all(sum(len(g.rollouts) for g in b.groups) == 4 * 8 for b in batches)
    late = [g for b in batches[4:] for g in b.groups]
    means = {
        rate: np.mean([len(g.rollouts) for g in late if g.prompt.meta["rate"] == rate])
        for rate in (0.1, 0.95)
    }
    assert means[0.1] > means[0.95]
    counts = pipeline.strategy.parts["controls.allot"].counts
    assert sum(map(sum, counts.values())) == 8 * 4 * 8


# ---------------------------------------------------------------- FG-ExPO's curriculum


def test_the_gaussian_curriculum_draws_prompts_by_their_weights() -> None:
    part: Any = load("gaussian", width=0.3).controls["frontier"]
    task = make.CoinTask(num_train=5)
    rates = {f"c{i}": rate for i, rate in enumerate((0.0, 0.2, 0.5, 0.8))}
    part.rates = dict(rates)
    drawn = Counter[str]()
    for step in range(4000):
        drawn.update(p.id for p in part.select(1, view=make.view(task=task, step=step)))
    weights = {f"c{i}": np.exp(-((rates.get(f"c{i}", 0.5) - 0.5) ** 2) / 0.18) for i in range(5)}
    for name, weight in weights.items():
        wanted = weight / sum(weights.values())
        assert abs(drawn[name] / 4000 - wanted) < 4 * np.sqrt(wanted / 4000)


def test_the_gaussian_curriculum_asks_each_prompt_once_a_batch_and_learns_its_rate() -> None:
    task = make.CoinTask(rates=(0.0, 0.5, 1.0), num_train=12)
    pipeline, batches = run(load("gaussian", width=0.1), task=task, updates=8)
    assert all(len({g.prompt.id for g in b.groups}) == 4 for b in batches)
    last = {g.prompt.id: float(np.mean(g.raw_rewards_N)) for b in batches for g in b.groups}
    assert pipeline.strategy.parts["controls.frontier"].rates == last
    late = Counter(g.prompt.meta["rate"] for b in batches[4:] for g in b.groups)
    assert late[0.5] > late[0.0] + late[1.0]
