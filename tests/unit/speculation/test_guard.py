"""The guard of learnt drafts: falls are found, noise is not, and the world may change."""

from dataclasses import replace

import numpy as np
import pytest

from gfcr.speculation.base import Step
from gfcr.speculation.guard import Guard, Tally

K = 3
STEP = Step(running=0, prompt_tokens=0, emitted=0, drafts=0, drafted=0, accepted=0, seconds=0.01)


def step(rng: np.random.Generator, *, rate: float, drafts: int = 60) -> Step:
    """One step whose drafts of K tokens are accepted token by token with this probability."""
    hits = rng.random((drafts, K)) < rate
    accepted = int(np.cumprod(hits, axis=1).sum())
    return replace(STEP, running=drafts, drafts=drafts, drafted=K * drafts, accepted=accepted)


def batch(guard: Guard, rng: np.random.Generator, *, rate: float, steps: int = 15) -> None:
    """A batch whose acceptance rises by a third from its begin to its end, as tails do."""
    for i in range(steps):
        guard.saw(step(rng, rate=rate * (0.85 + 0.3 * i / steps)))
    guard.boundary()


def judged(rng: np.random.Generator, *, before: float, after: float) -> bool:
    """Whether a swap between two batches is held to have made it worse."""
    guard = Guard(fall=0.1, window=500)
    batch(guard, rng, rate=before)
    assert guard.ready
    guard.swapped()
    batch(guard, rng, rate=after)
    return guard.failed


def test_an_equal_draft_stays_and_a_clearly_worse_one_goes() -> None:
    rngs = [np.random.default_rng(i) for i in range(200)]
    assert sum(judged(r, before=0.7, after=0.7) for r in rngs) <= 1
    assert sum(judged(r, before=0.7, after=0.5) for r in rngs) >= 198


def test_a_better_draft_and_a_fall_within_tolerance_stay() -> None:
    rngs = [np.random.default_rng(i) for i in range(100)]
    assert not any(judged(r, before=0.5, after=0.8) for r in rngs)
    assert sum(judged(r, before=0.7, after=0.68) for r in rngs) <= 2
    # Neither a fall that is sure and small is one, nor one that is large and within the noise.
    rng, small, noisy = (
        np.random.default_rng(0),
        Guard(fall=0.1, window=500),
        Guard(fall=0.1, window=9),
    )
    for guard, later in ((small, [0.67] * 600), (noisy, [0.1, 0.75])):
        for rate in [0.7] * len(later):
            guard.saw(step(rng, rate=rate, drafts=5 if guard is noisy else 60))
        guard.boundary()
        guard.swapped()
        for rate in later:
            guard.saw(step(rng, rate=rate, drafts=5 if guard is noisy else 60))
        guard.boundary()
        assert not guard.failed


def test_a_collapse_is_seen_before_the_batch_has_ended() -> None:
    rng, guard = np.random.default_rng(0), Guard(fall=0.1, window=500)
    batch(guard, rng, rate=0.7)
    guard.swapped()
    seen = 0
    while not guard.failed and seen < 15 * 60:
        guard.saw(step(rng, rate=0.05, drafts=60))
        seen += 60
    assert 500 <= seen < 500 + 60


def test_a_draft_swapped_in_mid_batch_is_judged_by_the_next_whole_one() -> None:
    rng, guard = np.random.default_rng(0), Guard(fall=0.1, window=500)
    batch(guard, rng, rate=0.7)
    for _ in range(5):
        guard.saw(step(rng, rate=0.7))
    guard.swapped()
    batch(guard, rng, rate=0.5)
    assert not guard.failed and not guard.ready
    batch(guard, rng, rate=0.5)
    assert guard.failed


def test_the_draft_taken_back_is_measured_anew() -> None:
    """After a shift everything is worse: the old draft's past says nothing about its successor."""
    rng, guard = np.random.default_rng(0), Guard(fall=0.1, window=500)
    batch(guard, rng, rate=0.8)
    guard.swapped()
    batch(guard, rng, rate=0.4)
    assert guard.failed
    guard.rolled_back()
    assert not guard.failed and not guard.ready and guard.guilty is None
    batch(guard, rng, rate=0.3)
    assert guard.guilty is False and not guard.ready
    guard.suspect = None
    assert guard.ready
    guard.swapped()
    batch(guard, rng, rate=0.4)
    assert not guard.failed and guard.ready


def test_a_draft_is_to_blame_if_the_one_before_does_better_again() -> None:
    rng, guard = np.random.default_rng(0), Guard(fall=0.1, window=500)
    batch(guard, rng, rate=0.8)
    guard.swapped()
    for _ in range(9):
        guard.saw(step(rng, rate=0.05))
    assert guard.failed  # in the middle of a batch
    guard.rolled_back()
    batch(guard, rng, rate=0.8)
    assert guard.guilty is None, "some was begun with the draft before"
    batch(guard, rng, rate=0.8)
    assert guard.guilty is True


def test_one_that_is_not_used_does_not_speak_for_the_other() -> None:
    rng, guard = np.random.default_rng(0), Guard(fall=0.1, window=500)
    batch(guard, rng, rate=0.8)
    guard.swapped()
    batch(guard, rng, rate=0.3)
    guard.rolled_back()
    for _ in range(3):
        assert guard.guilty is None
        guard.boundary()
    assert guard.guilty is True


def test_a_draft_that_is_not_used_does_not_hold_up_the_next() -> None:
    guard = Guard(fall=0.1, window=500)
    assert not guard.ready
    for _ in range(3):
        guard.saw(replace(STEP, running=8))
        guard.boundary()
    assert guard.ready and not guard.failed


def test_the_error_of_a_tally_is_that_of_repeated_measurements() -> None:
    means: list[float] = []
    errors: list[float] = []
    for seed in range(300):
        rng, tally = np.random.default_rng(seed), Tally()
        for drafts in (80, 40, 60, 20, 70, 50):
            tally.add(step(rng, rate=0.7, drafts=drafts))
        means.append(tally.mean)
        errors.append(tally.variance)
    assert np.mean(errors) == pytest.approx(np.var(means), rel=0.25)
    expected = 0.7 + 0.7**2 + 0.7**3
    assert np.mean(means) == pytest.approx(expected, abs=0.01)
    assert tally.length == 1 + tally.mean
