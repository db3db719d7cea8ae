"""Scaf-GRPO's scaffold: when a hint is given, how much of it, and what is trained of it."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.control.scaffold import Scaffold
from gfcr.errors import ConfigError, TaskError
from gfcr.filter.scaffolded import Scaffolded
from gfcr.generate.hinted import Hinted
from gfcr.stages import Harvest
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.testing import factories as make
from gfcr.types import Prompt
from gfcr.values.templates import filled
from tests.cases import over

SOLUTION = "3+4=7,7"


@dataclass(kw_only=True)
class Reach(Task):
    """Right from a completion of so many characters on, the hint's in a prompt counted."""

    least: int = 5
    answer: str = "7"
    reward_range: ClassVar[Any] = (0.0, 1.0)

    def problems(self, codec: Codec) -> Problems:
        made = [
            Prompt(
                id=str(i),
                tokens=codec.prompt(f"{i}="),
                text=f"{i}=",
                answer=self.answer,
                meta={"solution": SOLUTION},
            )
            for i in range(16)
        ]
        return Problems(train=made[:12], heldout=made[12:])

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        return Verdict(reward=float(len(text) >= self.least))


def run(least: int, *, updates: int = 1, answer: str = "7", **knobs: Any) -> tuple[Any, list[Any]]:
    """Rollouts say `9`, and repeat what stands before the comma of their prompt."""

    def say(request: Any) -> str:
        asked = make.CODEC.decode(request.tokens)
        return "9" + asked.rpartition(",")[0]

    plan = strategies.load("scaf_grpo", **{"group_size": 4, "column": "solution", **knobs})
    task, script = Reach(least=least, answer=answer), make.scripted(say)
    pipeline = make.pipeline(plan, task=task, prompts=3, script=script)
    return pipeline, [pipeline.next_batch() for _ in range(updates)]


def test_the_weakest_hint_that_helps_is_the_last_one() -> None:
    """7 characters: a quarter of them is 2, a half 4, three quarters 6."""
    pipeline, (batch,) = run(least=4)
    for group in batch.groups:
        shares = [r.notes.get("hint", 0.0) for r in group.rollouts]
        assert shares == [0, 0, 0, 0, 0.25, 0.5]
        assert group.raw_rewards_N.tolist() == [0, 0, 0, 0, 0, 1]
        assert group.kept_N.tolist() == [True, True, True, False, False, True]
        reasons = [s.rejected for s in group.signals]
        assert reasons == [None, None, None, "replaced", "hint", None]
    assert (
        batch.metrics["controls.scaffold/asked"] == batch.metrics["controls.scaffold/helped"] == 3
    )
    assert pipeline.tokens()["remainder"] == 0


def test_what_is_sampled_under_a_hint_is_trained_without_it() -> None:
    _, (batch,) = run(least=4)
    hinted = [s.rollout for s in batch.samples if "hint" in s.rollout.notes]
    assert len(hinted) == 3
    for rollout in hinted:
        told = make.CODEC.decode(rollout.sampled_under)
        assert told == f"{SOLUTION[:4]},{rollout.prompt.text}"
        assert rollout.mask_T.all() and rollout.text == "9" + SOLUTION[:4]


def test_a_hint_that_would_not_fit_is_not_given() -> None:
    """Prompts have 2 or 3 tokens, the shortest hint has 2 and a comma: 6 fit."""
    plan = strategies.load("scaf_grpo", group_size=4, column="solution")
    task, short = Reach(least=100), {"max_length": 46}
    pipeline = make.pipeline(plan, task=task, prompts=3, max_tokens=40, engine=short)
    batch = pipeline.next_batch()
    under = [r for g in batch.groups for r in g.rollouts if "hint" in r.notes]
    assert [r.notes["hint"] for r in under] == [0.25] * 3 and pipeline.tokens()["remainder"] == 0
    assert all(len(r.sampled_under) <= 6 for r in under)
    assert batch.metrics["generate/too_long"] == 3 * 2


def test_a_hint_that_looks_like_a_field_stands_as_it_is() -> None:
    told = filled("{hint},{prompt}", hint="{prompt}+{x}", prompt="1={hint}")
    assert told == "{prompt}+{x},1={hint}"


