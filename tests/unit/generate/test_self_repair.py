"""Second tries: of which answers, under what prompt, and what is trained of them."""

from dataclasses import replace
from typing import Any

import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.generate.self_repair import SelfRepair
from gfcr.stages import Harvest
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import Prompt, Sampling
from tests.cases import over
from tests.loops import aborts


def ran(rates: tuple[float, ...] = (0.5,), **knobs: Any) -> tuple[Any, Any]:
    plan = strategies.load("self_repair", **{"group_size": 4, **knobs})
    pipeline = make.pipeline(plan, task=make.CoinTask(rates=rates), prompts=6)
    return pipeline, pipeline.next_batch()


def tries(group: Any) -> tuple[list[Any], dict[str, Any]]:
    """First tries, and further ones by the prompt they were made under."""
    first = [r for r in group.rollouts if "repair" not in r.notes]
    return first, {_under(r): r for r in group.rollouts if "repair" in r.notes}


def _under(rollout: Any) -> str:
    return make.CODEC.decode(rollout.sampled_under or rollout.prompt.tokens)


@over("train", ["repair", "plain"])
def test_wrong_answers_are_tried_again_with_the_answer_in_sight(train: Any) -> None:
    pipeline, batch = ran(train=train)
    seen = 0
    for group in batch.groups:
        first, again = tries(group)
        plain = group.prompt.text
        wrong = [r for r in first if not r.reward]
        assert {*again} == {f"{plain}{r.text}?{plain}" for r in wrong}
        assert len(group.rollouts) == 4 + len(wrong)
        for rollout in again.values():
            seen += 1
            assert (rollout.prompt.text == plain) == (train == "plain")
            assert rollout.mask_T.all()
    assert seen == batch.metrics["generate/tried"] > 0
    right = sum(r.reward == 1 for g in batch.groups for r in tries(g)[1].values())
    assert batch.metrics["generate/repaired"] == right
    assert pipeline.tokens()["remainder"] == 0


def test_each_try_sees_the_one_before_until_one_is_right() -> None:
    _, batch = ran(rates=(0.0,), repairs=3, group_size=2)
    for group in batch.groups:
        assert len(group.rollouts) == 8 == SelfRepair(repairs=3).rollouts(2)
        by_number = {
            n: [r for r in group.rollouts if r.notes.get("repair") == n] for n in (1, 2, 3)
        }
        assert [len(by_number[n]) for n in (1, 2, 3)] == [2, 2, 2]
        for number in (2, 3):
            told = {_under(r) for r in by_number[number]}
            plain = group.prompt.text
            assert told == {f"{plain}{r.text}?{plain}" for r in by_number[number - 1]}
    # One that was cut is no answer: nobody asks for a better one.
    plan = strategies.load("self_repair", repairs=3, group_size=2, generate={"when": "always"})
    cut = replace(plan, controls={"cut": aborts("0", "2")})  # a first try, and a first repair
    batch = make.pipeline(cut, prompts=2).next_batch()
    assert [[r.id[-1] for r in g.rollouts] for g in batch.groups] == [["1", "5", "6", "7"]] * 2


def test_where_all_is_right_nothing_is_repaired_unless_it_always_is() -> None:
    assert {len(g.rollouts) for g in ran(rates=(1.0,))[1].groups} == {4}
    assert {len(g.rollouts) for g in ran(rates=(1.0,), when="always")[1].groups} == {8}


def test_what_nobody_could_score_is_not_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    heldout = make.CoinTask().problems(make.CODEC).heldout[:3]

    def verify(_: make.CoinTask, prompt: Prompt, *, text: str) -> Verdict:
        down = prompt.id != heldout[0].id
        return Verdict(reward=None, error="down") if down else Verdict(reward=1.0)

    monkeypatch.setattr(make.CoinTask, "verify", verify)
    pipeline = make.pipeline(strategies.load("self_repair", group_size=4), prompts=3)
    groups = pipeline.evaluate(
        heldout, generate=SelfRepair(), num_samples=2, sampling=pipeline.sampling, label="e"
    )
    assert [len(g.rollouts) for g in groups] == [2, 2, 2]


def test_a_template_without_the_attempt_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"self_repair\.template='\{prompt\}' has no \{attempt\}"):
        SelfRepair(template="{prompt}")


def test_an_answer_too_long_to_be_shown_is_not_repaired() -> None:
    plan = strategies.load("self_repair", group_size=4)
    task = make.CoinTask(rates=(0.0,))
    pipeline = make.pipeline(plan, task=task, prompts=6, engine={"max_length": 50})
    batch = pipeline.next_batch()
    told = [r for g in batch.groups for r in g.rollouts if "repair" in r.notes]
    assert len(told) == batch.metrics["generate/tried"] == 24 - batch.metrics["generate/too_long"]
    assert 0 < len(told) < 24


def test_a_repair_that_nobody_could_score_is_not_right() -> None:
    part = SelfRepair(threshold=0.0)
    notes = {"repair": 1.0}
    rewards = enumerate([None, -1.0, 1.0])
    rollouts = [make.rollout(i, reward=r, notes=notes) for i, r in rewards]
    # One that is recalled was counted when it was made.
    group = make.group_of([*rollouts, make.rollout(3, notes=notes, origin="replay")])
    part.observe(Harvest(step=0, groups=(group,), aborted=()), view=make.view())
    assert part.metrics()["repaired"] == 1


def test_an_answer_is_looked_at_without_the_stop_that_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As its rollout is: what was right is not tried again."""

    def verify(_: make.CoinTask, prompt: Prompt, *, text: str) -> Verdict:
        return Verdict(reward=float(text == "7"))

    monkeypatch.setattr(make.CoinTask, "verify", verify)
    plan = strategies.load("self_repair", group_size=2)
    pipeline = make.pipeline(plan, script=make.scripted(lambda request: "7,"), prompts=2)
    pipeline.sampling = Sampling(max_tokens=8, stop=(",",))
    batch = pipeline.next_batch()
    assert [r.text for g in batch.groups for r in g.rollouts] == ["7"] * 4
    assert batch.metrics["generate/tried"] == 0
