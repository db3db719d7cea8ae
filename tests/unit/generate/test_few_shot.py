"""Examples of the run before a prompt that nothing answered, and what is trained of it."""

from dataclasses import replace
from typing import Any

import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.generate.few_shot import FewShot
from gfcr.stages import Harvest
from gfcr.tasks.base import Codec, Problems
from gfcr.testing import factories as make


def remembered(*rewards: float | None, threshold: float = 0.5, **changes: Any) -> list[str]:
    part = FewShot(capacity=3, threshold=threshold)
    group = make.group_of([make.rollout(i, reward=r, **changes) for i, r in enumerate(rewards)])
    for _ in range(2):
        part.observe(Harvest(step=0, groups=(group,), aborted=()), view=make.view())
    return [r.id for r in part.solved]


def test_right_answers_are_remembered_the_newest_of_them() -> None:
    assert remembered(0.0, 1.0, None, 0.6) == ["g/3", "g/1", "g/3"]
    assert remembered(-1.0, 1.0, None, threshold=0.0) == ["g/1", "g/1"]
    assert remembered(1.0, origin="replay") == remembered(1.0, sampled_under=(1, 2)) == []


def ran(updates: int = 6) -> tuple[Any, list[Any]]:
    task = make.CoinTask(rates=(0.02, 0.9), num_train=12)
    pipeline = make.pipeline(strategies.load("few_shot", group_size=3), task=task, prompts=6)
    return pipeline, [pipeline.next_batch() for _ in range(updates)]


def test_prompts_that_nothing_answered_are_asked_behind_solved_others() -> None:
    pipeline, batches = ran()
    told = [r for b in batches for g in b.groups for r in g.rollouts if r.sampled_under]
    assert told and batches[-1].metrics["generate/seeded"] == len(told)
    answers = {
        f"{r.prompt.text}{r.text},"
        for b in batches
        for g in b.groups
        for r in g.rollouts
        if r.reward
    }
    for rollout in told:
        text = make.CODEC.decode(rollout.sampled_under)
        assert text.endswith(rollout.prompt.text) and rollout.notes["examples"] == 2
        seeds = text.removesuffix(rollout.prompt.text)
        assert any(seeds.startswith(one) and seeds[len(one) :] in answers for one in answers)
    for group in (g for b in batches for g in b.groups):
        plain = [r.reward for r in group.rollouts if "hint" not in r.notes]
        assert len(plain) == 3 and (len(group.rollouts) == 3) == (max(plain) == 1)
        assert len(group.rollouts) in (3, 5)
        assert group.kept_N.sum() == 3
    assert pipeline.tokens()["remainder"] == 0


class Again(make.CoinTask):
    """Each question is there again, with another answer, that is found more often."""

    def problems(self, codec: Codec) -> Problems:
        found = super().problems(codec)
        easy = {"rate": 0.95}
        more = [replace(p, id=f"{p.id}/8", answer="8", meta=easy) for p in found.train]
        return replace(found, train=[*found.train, *more])


def test_before_anything_is_solved_it_is_asked_plainly_and_once() -> None:
    twice = Again(rates=(0.02,), num_train=3)
    plan = strategies.load("few_shot", group_size=3, examples=1)
    pipeline = make.pipeline(plan, task=twice, prompts=6)
    for group in (g for _ in range(6) for g in pipeline.next_batch().groups):
        for rollout in (r for r in group.rollouts if r.sampled_under):
            text = make.CODEC.decode(rollout.sampled_under)
            assert not text.startswith(rollout.prompt.text), "an example of what is asked"
    task = make.CoinTask(rates=(0.0,))
    batch = make.pipeline(strategies.load("few_shot", group_size=3), task=task).next_batch()
    for group in batch.groups:
        assert [r.notes.get("examples") for r in group.rollouts] == [None] * 3 + [0, 0]
        assert not any(r.sampled_under for r in group.rollouts)


def test_an_example_without_its_answer_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"few_shot\.example='\{prompt\}' has no \{answer\}"):
        FewShot(example="{prompt}")


def test_fewer_examples_are_shown_where_more_would_not_fit_the_engine() -> None:
    task = make.CoinTask(rates=(0.02, 0.9), num_train=12)
    plan = strategies.load("few_shot", group_size=3)
    pipeline = make.pipeline(plan, task=task, prompts=6, engine={"max_length": 64})
    batches = [pipeline.next_batch() for _ in range(6)]
    told = [r for b in batches for g in b.groups for r in g.rollouts if "examples" in r.notes]
    assert {r.notes["examples"] for r in told} >= {0, 1}, "some fit, some do not"
    assert all(len(r.sampled_under) <= 64 - 40 for r in told)
