"""MoPPS: the posterior by hand, which candidates are taken, and what becomes of the others."""

from collections import Counter
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from scipy import stats

from gfcr import strategy as strategies
from gfcr.control.mopps import Mopps
from gfcr.errors import ConfigError
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from tests import chosen
from tests.cases import over


def _visit(part: Mopps, *rewards: float | None, of: int = 0) -> None:
    group = make.group(list(rewards), of=make.prompt(of))
    part.observe(Harvest(step=0, groups=(group,), aborted=()), view=make.view())


def test_the_posterior_is_the_one_by_hand() -> None:
    part = Mopps(decay=0.5, prior_right=1.0, prior_wrong=3.0)
    _visit(part, 1.0, 1.0, 0.0)
    # 0.5 * 1 + 0.5 * 1 + 2, 0.5 * 3 + 0.5 * 3 + 1
    assert part.posterior["p0"] == pytest.approx((3.0, 4.0))
    _visit(part, 0.0, 0.0, 0.0)
    # 0.5 * 3 + 0.5 * 1 + 0, 0.5 * 4 + 0.5 * 3 + 3
    assert part.posterior["p0"] == pytest.approx((2.0, 6.5))
    assert part.mean("p0") == pytest.approx(2 / 8.5) and part.mean("p1") == pytest.approx(0.25)


@over(("decay", "counted"), [(1.0, (1 + 3, 1 + 5)), (0.0, (1 + 1, 1 + 1))])
def test_without_decay_it_counts_and_with_full_decay_it_knows_the_last_visit(
    decay: float, counted: tuple[float, float]
) -> None:
    part = Mopps(decay=decay)
    for rewards in ([1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0]):
        _visit(part, *rewards)
    assert part.posterior["p0"] == pytest.approx(counted)


def test_unscorable_rollouts_are_neither_right_nor_wrong() -> None:
    part = Mopps(decay=1.0)
    _visit(part, None, None)
    assert not part.posterior
    _visit(part, 1.0, None, 0.2)
    assert part.posterior["p0"] == (2.0, 2.0)


def test_all_right_and_all_wrong_prompts_lie_behind_those_between() -> None:
    view, part = make.view(task=make.CoinTask(num_train=16)), Mopps()
    everything = make.view(task=make.CoinTask(num_train=16)).draw(16)
    for i, prompt in enumerate(everything):
        part.posterior[prompt.id] = [(500.0, 500.0), (900.0, 1.0), (1.0, 900.0)][min(i % 4, 2)]
    assert [p.id for p in part.select(4, view=view)] == [p.id for p in everything[::4]]
    assert part.metrics()["predicted"] == 0.5 and part.metrics()["passed_over"] == 12


def test_draws_are_from_the_posterior() -> None:
    """A prompt is taken as often as its draw is nearer to the target than the prior's."""
    taken = 0
    for step in range(400):
        view = make.view(task=make.CoinTask(num_train=2), step=step)
        part = Mopps(candidates=2, target=0.9)
        part.posterior["c0"] = (9.0, 1.0)
        taken += part.select(1, view=view)[0].id == "c0"
    rng = np.random.default_rng(0)
    near = np.abs(rng.beta(9, 1, 100_000) - 0.9) < np.abs(rng.beta(1, 1, 100_000) - 0.9)
    assert stats.binomtest(taken, 400, float(near.mean())).pvalue > 1e-3


def _epoch(passed_over: Literal["skip", "put_back"]) -> tuple[Any, Counter[str]]:
    part = Mopps(candidates=3, passed_over=passed_over)
    plan = replace(strategies.load("mopps"), controls={"mopps": part})
    pipeline, batches = chosen.run(plan, updates=6, num_train=42, prompts=7)
    return pipeline, chosen.uses(batches)


def test_put_back_prompts_are_neither_lost_nor_doubled() -> None:
    pipeline, asked = _epoch("put_back")
    part, stream = pipeline.strategy.controls["mopps"], pipeline.stream
    waiting = Counter(p.id for p in stream._returned)
    assert asked.total() == 42 and len(asked + waiting) == 42 and {*waiting.values()} == {1}
    view = make.view()
    view.stream = stream
    for _ in range(60):  # copies of those never taken would leave few others to look at
        part.select(7, view=view)
        assert part.metrics()["passed_over"] == 14 == len({p.id for p in stream._returned})


def test_skipped_prompts_come_again_in_the_next_epoch() -> None:
    plan = strategies.load("mopps", candidates=3)
    pipeline, batches = chosen.run(plan, updates=2, num_train=42, prompts=7)
    assert pipeline.stream.drawn == 42 and set(chosen.uses(batches).values()) == {1}
    assert {g.prompt.id for g in pipeline.next_batch().groups} <= {f"c{i}" for i in range(42)}


@pytest.mark.slow
def test_chosen_prompts_are_nearer_to_the_target_than_the_stream_s() -> None:
    plain = chosen.distance(chosen.run("grpo", updates=24)[1][10:])
    picked = chosen.distance(chosen.run("mopps", updates=24)[1][10:])
    assert plain == pytest.approx(0.33, abs=0.03) and picked < 0.75 * plain


def test_resume_goes_on_with_the_same_choices() -> None:
    assert chosen.same_after_resume("mopps", before=4, after=3, candidates=4)


@over("bad", [{"decay": 1.5}, {"candidates": 0}, {"prior_right": 0.0}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"Mopps.{next(iter(bad))}="):
        Mopps(**bad)
