"""The step-time formulas, and the timeline that must agree with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation.overlap import overlap
from benchmarks.simulation.stages import Stages, bound, lagged, synchronous
from gfcr.errors import ConfigError

SECONDS = st.floats(0, 100)
STAGES = st.builds(
    Stages, generate_s=st.floats(0.1, 100), train_s=SECONDS, logprob_s=SECONDS, prepare_s=SECONDS
)
PAIRS = st.lists(st.tuples(st.floats(0.1, 50), SECONDS), min_size=2, max_size=12)


@given(STAGES, st.floats(1, 8))
def test_the_step_never_gains_more_than_the_bound_nor_than_generation(
    stages: Stages, speed: float
) -> None:
    gain = synchronous(stages).total_s / synchronous(stages, speed=speed).total_s
    assert gain == pytest.approx(bound(stages.share, acceptance_length=speed))
    assert 1 - 1e-9 <= gain <= speed + 1e-9


@given(STAGES, st.floats(0.5, 8))
def test_overlap_hides_generation_behind_learning_and_nothing_else(
    stages: Stages, speed: float
) -> None:
    after, plain = lagged(stages, speed=speed), synchronous(stages, speed=speed)
    assert after.total_s <= plain.total_s
    assert after.total_s == pytest.approx(stages.serial_s + stages.learn_s + after.exposed_s)


@given(STAGES, st.integers(0, 4))
def test_the_timeline_of_constant_times_is_the_formula(stages: Stages, lag: int) -> None:
    line = overlap(
        [stages.generate_s] * 30,
        learn_s=[stages.learn_s] * 30,
        prepare_s=stages.serial_s,
        lag=lag,
    )
    formula = lagged(stages) if lag else synchronous(stages)
    # The steady state: with lag k the pipeline is full after k + 1 updates.
    steps = [b - a for a, b in zip(line.ready_s[6:], line.ready_s[7:], strict=False)]
    assert steps == pytest.approx([formula.total_s] * len(steps), abs=1e-6)
    assert line.exposed_s[-1] == pytest.approx(formula.exposed_s, abs=1e-6)


@given(PAIRS, SECONDS, st.integers(1, 4))
def test_a_lag_is_never_slower_than_none(
    pairs: list[tuple[float, float]], prepare_s: float, lag: int
) -> None:
    generate_s, learn_s = zip(*pairs, strict=True)
    times = {
        k: overlap(generate_s, learn_s=learn_s, prepare_s=prepare_s, lag=k).ready_s
        for k in (0, lag)
    }
    assert all(a <= b + 1e-6 for a, b in zip(times[lag], times[0], strict=True))


@given(PAIRS, st.integers(0, 4))
def test_no_batch_is_older_than_the_lag_and_no_update_comes_before_its_batch(
    pairs: list[tuple[float, float]], lag: int
) -> None:
    generate_s, learn_s = zip(*pairs, strict=True)
    line = overlap(generate_s, learn_s=learn_s, prepare_s=1.0, lag=lag)
    for i, (generated, ready) in enumerate(zip(line.generated_s, line.ready_s, strict=True)):
        assert ready >= generated + learn_s[i]
        if i > lag:
            assert generated >= line.ready_s[i - 1 - lag] + generate_s[i] - 1e-9


@given(PAIRS)
def test_synchronous_updates_take_the_sum_of_their_times(pairs: list[tuple[float, float]]) -> None:
    generate_s, learn_s = zip(*pairs, strict=True)
    line = overlap(generate_s, learn_s=learn_s, prepare_s=2.0, lag=0)
    assert line.ready_s[-1] == pytest.approx(sum(generate_s) + sum(learn_s) + 2.0 * len(pairs))
    assert line.exposed_s == pytest.approx(generate_s)


def test_impossible_times_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"train_s=-1 is not allowed"):
        Stages(generate_s=1, train_s=-1)
    with pytest.raises(ConfigError, match="> 0"):
        synchronous(Stages(generate_s=1, train_s=1), speed=0)
    with pytest.raises(ConfigError, match="lag -1"):
        overlap([1, 1], learn_s=[1, 1], prepare_s=0, lag=-1)
