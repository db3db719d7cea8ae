"""A filter that rejects nine of ten groups: refilled within the budget, or stopped with counts."""

import re
from dataclasses import dataclass
from typing import final

import pytest

from gfcr.control.refill import Refill
from gfcr.errors import BatchCannotFill
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.pipeline import Pipeline
from gfcr.stages import Control, Filter, View
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import Group, RolloutBatch
from tests.cases import over


@final
@dataclass(kw_only=True)
class NineOfTen(Filter):
    """Rejects nine of ten groups for one of two reasons."""

    def apply(self, group: Group, *, view: View) -> Group:
        drawn = view.rng("nine_of_ten", group.id).random()
        return group.reject("odd" if drawn < 0.45 else "even") if drawn < 0.9 else group


def pipeline(num_train: int, **controls: Control) -> Pipeline:
    filters: dict[str, Filter] = {"nine": NineOfTen(), "map": GroupAdvantage(kind="grpo")}
    plan = Strategy(
        name="sparse", generate=Sample(), filters=filters, controls=controls, group_size=4
    )
    task = make.CoinTask(rates=(0.5,), num_train=num_train)
    return make.pipeline(plan, task=task, prompts=8, seed=1)


def batch(run: Pipeline) -> RolloutBatch:
    run.sync((), version=run.step)
    made = run.next_batch()
    bins = run.ledger.bins()
    assert run.engine.stats().generated_tokens == sum(bins.values())
    return made


@pytest.mark.slow
def test_with_rounds_enough_the_batch_is_full_of_different_prompts() -> None:
    run = pipeline(400, refill=Refill(max_rounds=200))
    for _ in range(3):
        made = batch(run)
        assert len(made.accepted) == 8 and made.metrics["group/repeated"] == 0
        assert len({s.rollout.id for s in made.samples}) == len(made.samples) == 32


def test_spent_rounds_stop_the_run_and_count_by_reason() -> None:
    with pytest.raises(BatchCannotFill) as caught:
        batch(pipeline(400, refill=Refill(max_rounds=3)))
    words = str(caught.value)
    found = re.search(r"(\d+) of 8 groups .* (\d+) groups in all.*; rejected: (.*?)\.", words)
    assert found
    counts = [int(n) for n in re.findall(r"(\d+) (?:odd|even)", found[3])]
    assert len(counts) == 2 and sum(counts) == int(found[2]) - int(found[1])


@over("controls", [{}, {"refill": Refill(max_rounds=2, when_spent="short")}])
def test_a_batch_trained_short_says_so(controls: dict[str, Control]) -> None:
    made = batch(pipeline(400, **controls))
    assert 0 < len(made.accepted) < 8 and made.metrics["group/accepted"] == len(made.accepted)
    rejected = {k: v for k, v in made.metrics.items() if k.startswith("rejected/")}
    assert sum(rejected.values()) == 4 * (len(made.groups) - len(made.accepted))
