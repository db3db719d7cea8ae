"""Plans, generated once, and the answers to them."""

from collections import defaultdict
from typing import Any

import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.generate.plan_then_act import PlanThenAct
from gfcr.testing import factories as make
from gfcr.types import Rollout, RolloutBatch

COMMA, MARK = make.CODEC.encode(",?")


def run(**generate: Any) -> tuple[RolloutBatch, dict[str, int]]:
    plan = strategies.load("plan_then_act", group_size=5, answers=2, act="?", generate=generate)
    pipeline = make.pipeline(plan, prompts=6)
    return pipeline.next_batch(), pipeline.tokens()


def by_plan(rollouts: tuple[Rollout, ...]) -> dict[float, list[Rollout]]:
    found: dict[float, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        found[rollout.notes["plan"]].append(rollout)
    return found


def test_answers_share_a_plan_that_was_generated_once() -> None:
    batch, tokens = run(plan_tokens=12)
    generated, ended, shared, plans = 0, 0, 0, 0
    for group in batch.groups:
        whole = tuple(r for r in group.rollouts if "plan" in r.notes)
        ended += len(group.rollouts) - len(whole)
        generated += sum(len(r) for r in group.rollouts if "plan" not in r.notes)
        assert len(group.rollouts) == 5, "whatever ends early"
        for number, rollouts in by_plan(whole).items():
            plans += 1
            assert len(rollouts) == (1 if number == 2 else 2), "five samples: two, two, one"
            num = int(rollouts[0].notes["planned"])
            assert len({tuple(r.tokens_T[: num + 1].tolist()) for r in rollouts}) == 1
            (plan, *rest) = rollouts[0].tokens_T[:num].tolist()[::-1]
            assert (plan == COMMA or num == 12) and COMMA not in rest
            generated += num + sum(len(r) - num - 1 for r in rollouts)
            for rollout in rollouts:
                assert rollout.tokens_T[num] == MARK
                assert rollout.mask_T.tolist() == [i != num for i in range(len(rollout))]
                assert rollout.parent in (None, rollouts[0].id)
            shared += len({r.tokens_T.tobytes() for r in rollouts}) == 2
    assert tokens["generated"] == generated and tokens["remainder"] == 0
    assert shared > 2 and batch.metrics["generate/unplanned"] == ended > 0
    assert batch.metrics["generate/plans"] == plans < 18
    assert 0 < batch.metrics["generate/cut"] < plans
    # What has no room for `act` behind its plan is no answer to it, and samples none.
    script = make.scripted(lambda request: "12,1234")
    for most in range(3, 8):
        plan = strategies.load("plan_then_act", group_size=4, answers=2, act="???")
        batch = make.pipeline(plan, script=script, max_tokens=most).next_batch()
        texts = {r.text for g in batch.groups for r in g.rollouts}
        assert texts == {"12," if most < 6 else "12,???12,1234"[:most]}


def test_plans_are_asked_for_by_their_template_and_trained_under_it() -> None:
    batch, _ = run(template="{prompt}+{prompt}")
    for group in batch.groups:
        text = f"{group.prompt.text}+{group.prompt.text}"
        assert {r.prompt.text for r in group.rollouts} == {text} != {group.prompt.text}
        assert not any(r.sampled_under for r in group.rollouts)
    plain, _ = run()
    assert all(r.prompt is g.prompt for g in plain.groups for r in g.rollouts)


def test_what_asks_for_no_plan_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"plan_then_act\.template='plan' has no \{prompt\}"):
        PlanThenAct(template="plan")
    with pytest.raises(ConfigError, match=r"plan_then_act\.ends=''"):
        PlanThenAct(ends="")


def test_what_is_not_trained_is_refused_where_a_rollout_has_one_ratio() -> None:
    rloo = {"estimator": "rloo"}
    strategies.load("plan_then_act", loss=rloo).check()
    for name, knobs in (("plan_then_act", {"act": "#"}), ("prefix_restart", {})):
        with pytest.raises(ConfigError, match=r"generate: it tells the tokens of a rollout apart"):
            strategies.load(name, **knobs, loss=rloo).check()


def test_where_a_plan_cannot_be_asked_for_answers_are_sampled_without() -> None:
    parts = {"name": "plan_then_act", "template": "{prompt}" + "+" * 40}
    plan = strategies.load("grpo", group_size=4, generate=parts)
    pipeline = make.pipeline(plan, prompts=3, max_tokens=20, engine={"max_length": 50})
    batch = pipeline.next_batch()
    assert batch.metrics["generate/unplanned"] == 12 == sum(len(g.rollouts) for g in batch.groups)
    assert all(r.prompt is g.prompt for g in batch.groups for r in g.rollouts)
