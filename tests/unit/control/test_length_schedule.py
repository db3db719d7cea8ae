"""The cap moves as the schedule says, within the run's, and is what rollouts stop at."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.length_schedule import LengthSchedule
from gfcr.errors import ConfigError
from gfcr.testing import factories as make
from gfcr.types import FinishReason
from tests.cases import over

shares = st.floats(0.01, 1.0)


@given(start=shares, end=shares, updates=st.integers(1, 60), jumps=st.integers(1, 9))
def test_it_goes_from_start_to_end_and_stays(
    start: float, end: float, updates: int, jumps: int
) -> None:
    for shape in ("linear", "step"):
        part = LengthSchedule(start=start, end=end, updates=updates, jumps=jumps, shape=shape)
        seen = [part.share(update) for update in range(updates + 3)]
        assert seen[0] == pytest.approx(start) and seen[-3:] == pytest.approx([end] * 3)
        assert seen == sorted(seen, reverse=end < start)


@given(updates=st.integers(1, 60), jumps=st.integers(1, 9))
def test_a_step_schedule_has_as_many_jumps(updates: int, jumps: int) -> None:
    part = LengthSchedule(start=0.1, end=1.0, updates=updates, jumps=jumps, shape="step")
    seen = [part.share(update) for update in range(updates + 1)]
    levels = {round(share, 9) for share in seen}
    assert len(levels) == min(jumps, updates) + 1
    if updates % jumps == 0:
        assert levels == {round(0.1 + 0.9 * i / jumps, 9) for i in range(jumps + 1)}
        assert seen.index(seen[-1]) == updates


def test_three_stages_double_and_triple_the_first() -> None:
    part = LengthSchedule(start=1 / 3, end=1.0, updates=200, jumps=2, shape="step")
    caps: list[float] = []
    for step in (0, 99, 100, 199, 200, 1000):
        view = make.view(step=step, max_tokens=24)
        (job,) = part.allocate([view.job(make.prompt())], view=view)
        caps.append(job.sampling.max_tokens)
        assert part.metrics() == {"cap": caps[-1]}
    assert caps == [8, 8, 16, 16, 24, 24]


def test_a_tighter_cap_of_a_job_stays() -> None:
    view = make.view(max_tokens=5)
    job = view.job(make.prompt())
    (capped,) = LengthSchedule(start=1.0).allocate([job], view=make.view(max_tokens=50))
    assert capped.sampling.max_tokens == 5


def test_no_cap_is_below_one_token() -> None:
    view = make.view(max_tokens=3)
    (job,) = LengthSchedule(start=0.01).allocate([view.job(make.prompt())], view=view)
    assert job.sampling.max_tokens == 1


def test_rollouts_stop_at_the_cap_of_their_update_and_sample_the_same_until_then() -> None:
    def longest(**knobs: Any) -> list[list[Any]]:
        plan = strategies.load("length_schedule", updates=2, shape="linear", **knobs)
        pipeline = make.pipeline(plan, max_tokens=40, engine={"mean_length": 30.0})
        batches = [pipeline.next_batch() for _ in range(3)]
        return [[r for g in b.groups for r in g.rollouts] for b in batches]

    capped, free = longest(start=0.1), longest(start=1.0)
    for update, cap in enumerate((4, 22, 40)):
        assert max(map(len, capped[update])) == cap
        for rollout in capped[update]:
            assert (rollout.finish == FinishReason.LENGTH) <= (len(rollout) == cap)
    for short, whole in zip(capped[0], free[0], strict=True):
        assert short.tokens_T.tolist() == whole.tokens_T[:4].tolist()


@over("bad", [{"start": 0.0}, {"end": 1.5}, {"updates": 0}, {"jumps": 0}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"LengthSchedule.{next(iter(bad))}="):
        LengthSchedule(**bad)
