"""VCRL's bank: priorities by hand, who enters and leaves, what a refill asks."""

from typing import Any

import numpy as np
import pytest

from gfcr.control.vcrl_bank import VcrlBank, priority
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Group
from tests import chosen
from tests.cases import over


def _group(number: int, rewards: list[float | None]) -> Group:
    return make.group(rewards, of=make.prompt(number))


def _observe(part: VcrlBank, *groups: Group, step: int = 0) -> None:
    part.observe(Harvest(step=step, groups=groups, aborted=()), view=make.view())


def _priorities(part: VcrlBank) -> dict[str, float]:
    return {prompt_id: banked.priority for prompt_id, banked in part.bank.items()}


@over("right", range(8))
@over("num", [7, 8])
def test_the_priority_is_the_variance_by_the_largest(right: int, num: int) -> None:
    rewards: list[float | None] = [1.0] * right + [0.0] * (num - right)
    largest = max(np.var([1.0] * k + [0.0] * (num - k), ddof=1) for k in range(num))
    expected = np.var(np.array(rewards, float), ddof=1) / largest
    assert priority(_group(0, rewards)) == pytest.approx(expected)


def test_unscorable_rollouts_do_not_count() -> None:
    assert priority(_group(0, [1.0, None, 0.0])) == 1
    assert priority(_group(0, [None])) == 0


def test_waiting_prompts_rise_by_the_momentum() -> None:
    part = VcrlBank(momentum=0.9)
    _observe(part, _group(0, [1.0, 0.0]), step=3)
    assert _priorities(part) == {"p0": 1.0}
    _observe(part, step=4)
    assert _priorities(part) == {"p0": pytest.approx(0.9 * 1.0 + 0.1 * 1)}
    _observe(part, step=5)
    assert _priorities(part) == {"p0": pytest.approx(0.9 * 1.0 + 0.1 * 2)}
    _observe(part, _group(0, [1.0, 0.0, 0.0, 0.0]), step=6)
    assert _priorities(part) == {"p0": 0.75}


def test_rejected_groups_do_not_enter_and_leave_when_asked_again() -> None:
    part = VcrlBank()
    _observe(part, _group(0, [1.0, 0.0]), _group(1, [0.0, 0.0]).reject("reward_variance"))
    assert [*part.bank] == ["p0"]
    _observe(part, _group(0, [1.0, 1.0]).reject("reward_variance"), step=1)
    assert not part.bank


def test_the_lowest_priority_is_forgotten_first() -> None:
    part = VcrlBank(capacity=2)
    _observe(part, _group(0, [1.0, 0.0, 0.0, 0.0]), _group(1, [1.0, 0.0]), _group(2, [0.5, 0.0]))
    assert [*part.bank] == ["p1", "p0"]


def _banked() -> tuple[VcrlBank, Any]:
    part, view = VcrlBank(), make.view(task=make.CoinTask(num_train=20))
    drawn = view.draw(4)
    groups = [make.group([1.0] + [0.0] * i, of=p) for i, p in enumerate(drawn, start=1)]
    part.observe(Harvest(step=0, groups=tuple(groups), aborted=()), view=view)
    return part, view


def test_a_batch_begins_from_the_stream_and_is_refilled_from_the_bank() -> None:
    part, view = _banked()
    best = [*part.bank]
    assert [p.id for p in part.select(3, view=view)] == [
        p.id for p in make.view(task=make.CoinTask(num_train=20)).draw(7)[4:]
    ]
    view.round = 1
    assert [p.id for p in part.select(2, view=view)] == best[:2]
    view.round = 2
    last = [p.id for p in part.select(4, view=view)]
    assert last[:2] == best[2:] and not set(last[2:]) & set(best)
    assert part.metrics() == {"refilled": 4.0, "banked": 4.0}


def test_a_prompt_in_the_batch_is_not_asked_twice() -> None:
    part, view = _banked()
    best = part.bank[next(iter(part.bank))].prompt
    view.round, view.groups = 1, [make.group([0.0], of=best).reject("reward_variance")]
    assert best.id not in {p.id for p in part.select(3, view=view)}


def test_in_a_run_what_was_rejected_is_replaced_by_what_was_trained_before() -> None:
    _, batches = chosen.run("vcrl", updates=6)
    trained: set[str] = set()
    for batch in batches:
        asked = [g.prompt.id for g in batch.groups]
        refilled = [prompt_id for prompt_id in asked[7:] if prompt_id in trained]
        assert len(refilled) == batch.metrics["controls.vcrl_bank/refilled"]
        trained |= {g.prompt.id for g in batch.accepted}
    assert refilled and all(g.values["reward_variance"] > 0.29 for g in batches[-1].accepted)
    plain = chosen.distance(chosen.run("grpo", updates=6)[1])
    assert chosen.distance(batches, accepted=True) < 0.6 * plain


def test_resume_goes_on_with_the_same_choices() -> None:
    assert chosen.same_after_resume("vcrl", before=3, after=2)


def test_its_memory_survives() -> None:
    part, _ = _banked()
    other = VcrlBank()
    other.load_state_dict(part.state_dict())
    assert other.bank == part.bank and other.metrics() == part.metrics()