def test_a_hint_in_the_completion_is_its_beginning_and_out_of_the_loss() -> None:
    _, (batch,) = run(least=5, where="completion")
    hinted = [s for s in batch.samples if "hint" in s.rollout.notes]
    assert len(hinted) == 3
    for sample in hinted:
        rollout = sample.rollout
        num = int(np.ceil(rollout.notes["hint"] * len(SOLUTION)))
        assert rollout.text[:num] == SOLUTION[:num] and not rollout.sampled_under
        assert not rollout.mask_T[:num].any() and rollout.mask_T[num:].all()
        assert not sample.advantage_T[:num].any() and sample.advantage_T[num:].all()
    # Under a cap of four tokens hints of four and six leave no room to answer.
    cap = {"name": "length_schedule", "start": 0.1, "end": 0.1}
    _, (short,) = run(least=100, where="completion", controls={"cap": cap})
    assert short.metrics["generate/too_long"] == 3 * 2 and not short.metrics["rollouts/failed"]


def test_after_the_last_hint_the_group_goes_on_as_it_is() -> None:
    _, (batch,) = run(least=100, tiers=2, most=0.5)
    for group in batch.groups:
        assert [r.notes.get("hint", 0.0) for r in group.rollouts[4:]] == [0.25, 0.5]
        assert group.kept_N.tolist() == [True] * 4 + [False] * 2
    assert batch.metrics["controls.scaffold/helped"] == 0


@over(
    ("rewards", "step", "asks"),
    [
        ([0.0, 0.0], 5, True),
        ([0.0, 1.0], 5, False),
        ([None, 0.0], 5, True),
        ([None, None], 5, False),
        ([0.0, 0.0], 4, False),
    ],
)
def test_who_is_out_of_reach(rewards: list[float | None], step: int, asks: bool) -> None:
    action = Scaffold(begin=5, num=2).decide(make.group(rewards), view=make.view(step=step))
    assert (action is not None) == asks
    if action:
        assert action.num_samples == 2 and action.notes == {"hint": 0.25}


def test_hints_grow_in_equal_steps_up_to_the_largest() -> None:
    part, given = Scaffold(tiers=4, most=0.6), list[float]()
    rollouts = [make.rollout(0, reward=0.0)]
    while action := part.decide(make.group_of(rollouts), view=make.view()):
        given.append(action.notes["hint"])
        rollouts.append(make.rollout(len(given), reward=0.0, notes=action.notes))
    np.testing.assert_allclose(given, [0.15, 0.3, 0.45, 0.6])
    part.observe(Harvest(step=0, groups=(make.group_of(rollouts),), aborted=()), view=make.view())
    assert part.metrics() == {"asked": 1, "helped": 0}


def test_hints_end_though_nothing_comes_of_them() -> None:
    """As where a Watcher aborts whatever is begun under one: its group stays as it was."""
    part, group = Scaffold(tiers=2), make.group([0.0, 0.0])
    found = [part.decide(group, view=make.view()) for _ in range(4)]
    assert [f is not None for f in found] == [True, True, False, False]
    part.observe(Harvest(step=0, groups=(group,), aborted=()), view=make.view())
    assert not part.given


def test_what_groups_were_given_is_forgotten_with_them_cut_ones_too() -> None:
    """Twice the groups are begun; those that the batch has no room for are cut under a hint."""
    controls = {"oversample": {"name": "oversample", "factor": 2.0}}
    pipeline, batches = run(least=100, updates=2, controls=controls)
    part: Any = pipeline.strategy.controls["scaffold"]
    cut = [r for b in batches for r in b.aborted]
    assert any("hint" in r.notes for r in cut) and not part.given


def test_a_group_of_the_batch_behind_keeps_what_it_was_given() -> None:
    """Two batches are in the making where rollouts may be older than the policy."""
    part, group = Scaffold(tiers=1), make.group([0.0, 0.0])
    assert part.decide(group, view=make.view()) is not None
    part.observe(Harvest(step=0, groups=(), aborted=()), view=make.view())
    assert part.decide(group, view=make.view()) is None


def test_a_group_that_goes_on_from_an_earlier_batch_goes_on_with_the_next_hint() -> None:
    rollouts = [make.rollout(0, reward=0.0), make.rollout(1, reward=0.0, notes={"hint": 0.25})]
    action = Scaffold().decide(make.group_of(rollouts), view=make.view())
    assert action and action.notes == {"hint": 0.5}
    rollouts += [make.rollout(i, reward=0.0, notes={"hint": s}) for i, s in ((2, 0.5), (3, 0.75))]
    assert Scaffold().decide(make.group_of(rollouts), view=make.view()) is None


