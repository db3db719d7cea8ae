"""Pilot-Commit: what pilots decide, and what it costs."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.control.pilot_commit import PilotCommit
from gfcr.errors import BatchCannotFill, ConfigError
from gfcr.stages import Harvest, Retire, SampleMore
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over


def _group(right: int, *, number: int = 0, of: int = 16) -> Group:
    rewards = [1.0] * right + [0.0] * (of - right)
    return make.group(rewards, of=make.prompt(number), id=f"g{number}")


@over(
    ("right", "answer"),
    [
        (0, Retire(reason="too_hard")),
        (1, Retire(reason="too_hard")),
        (2, SampleMore(num_samples=48)),
        (12, SampleMore(num_samples=48)),
        (13, Retire(reason="too_easy")),
        (16, Retire(reason="too_easy")),
    ],
)
def test_the_band_holds_its_ends(right: int, answer: object) -> None:
    assert PilotCommit().decide(_group(right), view=make.view(group_size=16)) == answer


def test_no_more_groups_are_committed_than_the_batch_lacks() -> None:
    part, view = PilotCommit(), make.view(group_size=16, target=2)
    answers = [part.decide(_group(8, number=i), view=view) for i in range(3)]
    assert answers == [SampleMore(num_samples=48)] * 2 + [Retire(reason="surplus")]
    # One that came back and was turned down by a filter makes room for another.
    assert part.decide(_group(8, number=0, of=64), view=view) is None
    assert part.decide(_group(8, number=4), view=view) == SampleMore(num_samples=48)


def test_a_group_is_committed_to_once_even_if_all_that_is_added_is_cut() -> None:
    part, view = PilotCommit(), make.view(group_size=16)
    assert part.decide(_group(8), view=view) == SampleMore(num_samples=48)
    assert part.decide(_group(8), view=view) is None


def test_unscorable_pilots_are_no_failures() -> None:
    part, view = PilotCommit(), make.view(group_size=16)
    half = make.group([1.0] * 2 + [0.0] * 6 + [None] * 8)
    assert part.decide(half, view=view) == SampleMore(num_samples=48)
    assert part.decide(make.group([None] * 16, id="h"), view=view) is None


def test_deferred_prompts_come_again_and_skipped_ones_do_not() -> None:
    part = PilotCommit(patience=3)
    view = make.view(group_size=16, target=1)
    for number, right in enumerate((0, 8, 8, 16)):
        part.decide(_group(right, number=number), view=view)
    part.observe(Harvest(step=0, groups=(), aborted=()), view=view)
    assert part.metrics() == {
        **{"committed": 1.0, "surplus": 1.0, "too_easy": 1.0, "too_hard": 1.0},
        **{"again": 0.0, "waiting": 2.0},
    }

    def asked(step: int) -> list[str]:
        return [p.id for p in part.select(2, view=make.view(step=step))]

    assert not {"p0", "p1", "p2", "p3"} & {*asked(0)}
    assert asked(1)[0] == "p2" and "p0" not in asked(2)
    assert asked(3)[0] == "p0" and part.metrics()["waiting"] == 0


def test_a_prompt_that_is_asked_again_is_not_drawn_beside() -> None:
    part, view = PilotCommit(), make.view(step=1)
    (coming,) = view.draw(1)
    view.put_back([coming])
    part.waiting[coming.id] = (1, coming)
    chosen = [p.id for p in part.select(3, view=view)]
    assert chosen[0] == coming.id and len({*chosen}) == 3
    assert view.draw(1) == [coming], "the stream has it still"


def test_prompts_out_of_reach_are_half_of_the_candidates_at_most() -> None:
    part, view = PilotCommit(), make.view(group_size=16, target=1)
    for number, right in enumerate([0] * 20 + [8] * 3):
        part.decide(_group(right, number=number), view=view)
    chosen = [p.id for p in part.select(6, view=make.view(step=8))]
    assert chosen[:4] == ["p21", "p22", "p0", "p1"], "surplus first, then those longest too hard"
    assert all(name.startswith("c") for name in chosen[4:]), "the stream's"


def test_a_band_turned_round_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"pilot_commit\.hard=0\.9 exceeds"):
        PilotCommit(hard=0.9)


def _run(rates: tuple[float, ...], **knobs: Any) -> Any:
    task = make.CoinTask(rates=rates, num_train=240)
    return make.pipeline(strategies.load("pilot_commit", **knobs), task=task, prompts=8)


def test_batches_are_of_prompts_in_band_each_with_all_its_rollouts() -> None:
    run = _run((0.0, 0.4, 0.6, 1.0))
    batch = run.next_batch()
    trained = [g for g in batch.groups if g.rejected is None]
    assert len(trained) == 8 and {len(g.rollouts) for g in trained} == {32}
    assert all(0.125 <= g.raw_rewards_N[:8].mean() <= 0.75 for g in trained)
    assert {len(g.rollouts) for g in batch.groups if g.rejected} == {8}
    why = Counter(g.rejected for g in batch.groups)
    told = {
        k: batch.metrics[f"controls.pilot_commit/{k}"] for k in ("too_easy", "too_hard", "surplus")
    }
    assert told == {k: why[k] for k in told} and min(told.values()) > 0
    assert batch.metrics["controls.pilot_commit/committed"] == 8
    assert np.isfinite([s.advantage_T.sum() for s in batch.samples]).all()


def test_what_was_surplus_is_piloted_first_in_the_next_update() -> None:
    run = _run((0.4, 0.5))
    first = run.next_batch()
    surplus = {g.prompt.id for g in first.groups if g.rejected == "surplus"}
    second = run.next_batch()
    assert surplus and surplus <= {g.prompt.id for g in second.groups} | {
        r.prompt.id for r in second.aborted
    }
    assert second.metrics["controls.pilot_commit/again"] == len(surplus)


def test_where_none_is_in_band_rounds_are_bounded_and_said() -> None:
    with pytest.raises(BatchCannotFill, match="too_hard"):
        _run((0.0,), max_rounds=2).next_batch()
