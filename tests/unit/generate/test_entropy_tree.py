"""EPTree: size of the tree, where it forks, and that a trunk is generated once."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.generate.entropy_tree import EntropyTree
from gfcr.testing import factories as make
from gfcr.types import RolloutBatch
from tests.cases import over
from tests.trees import provenance, trunk_is_generated_once


def grown(*, pipeline: dict[str, Any] | None = None, **knobs: int) -> tuple[Any, RolloutBatch]:
    # The toy distribution hardly ever ends by itself here, so every chain is long enough to fork.
    defaults: dict[str, Any] = {"engine": {"mean_length": 1e6}, "max_tokens": 40, "prompts": 3}
    made = make.pipeline(strategies.load("treerl", **knobs), **{**defaults, **(pipeline or {})})
    return made, made.next_batch()


@over("shape", [(6, 2, 1, 2), (1, 1, 1, 1), (2, 3, 2, 2), (3, 1, 3, 1)])
def test_a_tree_has_m_times_one_plus_nlt_leaves(shape: tuple[int, int, int, int]) -> None:
    m, n, rounds, t = shape
    _, batch = grown(group_size=m, forks=n, rounds=rounds, continuations=t)
    leaves = m * (1 + n * rounds * t)
    assert shape != (6, 2, 1, 2) or leaves == 30
    assert [len(g.rollouts) for g in batch.groups] == [leaves] * 3
    part = EntropyTree(forks=n, rounds=rounds, continuations=t)
    assert part.rollouts(m) == leaves
    assert all(sum(r.parent is None for r in g.rollouts) == m for g in batch.groups)
    assert len({r.id for g in batch.groups for r in g.rollouts}) == leaves * 3


def test_the_trunk_is_shared_token_for_token_and_generated_once() -> None:
    pipeline, batch = grown(group_size=2, forks=2, rounds=2, continuations=2)
    trunk_is_generated_once(pipeline, batch)
    by_id = {r.id: r for g in batch.groups for r in g.rollouts}
    samples = {s.rollout.id: s for s in batch.samples}
    for child in (r for r in by_id.values() if r.parent):
        parent, at = by_id[str(child.parent)], child.fork_at
        shared = samples[child.id].advantage_T[:at]
        np.testing.assert_array_equal(shared, samples[str(child.parent)].advantage_T[:at])
        assert provenance(child)[at] != provenance(parent)[at]


def test_each_round_forks_at_the_least_likely_tokens_of_the_whole_tree() -> None:
    tail = 0.1
    _, batch = grown(group_size=1, forks=3, rounds=1, continuations=2)
    for group in batch.groups:
        root = group.rollouts[0]
        places = sorted({r.fork_at for r in group.rollouts[1:]})
        eligible = root.logprobs_T[: int(len(root) * (1 - tail))]
        assert places == sorted(np.argsort(eligible, kind="stable")[:3].tolist())


def test_later_rounds_take_new_places() -> None:
    _, batch = grown(group_size=1, forks=2, rounds=3, continuations=1)
    for group in batch.groups:
        forks = [(r.parent, r.fork_at) for r in group.rollouts if r.parent]
        assert len(set(forks)) == len(forks) == 6
        starts = {r.id: r.fork_at for r in group.rollouts}
        # A branch's own first token stands at a place already forked.
        assert all(at > starts[str(p)] or starts[str(p)] == at == 0 for p, at in forks)


def test_every_leaf_right_trains_nothing() -> None:
    task = make.CoinTask(rates=(1.0,))
    _, batch = grown(group_size=6, pipeline={"task": task})
    assert batch.samples and not any(s.advantage_T.any() for s in batch.samples)


def test_short_chains_grow_fewer_branches() -> None:
    script = make.scripted(lambda request: "12"[: request.seed % 3])
    pipeline, batch = grown(group_size=4, pipeline={"script": script})
    assert all(4 <= len(g.rollouts) <= 20 for g in batch.groups)
    bins = pipeline.ledger.bins()
    assert sum(bins.values()) == pipeline.engine.stats().generated_tokens


WRONG: Sequence[tuple[str, float]] = [
    *product(("forks", "rounds", "continuations"), (0,)),
    ("tail", 1.0),
]


@over(("key", "value"), WRONG)
def test_impossible_settings_are_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{key}={value}"):
        EntropyTree(**{key: value})  # pyright: ignore[reportArgumentType]


def test_where_forks_have_no_bound_every_token_before_the_tail_is_forked_once() -> None:
    few = {"max_tokens": 6, "prompts": 1}
    _, batch = grown(group_size=1, forks=1000, rounds=2, continuations=1, pipeline=few)
    (group,) = batch.groups
    root, *branches = group.rollouts
    starts = {r.id: r.fork_at for r in branches if r.parent == root.id}
    assert sorted(starts.values()) == [0, 1, 2, 3, 4]  # of 6, a tenth is the last one
    second = {(r.parent, r.fork_at) for r in branches if r.parent != root.id}
    assert second == {(i, at) for i, first in starts.items() for at in range(first + 1, 5)}
    assert len(branches) == 5 + 10
