from typing import Any, Literal

import pytest

from gfcr.control.refill import Refill
from gfcr.errors import BatchCannotFill, ConfigError
from gfcr.stages import Plan
from gfcr.testing import factories as make
from tests.cases import over


def _view(*, accepted: int, begun: int, round: int) -> Any:
    view = make.view(target=8)
    view.round, view.num_accepted = round, accepted
    view.groups = [make.group([0.0]).reject("zero_variance")] * begun
    return view


def _later() -> Plan:
    return Plan(num_groups=0, target=8)


@over(("oversample", "missing", "begun"), [(1.0, 3, 3), (1.5, 3, 5), (3.0, 1, 3)])
def test_a_round_begins_what_is_missing_times_oversample(
    oversample: float, missing: int, begun: int
) -> None:
    view = _view(accepted=8 - missing, begun=8, round=1)
    assert Refill(oversample=oversample).plan(_later(), view=view).num_groups == begun


def test_a_round_is_judged_as_a_whole() -> None:
    waiting = Plan(num_groups=0, target=8, in_flight=2, missing=3)
    plan = Refill(max_rounds=1).plan(waiting, view=_view(accepted=3, begun=8, round=1))
    assert plan is waiting


def test_it_never_takes_groups_away_from_an_earlier_plan() -> None:
    plan = Plan(num_groups=20, target=8)
    assert Refill().plan(plan, view=_view(accepted=0, begun=0, round=0)).num_groups == 20


@over("when_spent", ["error", "short"])
def test_an_empty_batch_is_an_error_once_the_batches_are_spent(
    when_spent: Literal["error", "short"],
) -> None:
    part = Refill(max_rounds=2, when_spent=when_spent)
    with pytest.raises(BatchCannotFill, match=r"0 of 8 .*max_rounds=2.*zero_variance"):
        part.plan(_later(), view=_view(accepted=0, begun=16, round=2))


def test_what_was_rejected_is_counted_by_reason() -> None:
    view = _view(accepted=1, begun=0, round=2)
    reasons = ["odd", None, "even", "even"] * 4
    view.groups = [make.group([0.0], rejected=reason) for reason in reasons]
    with pytest.raises(BatchCannotFill, match=r"1 of 8 .* 16 groups .* rejected: 8 even, 4 odd\."):
        Refill(max_rounds=2).plan(_later(), view=view)


def test_short_ends_the_batch_with_what_it_has() -> None:
    part = Refill(max_rounds=2, when_spent="short")
    assert part.plan(_later(), view=_view(accepted=3, begun=16, round=2)).num_groups == 0


def test_small_rounds_count_for_their_share_of_a_batch() -> None:
    part = Refill(max_rounds=2)
    last = Refill(max_rounds=2, oversample=3.0).plan(
        _later(), view=_view(accepted=5, begun=14, round=9)
    )
    assert last.num_groups == 2, "no more than two batches' worth in all"
    late = part.plan(_later(), view=_view(accepted=7, begun=15, round=9))
    assert late.num_groups == 1 and part.metrics() == {"rounds": 10.0, "batches": 2.0}
    with pytest.raises(BatchCannotFill, match=r"^update 1: 7 of 8 .* after 16 groups in all"):
        part.plan(_later(), view=_view(accepted=7, begun=16, round=10))


def test_its_memory_survives() -> None:
    part = Refill()
    part.plan(_later(), view=_view(accepted=1, begun=8, round=1))
    other = Refill()
    other.load_state_dict(part.state_dict())
    assert other.metrics() == part.metrics() == {"rounds": 2.0, "batches": 15 / 8}


@over("bad", [{"max_rounds": 0}, {"oversample": 0.5}])
def test_bounds_below_one_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        Refill(**bad)
