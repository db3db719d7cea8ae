"""What parts see of the run: live, read-only, and no more than the contract promises."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from gfcr import strategy as strategies
from gfcr.loop.view import shown
from gfcr.stages import Generate
from gfcr.testing import factories as make


def test_the_version_is_the_engine_s_at_the_moment_and_a_job_knows_its_update() -> None:
    seen: list[Any] = []

    @dataclass
    class Looks(Generate):
        async def run(self, session: Any) -> None:
            seen.append((session.view.version, session.job.step))
            await session.open(0).sample()
            seen.append((session.view.version, session.job.step))

    pipeline = make.pipeline(replace(strategies.load("grpo"), generate=Looks()))
    for step in range(2):
        pipeline.sync((), version=step + 3)
        pipeline.next_batch()
        assert set(seen) == {(step + 3, step)}
        seen.clear()


def test_an_evaluation_s_view_has_one_version_and_its_jobs_no_update() -> None:
    pipeline = make.pipeline(strategies.load("grpo"))
    pipeline.sync((), version=7)
    seen: list[Any] = []

    class Looks(Generate):
        async def run(self, session: Any) -> None:
            seen.append((session.view.version, session.job.step))
            await session.open(0).sample()

    heldout = make.CoinTask().problems(make.CODEC).heldout
    pipeline.evaluate(
        heldout, generate=Looks(), num_samples=1, sampling=pipeline.sampling, label="e"
    )
    assert set(seen) == {(0, -1)}


@pytest.mark.parametrize("name", ["engine", "stream", "note", "records", "as_version", "accepted"])
def test_what_is_not_promised_is_not_there(name: str) -> None:
    with pytest.raises(AttributeError, match="a part's view has no"):
        getattr(shown(make.view()), name)
