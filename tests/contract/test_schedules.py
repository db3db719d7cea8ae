"""What every strategy must do under a schedule that makes batches ahead of the trainer."""

from typing import Any

import pytest

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.schedule.ahead import Ahead
from gfcr.schedule.base import Schedule
from gfcr.schedule.lag import Lag
from gfcr.testing import factories as make
from tests.schedules import Work, ages, closed, trained

ASYNC: Any = registry.find("schedule", "async")
BOUND = 2


@pytest.mark.whole  # one of each kind of strategy is tried in tests/unit/schedule
@pytest.mark.parametrize("name", strategies.names())
def test_a_strategy_learns_from_what_was_made_ahead(name: str) -> None:
    for schedule, beside in ((Lag(updates=BOUND), False), (ASYNC(staleness=BOUND), True)):
        _runs_two_updates(name, schedule=schedule, beside=beside)


def _runs_two_updates(name: str, *, schedule: Schedule, beside: bool) -> None:
    task = make.CoinTask(rates=(0.4, 0.6))
    made = Work(make.pipeline(strategies.load(name), task=task, prompts=3, seed=3))
    with Ahead(made, schedule=schedule, last=2, beside=beside) as run:
        batches = trained(run)
    assert [batch.step for batch in batches] == [0, 1]
    assert closed(made), made.pipeline.tokens()
    assert min(own := ages(batches)) >= 0 and max(own) <= BOUND
