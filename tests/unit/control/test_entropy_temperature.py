"""Heat rises below the target, falls above it, and stays within bounds."""

from itertools import pairwise
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.entropy_temperature import EntropyTemperature
from gfcr.errors import ConfigError
from gfcr.testing import factories as make

VIEW = make.view()


@given(st.lists(st.floats(0, 10), max_size=20), st.floats(0.01, 3), st.floats(0.01, 1))
def test_it_moves_towards_the_target_and_stays_in_bounds(
    entropies: list[float], target: float, rate: float
) -> None:
    part = EntropyTemperature(target=target, rate=rate)
    seen = [part.scale]
    for entropy in entropies:
        part.after_update({"entropy": entropy}, view=VIEW)
        seen.append(part.scale)
    assert seen[0] == 1.0 and all(0.8 <= scale <= 1.25 for scale in seen)
    for entropy, (before, after) in zip(entropies, pairwise(seen), strict=True):
        assert (after >= before) if entropy < target else (after <= before)
        assert abs(after - before) <= before * (exp(rate) - 1) + 1e-9


def test_at_the_target_and_without_a_report_it_stays() -> None:
    part = EntropyTemperature(target=0.5)
    part.after_update({"entropy": 0.5}, view=VIEW)
    part.after_update({"loss": 1.0}, view=VIEW)
    assert part.metrics() == {"scale": 1.0}


def test_the_next_batch_is_sampled_at_what_the_update_left() -> None:
    plan = strategies.load(
        "grpo",
        controls={"heat": {"name": "entropy_temperature", "rate": 1.0, "high": 4.0}},
        correction={"name": "truncated"},
    )
    pipeline = make.pipeline(plan)
    pipeline.next_batch()
    pipeline.updated({"entropy": 0.0})
    assert pipeline.next_batch().metrics["controls.heat/scale"] == pytest.approx(exp(1.0))
    jobs = plan.controls["heat"].allocate([VIEW.job(make.prompt())], view=VIEW)
    assert [job.sampling.temperature for job in jobs] == [pytest.approx(exp(1.0))]


def test_it_needs_a_correction_and_bounds_around_one() -> None:
    plan = strategies.load("grpo", controls={"heat": {"name": "entropy_temperature"}})
    with pytest.raises(ConfigError, match=r"controls\.heat: .*correction: \{name: truncated\}"):
        plan.check()
    with pytest.raises(ConfigError, match=r"entropy_temperature\.low=1\.1 and"):
        EntropyTemperature(low=1.1)
