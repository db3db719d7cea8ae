"""The repetition stop fires exactly on cycles, and what it ends is a complete rollout."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.repetition_stop import RepetitionStop
from gfcr.errors import ConfigError
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Sampling
from tests.cases import over

VIEW: Any = SimpleNamespace(sampling=Sampling(max_tokens=100))


class Tokens:
    def __init__(self) -> None:
        self.tokens: list[int] = []


def is_cycle(tokens: Sequence[int], rule: RepetitionStop) -> bool:
    """The rule by brute force over the whole text."""
    for period in range(1, rule.max_period + 1):
        num = max(rule.min_repeats * period, rule.min_tokens)
        tail = tokens[len(tokens) - num :] if num <= len(tokens) else ()
        if tail and all(tail[i] == tail[i - period] for i in range(period, num)):
            return True
    return False


rules = st.builds(
    RepetitionStop,
    max_period=st.integers(1, 6),
    min_repeats=st.integers(2, 4),
    min_tokens=st.integers(1, 16),
)
loops = st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=7), st.integers(1, 6))
texts = st.lists(loops, max_size=6).map(lambda parts: [t for cycle, n in parts for t in cycle * n])


@given(rule=rules, tokens=texts, sizes=st.lists(st.integers(1, 5), min_size=1))
def test_it_fires_exactly_when_the_tail_is_a_cycle(
    rule: RepetitionStop, tokens: list[int], sizes: list[int]
) -> None:
    trajectory: Any = Tokens()
    position, turn = 0, 0
    while position < len(tokens):
        new = tokens[position : position + sizes[turn % len(sizes)]]
        trajectory.tokens += new
        position, turn = position + len(new), turn + 1
        halt = rule.watch(trajectory, new=len(new), view=VIEW)
        assert (halt is not None) == is_cycle(trajectory.tokens, rule)


@given(rule=rules, tokens=texts)
def test_a_prefix_it_has_not_seen_counts(rule: RepetitionStop, tokens: list[int]) -> None:
    fork: Any = Tokens()
    fork.tokens = tokens
    halt = rule.watch(fork, new=1, view=VIEW)
    assert (halt is not None) == is_cycle(tokens, rule)


def test_it_never_fires_on_text_without_cycles() -> None:
    rule = RepetitionStop(max_period=64, min_repeats=3, min_tokens=3)
    trajectory: Any = Tokens()
    for number in range(1000):
        # Thue-Morse: no word occurs three times in a row.
        trajectory.tokens.append(number.bit_count() % 2)
        assert rule.watch(trajectory, new=1, view=VIEW) is None


def test_a_loop_is_halted_scored_trained_and_counted_once() -> None:
    plan = strategies.load("repetition_stop", max_period=4, min_repeats=3, min_tokens=9)
    # 3 x 3 tokens are the first to satisfy the rule; every other rollout ends by itself.
    script = make.scripted(lambda request: "12," * 30 if request.seed % 2 else "7")
    pipeline = make.pipeline(plan, script=script, max_tokens=50)
    batch = pipeline.next_batch()
    halted = [s.rollout for s in batch.samples if s.rollout.finish == FinishReason.HALTED]
    assert halted and all(len(r) == 9 and r.reward is not None for r in halted)
    assert all(r.complete and "cycle of 3" in r.detail for r in halted)
    rule = plan.controls["repetition_stop"]
    assert rule.metrics() == {"halted": len(halted), "saved_tokens": len(halted) * (50 - 9)}
    assert pipeline.engine.stats().generated_tokens == sum(len(s.rollout) for s in batch.samples)


def test_counts_are_of_the_last_batch_and_nothing_else_is_remembered() -> None:
    rule = RepetitionStop(max_period=1, min_repeats=2, min_tokens=2)
    looping: Any = Tokens()
    looping.tokens = [5, 5]
    running: Any = Tokens()
    running.tokens = [5]
    assert rule.watch(looping, new=2, view=VIEW) and not rule.watch(running, new=1, view=VIEW)
    harvest = Harvest(step=0, groups=(), aborted=())
    rule.observe(harvest, view=VIEW)
    assert rule.metrics() == {"halted": 1.0, "saved_tokens": 98.0}
    assert not vars(rule)["_tails"]
    rule.observe(harvest, view=VIEW)
    assert rule.metrics() == {"halted": 0.0, "saved_tokens": 0.0}


@over("wrong", [{"max_period": 0}, {"min_repeats": 1}, {"min_tokens": 0}])
def test_impossible_settings_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        RepetitionStop(**wrong)


class Counted(list[int]):
    """Tokens that count how many of them are looked at."""

    looked = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        self.looked += len(found) if isinstance(at, slice) else 1
        return found


def test_a_token_is_looked_at_once_and_of_a_prefix_only_what_may_matter() -> None:
    rule = RepetitionStop(max_period=8, min_repeats=2, min_tokens=4)
    trajectory: Any = Tokens()
    trajectory.tokens = Counted()
    for number in range(1000):
        trajectory.tokens.append(number)
        assert rule.watch(trajectory, new=1, view=VIEW) is None
    assert trajectory.tokens.looked == 1000
    fork: Any = Tokens()
    fork.tokens = Counted(trajectory.tokens)
    rule.watch(fork, new=1, view=VIEW)
    assert fork.tokens.looked <= 3 * 8


@over("token", [0, 1, 2])
def test_the_first_token_repeats_nothing_whichever_it_is(token: int) -> None:
    rule = RepetitionStop(max_period=3, min_repeats=3, min_tokens=1)
    trajectory: Any = Tokens()
    for number in (1, 2, 3):
        trajectory.tokens.append(token)
        assert bool(rule.watch(trajectory, new=1, view=VIEW)) == (number == 3)


def test_a_halt_at_the_cap_saves_nothing() -> None:
    rule = RepetitionStop(max_period=1, min_repeats=2, min_tokens=2)
    for length, saved in ((100, 0.0), (130, 0.0), (99, 1.0)):
        full: Any = Tokens()
        full.tokens = [5] * length
        assert rule.watch(full, new=1, view=VIEW)
        rule.observe(Harvest(step=0, groups=(), aborted=()), view=VIEW)
        assert rule.metrics() == {"halted": 1.0, "saved_tokens": saved}
