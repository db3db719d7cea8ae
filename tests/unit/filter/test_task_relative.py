"""TRR++: each role and kind has mean 0 and deviation 1 of its own."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.filter.task_relative import TaskRelative
from gfcr.testing import factories as make
from gfcr.types import Group

CELLS = [(role, kind) for role in ("propose", "solve") for kind in ("a", "b", "c")]
REWARDS = st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=3)


def group(cell: tuple[str, str], rewards: list[float]) -> Group:
    prompt = replace(make.prompt(), meta=dict(zip(("role", "kind"), cell, strict=True)))
    return TaskRelative().apply(make.group(rewards, of=prompt), view=make.view())


@given(st.lists(st.tuples(st.sampled_from(CELLS), REWARDS), min_size=1, max_size=12))
def test_every_cell_is_normalised_by_itself(
    batch: list[tuple[tuple[str, str], list[float]]],
) -> None:
    part = TaskRelative(epsilon=1e-6)
    made = part.map_batch([group(*each) for each in batch], view=make.view())
    assert [g.rewards_N.tolist() for g in made] == [rewards for _, rewards in batch]
    for cell in CELLS:
        which = [i for i, (own, _) in enumerate(batch) if own == cell]
        rewards = np.array([r for i in which for r in batch[i][1]])
        given = np.array([float(s.advantage or 0) for i in which for s in made[i].signals])
        if not which:
            continue
        assert part.metrics()[f"mean/{'/'.join(cell)}"] == pytest.approx(rewards.mean(), abs=1e-6)
        if len(rewards) == 1 or np.ptp(rewards) <= 1e-6:
            assert given == pytest.approx(0, abs=1.1)
        if np.ptp(rewards) > 1e-3:
            wanted = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
            assert given == pytest.approx(wanted, rel=1e-3, abs=1e-4)


def test_a_cell_is_not_moved_by_the_rewards_of_another() -> None:
    one, other = group(CELLS[0], [0.0, 1.0]), group(CELLS[4], [-9.0, 5.0, 5.0])
    part, view = TaskRelative(), make.view()
    alone = part.map_batch([one], view=view)[0].signals
    assert part.map_batch([other, one], view=view)[1].signals == alone


def test_rejected_rollouts_count_for_nothing() -> None:
    rejected = group(CELLS[0], [0.0, 1.0, 100.0]).reject_rollouts([2], reason="x")
    made = TaskRelative().map_batch([rejected], view=make.view())[0]
    assert [s.advantage for s in made.signals[:2]] == pytest.approx([-0.7071, 0.7071], abs=1e-3)
