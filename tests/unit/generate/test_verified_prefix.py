"""Restarts behind what was right before."""

from typing import Any

import numpy as np

from gfcr import strategy as strategies
from gfcr.generate.verified_prefix import VerifiedPrefix
from gfcr.stages import Harvest
from gfcr.testing import factories as make


def remembered(part: VerifiedPrefix) -> dict[str, list[str]]:
    return {prompt: [r.id for r in kept] for prompt, kept in part.solved.items()}


def test_the_newest_right_answers_of_a_prompt_are_kept() -> None:
    part = VerifiedPrefix(capacity=2, max_prompts=1)
    rewards = (1.0, 0.0, None, 0.6, 1.0)
    rollouts = [make.rollout(i, reward=r) for i, r in enumerate(rewards)]
    behind = make.rollout(6, notes={"hint": 0.5}, mask_T=np.arange(4) > 1)
    rollouts += [make.rollout(5, origin="replay"), behind]
    part.observe(Harvest(step=0, groups=(make.group_of(rollouts),), aborted=()), view=make.view())
    assert list(remembered(part).values()) == [["g/3", "g/4"]]
    other = make.group_of([make.rollout(7, of=make.prompt("b"))])
    part.observe(Harvest(step=1, groups=(other,), aborted=()), view=make.view())
    assert list(remembered(part).values()) == [["g/7"]], "the prompt solved longest ago goes"
    first = make.group_of([make.rollout(8, of=make.prompt("c"), notes={"hint": 0.5})])
    part.observe(Harvest(step=2, groups=(first,), aborted=()), view=make.view())
    assert list(remembered(part).values()) == [["g/8"]], "a hint was asked for, and none known"


def ran(updates: int = 8, **changes: Any) -> tuple[Any, list[Any]]:
    task = make.CoinTask(rates=(0.2,), num_train=6)
    plan = strategies.load("prefix_restart", group_size=3, **changes)
    pipeline = make.pipeline(plan, task=task, prompts=6)
    return pipeline, [pipeline.next_batch() for _ in range(updates)]


def test_groups_all_wrong_go_on_from_the_beginning_of_a_right_answer() -> None:
    pipeline, batches = ran()
    right: dict[str, list[list[int]]] = {}
    seen = 0
    for batch in batches:
        for group in batch.groups:
            asked = [r for r in group.rollouts if "hint" in r.notes]
            plain = [r for r in group.rollouts if "hint" not in r.notes]
            assert bool(asked) == (max(r.reward for r in plain) == 0)
            for rollout in asked:
                taken = int((~rollout.mask_T).sum())
                assert not rollout.mask_T[:taken].any() and rollout.mask_T[taken:].all()
                known = right.get(group.prompt.id, [])
                assert taken or not known or min(map(len, known)) == 1
                if taken:
                    seen += 1
                    prefix = rollout.tokens_T[:taken].tolist()
                    share = rollout.notes["hint"]
                    fits = [k for k in known if k[:taken] == prefix]
                    assert any(taken == min(-int(-share * len(k) // 1), len(k) - 1) for k in fits)
        for r in (r for g in batch.groups for r in g.rollouts):
            if r.reward == 1 and r.mask_T.all():
                right.setdefault(r.prompt.id, []).append(r.tokens_T.tolist())
    assert seen == batches[-1].metrics["generate/restarted"] > 3
    assert pipeline.tokens()["remainder"] == 0
    # Under a cap that falls below what was right before, something is left to sample.
    cap = {"name": "length_schedule", "start": 1.0, "end": 0.1, "updates": 4}
    _, batches = ran(updates=10, controls={"cap": cap})
    assert batches[-1].metrics["generate/restarted"] > 3
    assert not any(b.metrics["rollouts/failed"] for b in batches)


def test_a_prompt_that_was_never_solved_is_asked_plainly() -> None:
    plan = strategies.load("prefix_restart", group_size=3)
    batch = make.pipeline(plan, task=make.CoinTask(rates=(0.0,))).next_batch()
    assert batch.metrics["generate/restarted"] == 0
    told = [r for g in batch.groups for r in g.rollouts if "hint" in r.notes]
    assert told and all(r.mask_T.all() for r in told)
