"""Group sizes over a run."""

import numpy as np

from gfcr import strategy as strategies
from gfcr.control.group_schedule import GroupSchedule
from gfcr.stages import Job
from gfcr.testing import factories as make
from tests.cases import over


@over(
    ("first", "last", "sizes"),
    [(4, 16, [4, 7, 10, 13, 16, 16]), (8, 2, [8, 6, 5, 4, 2, 2]), (3, 3, [3] * 6)],
)
def test_sizes_go_linearly_and_then_stay(first: int, last: int, sizes: list[int]) -> None:
    part, found = GroupSchedule(first=first, last=last, updates=4), list[int]()
    for step in range(6):
        view = make.view(step=step)
        (job,) = part.allocate([view.job(make.prompt())], view=view)
        found.append(job.num_samples)
    assert found == sizes and part.metrics() == {"size": float(last)}


def test_resumed_groups_are_left_as_they_are() -> None:
    view = make.view()
    job = Job(prompt=make.prompt(), num_samples=3, sampling=view.sampling, resume=(make.rollout(),))
    assert GroupSchedule().allocate([job], view=view) == [job]


def test_updates_have_groups_of_their_size_and_advantages_to_match() -> None:
    schedule = {"schedule": {"name": "group_schedule", "first": 2, "last": 6, "updates": 2}}
    run = make.pipeline(strategies.load("dr_grpo", controls=schedule))
    for size in (2, 4, 6, 6):
        batch = run.next_batch()
        assert {len(g.rollouts) for g in batch.groups} == {size}
        for group in batch.groups:
            got = np.array([s.advantage for s in group.signals], np.float64)
            mean = group.raw_rewards_N.mean()
            np.testing.assert_allclose(got, group.raw_rewards_N - mean, atol=1e-6)
