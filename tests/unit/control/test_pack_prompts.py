"""CPPO's allocation of prompts: once a batch, whatever else is in the making."""

from typing import Any

from gfcr.control.pack_prompts import PackPrompts
from gfcr.stages import Plan
from gfcr.testing import factories as make


def planned(part: PackPrompts, plan: Plan, view: Any) -> tuple[int, int]:
    made = part.plan(plan, view=view)
    return made.target, made.num_groups


def test_an_update_is_filled_with_more_prompts() -> None:
    view = make.view()
    assert planned(PackPrompts(prune=0.75), Plan(num_groups=4, target=4), view) == (16, 16)


def test_a_refill_raises_nothing_again_though_another_batch_was_begun_since() -> None:
    part, first, second = PackPrompts(), make.view(step=0), make.view(step=1)
    for view in (first, second):
        assert planned(part, Plan(num_groups=4, target=4), view) == (8, 8)
        view.round = 1
    for view in (first, second):
        assert planned(part, Plan(num_groups=0, target=8, missing=1), view) == (8, 0)
