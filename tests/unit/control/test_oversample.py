import pytest

from gfcr.control.oversample import Oversample
from gfcr.errors import ConfigError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Plan
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from tests.cases import over


@over(("factor", "begun"), [(1.0, 8), (1.25, 10), (2.0, 16)])
def test_the_first_round_begins_factor_times_the_batch(factor: float, begun: int) -> None:
    plan = Oversample(factor=factor).plan(Plan(num_groups=8, target=8), view=make.view())
    assert plan.num_groups == begun


def test_groups_that_go_on_from_the_batch_before_count_as_begun() -> None:
    plan = Plan(num_groups=3, target=8, in_flight=5)
    assert Oversample(factor=2).plan(plan, view=make.view()).num_groups == 11


def test_later_rounds_and_larger_plans_are_left_alone() -> None:
    view = make.view()
    assert Oversample().plan(Plan(num_groups=30, target=8), view=view).num_groups == 30
    view.round = 1
    assert Oversample().plan(Plan(num_groups=0, target=8), view=view).num_groups == 0


def test_the_first_to_finish_are_trained_and_the_tail_is_cut() -> None:
    plan = Strategy(
        name="t",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"oversample": Oversample(factor=3)},
        group_size=2,
    )
    batch = make.pipeline(plan).next_batch()
    assert len(batch.accepted) == 8
    assert batch.metrics["controls.oversample/begun"] == 24
    assert batch.metrics["tokens/aborted"] == sum(len(r) for r in batch.aborted) > 0
    longest = [max(len(r) for r in g.rollouts) for g in batch.accepted]
    cut = {r.group_id: 0 for r in batch.aborted}
    for rollout in batch.aborted:
        cut[rollout.group_id] = max(cut[rollout.group_id], len(rollout))
    assert max(longest) <= min(cut.values())


def test_a_factor_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Oversample\.factor=0\.5"):
        Oversample(factor=0.5)


def test_a_whole_number_of_groups_is_not_rounded_up() -> None:
    plan = Oversample(factor=1.1).plan(Plan(num_groups=10, target=10), view=make.view())
    assert plan.num_groups == 11