def test_no_hint_is_asked_for_in_a_group_that_is_replayed() -> None:
    """Its rewards may differ without one that is right; it teaches what it taught before."""
    group = make.group_of([make.rollout(i, reward=i / 4, origin="replay") for i in range(2)])
    assert Scaffold().decide(group, view=make.view()) is None


def test_a_recalled_rollout_is_none_that_was_hinted_now() -> None:
    """Its hint was an earlier group's: nothing makes way for it, and nothing was asked for it."""
    recalled = make.rollout(2, reward=1.0, notes={"hint": 0.5}, origin="replay")
    group = make.group_of([make.rollout(0, reward=0.0), make.rollout(1, reward=1.0), recalled])
    assert Scaffolded().apply(group, view=make.view()) == group
    told = make.rollout(1, reward=1.0, notes={"hint": 0.25})
    helped = make.group_of([make.rollout(0, reward=0.0), told, recalled])
    kept = Scaffolded().apply(helped, view=make.view()).kept_N
    assert kept.tolist() == [False, True, True]
    part = Scaffold()
    part.observe(Harvest(step=0, groups=(group,), aborted=()), view=make.view())
    assert part.metrics() == {"asked": 0, "helped": 0}


def test_groups_without_a_hint_stay_as_they_are() -> None:
    group = make.group([1.0, 0.0, None])
    assert Scaffolded().apply(group, view=make.view()) == group


def test_one_of_several_right_ones_stays() -> None:
    plain = [make.rollout(i, reward=0.0) for i in range(2)]
    told = [
        make.rollout(i, reward=r, notes={"hint": 0.5}) for i, r in ((2, 0.0), (3, 1.0), (4, 1.0))
    ]
    kept = Scaffolded().apply(make.group_of([*plain, *told]), view=make.view()).kept_N
    assert kept.tolist() == [True, False, False, True, False]


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"has no \{prompt\}: say where"):
        Hinted(template="{hint}")
    with pytest.raises(TaskError, match="no token for ' ' 'H'"):
        Hinted(template="Hint {hint} {prompt}").check(make.CODEC.encode)
    with pytest.raises(ConfigError, match=r"hinted\.column='plan': prompt '.*' has no such column"):
        run(least=9, column="plan")
    with pytest.raises(ConfigError, match=r"hinted\.column='answer': .* It has solution\.$"):
        run(least=9, column="answer", answer="")
    told = run(least=9, column="answer")[1][0].groups  # where there is one it is told
    assert all("hint" in group.rollouts[-1].notes for group in told)
    plain = strategies.load("scaf_grpo", generate={"name": "sample"})
    with pytest.raises(ConfigError, match=r"controls\.scaffold.*use `generate: {name: hinted}`"):
        plain.check()
    late = strategies.load("scaf_grpo")
    filters = dict(reversed(late.filters.items()))
    with pytest.raises(ConfigError, match=r"filters\.advantage makes advantages of the rewards"):
        replace(late, filters=filters).check()


@over(
    ("hinted", "reasons"),
    [
        ([1.0], [None, "replaced", None]),
        ([None], [None, None, "unscorable"]),
        (["gated"], [None, None, "length_gate"]),
        (["gated", 1.0], [None, "replaced", "length_gate", None]),
    ],
)
def test_a_plain_rollout_gives_way_to_one_that_is_trained(
    hinted: list[Any], reasons: list[str | None]
) -> None:
    plain = [make.rollout(i, reward=-1.0) for i in range(2)]
    told = [
        make.rollout(
            2 + i,
            reward=1.0 if reward == "gated" else reward,
            error="no verdict" if reward is None else None,
            notes={"hint": 0.5},
        )
        for i, reward in enumerate(hinted)
    ]
    gated = [2 + i for i, reward in enumerate(hinted) if reward == "gated"]
    group = make.group_of([*plain, *told]).reject_rollouts(gated, reason="length_gate")
    group = Scaffolded(threshold=0.0).apply(group, view=make.view())
    assert [s.rejected for s in group.signals] == reasons


def test_an_unscorable_rollout_has_not_helped() -> None:
    part = Scaffold(threshold=0.0)
    rollouts = [make.rollout(0, reward=-1.0), make.rollout(1, reward=None, notes={"hint": 0.5})]
    part.observe(Harvest(step=0, groups=(make.group_of(rollouts),), aborted=()), view=make.view())
    assert part.metrics() == {"asked": 1, "helped": 0}
