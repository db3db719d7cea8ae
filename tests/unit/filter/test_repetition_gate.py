"""Loops and repeats against brute force."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr.filter.repetition_gate import RepetitionGate
from gfcr.testing import factories as make
from gfcr.types import FinishReason
from tests.cases import over

CYCLES = {"ngram": 1000, "max_share": 1.0}


def _passes(tokens: list[int], *, finish: str = "length", **values: Any) -> bool:
    tokens_T = np.array(tokens, np.int32)
    rollout = make.rollout(length=len(tokens), tokens_T=tokens_T, finish=FinishReason(finish))
    return RepetitionGate(**values).passes(rollout, view=make.view())


def _has_cycle(tokens: list[int], *, period: int, repeats: int, least: int) -> bool:
    length = max(period * repeats, least)
    tail = tokens[-length:]
    unit = tail[:period]
    return len(tail) == length and all(t == unit[i % period] for i, t in enumerate(tail))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(4, 6), max_size=24),
    st.integers(1, 6),
    st.integers(2, 4),
    st.integers(1, 12),
)
def test_a_tail_is_a_cycle_as_brute_force_finds_it(
    tokens: list[int], max_period: int, repeats: int, least: int
) -> None:
    values = {"max_period": max_period, "min_repeats": repeats, "min_tokens": least}
    periods = range(1, max_period + 1)
    cycles = any(_has_cycle(tokens, period=p, repeats=repeats, least=least) for p in periods)
    assert _passes(tokens, **values, **CYCLES) != cycles


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(4, 6), min_size=1, max_size=24), st.integers(1, 4), st.floats(0, 1))
def test_repeats_are_the_n_grams_that_came_before(
    tokens: list[int], ngram: int, share: float
) -> None:
    seen: set[tuple[int, ...]] = set()
    repeats = num = 0
    for start in range(len(tokens) - ngram + 1):
        gram = tuple(tokens[start : start + ngram])
        repeats, num = repeats + (gram in seen), num + 1
        seen.add(gram)
    passes = _passes(
        tokens, ngram=ngram, max_share=share, min_tokens=1, max_period=1, min_repeats=99
    )
    measured = repeats / num if num else 0.0
    if abs(measured - share) > 1e-9:
        assert passes == (measured < share)


def test_the_end_of_sequence_does_not_hide_a_loop() -> None:
    loop = [5, 6] * 8
    values = {"min_tokens": 8, **CYCLES}
    assert not _passes([*loop, 1], finish="stop", **values)
    assert _passes([*loop, 1], finish="length", **values)


def test_short_rollouts_pass() -> None:
    assert _passes([5] * 63) and not _passes([5] * 64)
    assert _passes([])


@over("share", [0.5, 1.0])
def test_at_the_most_a_rollout_still_passes(share: float) -> None:
    tokens = [4, 5, 6, 4, 5, 6] if share == 0.5 else [4, 4, 5, 5, 6]
    assert _passes(tokens, ngram=1, max_share=share, min_tokens=1, max_period=1, min_repeats=3)
