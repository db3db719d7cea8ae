"""ExGRPO: which prompts come back, with which solution, and how it is weighed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.replay.exgrpo import Exgrpo
from gfcr.stages import Harvest
from gfcr.testing import factories as make


def after(rates: dict[int, float], *, num: int = 10, **knobs: Any) -> Exgrpo:
    """A memory of prompts by number, with these success rates."""
    part = Exgrpo(**{"begin": 0.0, **knobs})
    groups = tuple(
        make.group([float(i < rate * num) for i in range(num)], of=make.prompt(prompt))
        for prompt, rate in rates.items()
    )
    part.store(Harvest(step=0, groups=groups, aborted=()), view=make.view())
    return part


@pytest.mark.slow
def test_prompts_are_drawn_by_the_paper_s_law() -> None:
    """Weights exp(-(c/8 - 1/2)^2 / 2 sigma^2); a narrow one, so that the law shows."""
    rates = {1: 0.1, 2: 0.3, 3: 0.5, 4: 0.9}
    part = after(rates, share=1.0, sigma=0.2)
    counts = dict.fromkeys(rates, 0)
    for step in range(1000):
        (prompt,) = part.select(1, view=make.view(step=step))
        counts[int(prompt.id[1:])] += 1
    weights = np.exp(-((np.array([*rates.values()]) - 0.5) ** 2) / (2 * 0.2**2))
    expected = 1000 * weights / weights.sum()
    chi2 = float(((np.array([*counts.values()]) - expected) ** 2 / expected).sum())
    assert chi2 < 16.27  # 99.9 % of chi-square with 3 degrees of freedom


def test_half_a_batch_comes_back_once_the_policy_is_good_enough() -> None:
    rates = dict.fromkeys(range(1, 7), 0.3)
    early, late = after(rates, begin=0.35), after(rates, begin=0.25)
    assert len(early.select(8, view=make.view())) == 8 and not early.chosen
    chosen = late.select(8, view=make.view())
    assert len(chosen) == 8 and len({*late.chosen}) == 4
    assert [p.id for p in chosen[:4]] == late.chosen
    edge, more = after(rates, begin=0.3), make.view()
    rounded = after({1: 0.289, 2: 0.289}, num=100, begin=0.29)  # 0.29 * 200 is less than 58
    assert not edge.begun and not rounded.begun, "a share above, not at, what it begins with"
    more.round += 1
    refilled = late.select(4, view=more)
    assert len({*late.chosen}) == len(late.chosen) == 6 and late.chosen[4:] == [
        p.id for p in refilled[:2]
    ]
    late.chosen = late.chosen[:4]
    view = make.view()
    jobs = [view.job(p) for p in chosen]
    assert [j.num_samples for j in late.allocate(jobs, view=view)] == [3] * 4 + [4] * 4
    # A group of an earlier batch that goes on has had its size then.
    going = replace(jobs[0], resume=(make.rollout(of=jobs[0].prompt),))
    assert [j.num_samples for j in late.allocate([going, *jobs[:1]], view=view)] == [4, 3]


def test_a_prompt_that_was_all_right_is_retired_and_one_all_wrong_waits() -> None:
    part = after({1: 0.5, 2: 1.0})
    assert list(part.solved) == ["p1"] and part.metrics()["retired"] == 1
    wrong = make.group([0.0, 0.0], of=make.prompt(1))
    part.store(Harvest(step=1, groups=(wrong,), aborted=()), view=make.view())
    assert list(part.solved) == ["p1"] and not part.chosen
    part.select(8, view=make.view())
    assert not part.chosen
    nearly = after({1: 0.5, 2: 0.9}, share=1.0)
    nearly.rates["p2"] = 1.0  # of a visit whose solutions are not kept yet
    assert [p.id for p in nearly.select(2, view=make.view())][:1] == nearly.chosen == ["p1"]


def test_the_solution_that_the_policy_is_surest_of_is_recalled(monkeypatch: Any) -> None:
    part, view = after({1: 0.5}, share=1.0), make.view()
    part.select(1, view=view)
    kept = list(part.solved["p1"])
    scores = iter(range(len(kept)))
    asked: list[Any] = []

    def score(sequences: Any) -> list[Any]:
        asked.extend(sequences)
        best = 3
        return [
            np.full(len(s) - 1, -0.1 if next(scores) == best else -1.0, np.float32)
            for s in sequences
        ]

    monkeypatch.setattr(view, "score", score)
    (found,) = part.recall(make.group([0.0], of=make.prompt(1)), view=view)
    assert found is kept[3]
    assert asked == [[*r.prompt.tokens, *r.tokens_T.tolist()] for r in kept]
    assert part.recall(make.group([0.0], of=make.prompt(2)), view=view) == ()


def test_a_group_of_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="group_size=1 leaves no fresh rollout"):
        strategies.load("exgrpo", group_size=1).check()


def test_in_a_run_a_group_has_its_size_with_the_recalled_one() -> None:
    task = make.CoinTask(rates=(0.5,), num_train=12)
    pipeline = make.pipeline(strategies.load("exgrpo", group_size=4), task=task, prompts=4)
    batches = [pipeline.next_batch() for _ in range(6)]
    assert pipeline.tokens()["remainder"] == 0 < pipeline.tokens()["replayed"]
    assert not pipeline.state_dict()["known"]["lent"], "a batch that has ended gives back"
    for group in (g for b in batches for g in b.groups):
        replayed = [r for r in group.rollouts if r.origin == "replay"]
        assert len(group.rollouts) == 4 and len(replayed) <= 1
        assert all(r.reward == 1 for r in replayed)
    again = [b.metrics["replays.exgrpo/again"] for b in batches]
    assert again[0] == 0 and 0 < max(again) <= 2
    assert [b.metrics["rollouts/replayed"] for b in batches] == again
    # One that is cut has its solution where it goes on.
    more: dict[str, Any] = {"controls": {"more": {"name": "oversample"}}}
    more["replays"] = {"partial": {"name": "partial_rollouts"}}
    task = make.CoinTask(rates=(0.5,), num_train=40)
    cut = make.pipeline(strategies.load("exgrpo", group_size=4, **more), task=task, prompts=4)
    for version in range(12):
        cut.sync((), version=version)
        batch = cut.next_batch()
        assert min(len(g.rollouts) for g in batch.groups) == 4
        assert not version or batch.metrics["replays.partial/resumed_tokens"] > 0
