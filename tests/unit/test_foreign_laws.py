"""Strategies from papers, written outside the package: each is its paper's formula, and fires."""

from collections import Counter
from math import inf
from typing import Any

import numpy as np

from gfcr import registry
from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.handles import by_state
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over
from tests.unit.test_foreign import FOLDER, load, run

ERROR = 1e-6
SEEDS = range(20)


def near(found: Any, wanted: Any) -> bool:
    """Whether they are equal but for rounding."""
    scale = np.maximum(1.0, np.abs(wanted))
    return bool((np.abs(np.subtract(found, wanted)) <= ERROR * scale).all())


def advantages(group: Group) -> list[Any]:
    return [signal.advantage for signal in group.signals]


# ---------------------------------------------------------------- sGPO


def test_sgpo_profiles_once_and_asks_from_easy_to_hard_one_over_the_rate() -> None:
    task = make.CoinTask(rates=(0.0, 0.3, 0.6, 1.0), num_train=24)
    pipeline, batches = run(load("sgpo"), task=task, updates=5)
    profiled, asked = list[Group](), list[Group]()
    for group in (g for b in batches for g in b.groups):
        (profiled if group.rejected == "profiled" else asked).append(group)
    assert {len(g.rollouts) for g in profiled} == {4}
    assert len(profiled) == len({g.prompt.id for g in profiled}) == 24
    assert all(g in batches[0].groups for g in profiled), "in the first update alone"
    rates = {g.prompt.id: float(np.mean(g.raw_rewards_N)) for g in profiled}
    assert {*rates.values()} >= {0.0, 1.0}
    own = [rates[g.prompt.id] for g in asked]
    kept = sum(0 < r < 1 for r in rates.values()) + round(sum(r == 0 for r in rates.values()) / 2)
    assert own[:kept] == sorted(own[:kept], reverse=True), "the first time round"
    assert max(own) < 1 and len({g.prompt.id for g in asked[:kept]}) == min(kept, len(asked))
    for group, rate in zip(asked, own, strict=True):
        wanted = np.clip(np.rint(1 / rate if rate else inf), 2, 8)
        assert len(group.rollouts) == wanted
    assert pipeline.tokens()["remainder"] == 0 < pipeline.tokens()["rejected:profiled"]


@over("rate", [0.0, 1.0])
def test_sgpo_goes_on_where_no_prompt_is_of_middling_difficulty(rate: float) -> None:
    _, batches = run(load("sgpo"), task=make.CoinTask(rates=(rate,), num_train=12), updates=2)
    asked = [g for b in batches for g in b.groups if g.rejected != "profiled"]
    assert len(asked) == 8 and {len(g.rollouts) for g in asked} == {2 if rate else 8}
    assert len({g.prompt.id for g in asked}) == (8 if rate else 6), "half of what is never right"


# ---------------------------------------------------------------- turns from equal states


def test_turns_of_a_real_episode_are_compared_in_their_states() -> None:
    script = make.scripted(lambda request: f"{1 + int(request.slot.removeprefix('/')) % 4}=")
    pipeline, batches = run(load("heap"), script=script)
    groups = [g for b in batches for g in b.groups]
    sizes = Counter(len(same) for g in groups for same in by_state(g.rollouts))
    assert max(sizes) >= 8, "all begin in one state"
    base = [EpisodeAdvantage(epsilon=1e-6).apply(g, view=make.view()) for g in groups]
    pairs = zip(groups, base, strict=True)
    steps = [np.subtract(advantages(g), advantages(b)) for g, b in pairs]
    assert max(np.abs(step).max() for step in steps) > 0.1
    for group, step in zip(groups, steps, strict=True):
        assert all(abs(step[same].sum()) < 1e-5 for same in by_state(group.rollouts))
    pipeline.close()


# ---------------------------------------------------------------- a curriculum


def backwards(request: Any) -> str:
    """Writes numbers of up to three digits backwards, and longer ones as they are."""
    number = make.CODEC.decode(request.tokens).partition("=")[0]
    return number[::-1] if len(number) <= 3 else number


def test_a_ladder_is_climbed_to_where_the_policy_stands() -> None:
    plan = load("ladder")
    own = registry.build("task", {"name": f"{FOLDER}/ladder.py:Backwards"})
    pipeline, batches = run(plan, task=own, updates=6, script=make.scripted(backwards))
    digits = [{len(g.prompt.text) - 1 for g in b.groups} for b in batches]
    assert digits == [{2}, {3}, {4}, {4}, {4}, {4}]
    heldout = {p.text for p in own.problems(make.CODEC).heldout}
    assert not heldout & {g.prompt.text for b in batches for g in b.groups}
    assert pipeline.strategy.parts["controls.climb"].level == 2
