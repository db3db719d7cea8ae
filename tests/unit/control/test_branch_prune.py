"""Pruned exactly where confidence falls below the bar that ended siblings set."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.branch_prune import BranchPrune, confidences
from gfcr.errors import ConfigError
from gfcr.ledger import ABORTED
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import FinishReason
from tests.cases import over

VIEW = make.view()
columns = st.lists(st.tuples(st.floats(-9, 0), st.booleans()), max_size=12)


@given(columns, st.integers(1, 6))
def test_confidences_are_means_of_sampled_tokens_in_a_row(
    tokens: list[tuple[float, bool]], window: int
) -> None:
    own = [logprob for logprob, sampled in tokens if sampled]
    got = confidences([p for p, _ in tokens], [m for _, m in tokens], window=window)
    windows = [own[i : i + window] for i in range(len(own) - window + 1)] or ([own] if own else [])
    np.testing.assert_allclose(got, [np.mean(w) for w in windows], atol=1e-9)


def branches(*logprobs: list[float], running: int = 1) -> list[Any]:
    """Siblings of which the last `running` ones go on."""
    made: list[Any] = []
    for index, own in enumerate(logprobs):
        ended = FinishReason.STOP if index < len(logprobs) - running else None
        each = SimpleNamespace(tokens=[5] * len(own), logprobs=own, mask=[True] * len(own))
        each.notes, each.finish = {}, ended
        made.append(each)
    for each in made:
        each.siblings = tuple(made)
    return made


levels = st.lists(st.lists(st.floats(-5, 0), min_size=2, max_size=6), min_size=1, max_size=6)


@given(levels, st.integers(1, 4), st.floats(0, 1), st.integers(1, 4))
def test_it_cuts_below_the_quantile_of_what_ended_siblings_fell_to(
    logprobs: list[list[float]], warmup: int, share: float, least: int
) -> None:
    part = BranchPrune(window=2, warmup=warmup, share=share, least=least, every=1)
    *ended, running = branches(*logprobs)
    lows = [min((a + b) / 2 for a, b in pairwise(e.logprobs)) for e in ended]
    cut = part.watch(running, new=1, view=VIEW) is not None
    if len(ended) < warmup or len(logprobs) <= least:
        assert not cut
    else:
        gap = np.mean(running.logprobs[-2:]) - np.quantile(lows, share)
        assert abs(gap) < 1e-9 or cut == (gap < 0)


def test_cut_siblings_set_no_bar_and_are_not_counted_as_left() -> None:
    part = BranchPrune(window=1, warmup=1, share=0.0, least=2, every=1)
    first, cut, running = branches([-1.0], [-8.0], [-5.0])
    assert part.watch(running, new=1, view=VIEW) is None  # -8 is the bar
    cut.finish = FinishReason.ABORTED
    assert part.watch(running, new=1, view=VIEW) is None  # two are left
    part.least = 1
    halt = part.watch(running, new=1, view=VIEW)
    assert halt is not None and halt.reason == "confidence -5 below -1"
    assert first.notes == {"lowest_confidence": -1.0}


def test_it_looks_every_so_many_tokens_however_many_come_at_once() -> None:
    part = BranchPrune(window=1, warmup=1, share=0.0, least=1, every=4)
    _, running = branches([-1.0], [-5.0] * 7)
    assert part.watch(running, new=3, view=VIEW) is None
    assert part.watch(running, new=4, view=VIEW) is not None
    # Tokens of a tool, or of a beginning that was given, fill no window.
    part.window = 3
    assert part.watch(running, new=4, view=VIEW) is not None
    running.mask[:5] = [False] * 5
    assert part.watch(running, new=4, view=VIEW) is None


def test_unsure_branches_of_a_tree_are_cut_and_the_rest_is_trained() -> None:
    plan = strategies.load("pruned_tree", window=4, warmup=2, share=0.9)
    pipeline = make.pipeline(plan, prompts=3, engine={"mean_length": 30.0})
    batch = pipeline.next_batch()
    assert batch.metrics["controls.branch_prune/pruned"] == len(batch.aborted) > 0
    assert all("confidence" in r.detail for r in batch.aborted)
    leaves = sum(len(g.rollouts) for g in batch.groups)
    # Where a cut chain is short, fewer places are left to fork at.
    assert 3 * 15 < leaves + len(batch.aborted) <= 3 * 30 and len(batch.samples) == leaves
    # What a cut branch shares with its trunk is the trunk's, and trained.
    assert 0 < pipeline.ledger.bins()[ABORTED] < sum(map(len, batch.aborted))


def test_counts_are_of_the_last_batch() -> None:
    part = BranchPrune(window=1, warmup=1, share=0.0, least=1, every=1)
    _, running = branches([-1.0], [-5.0])
    assert part.watch(running, new=1, view=VIEW)
    for pruned in (1.0, 0.0):
        part.observe(Harvest(step=0, groups=(), aborted=()), view=VIEW)
        assert part.metrics() == {"pruned": pruned}


@over("bad", [{"window": 0}, {"warmup": 0}, {"share": 1.5}, {"least": 0}, {"every": 0}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"BranchPrune.{next(iter(bad))}="):
        BranchPrune(**bad)
