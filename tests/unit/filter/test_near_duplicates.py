"""Near-duplicates: which are kept, by brute force over all choices."""

from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.filter.near_duplicates import NearDuplicates
from gfcr.testing import factories as make
from gfcr.types import Group, Rollout
from tests.cases import over


def _rollout(index: int, tokens: list[int], **changes: Any) -> Rollout:
    tokens_T = np.array(tokens, np.int32)
    return make.rollout(index, length=len(tokens), **{"tokens_T": tokens_T, **changes})


def _group(sequences: list[list[int]]) -> Group:
    return make.group_of([_rollout(i, tokens) for i, tokens in enumerate(sequences)])


def _grams(tokens: list[int], ngram: int) -> set[tuple[int, ...]]:
    whole = {tuple(tokens)}
    return {tuple(tokens[i : i + ngram]) for i in range(len(tokens) - ngram + 1)} or whole


def _alike(one: list[int], other: list[int], *, ngram: int) -> float:
    a, b = _grams(one, ngram), _grams(other, ngram)
    return len(a & b) / len(a | b)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.integers(4, 6), max_size=5), min_size=1, max_size=7),
    st.sampled_from([0.0, 0.25, 0.5, 0.99, 1.0]),
    st.integers(1, 3),
)
def test_no_two_kept_are_alike_and_each_one_rejected_is_like_one_kept_before_it(
    sequences: list[list[int]], most: float, ngram: int
) -> None:
    part = NearDuplicates(most=most, ngram=ngram)
    after = part.apply(_group(sequences), view=make.view())
    kept = np.flatnonzero(after.kept_N).tolist()
    alike = {
        (i, j): _alike(sequences[i], sequences[j], ngram=ngram) > most
        for i, j in combinations(range(len(sequences)), 2)
    }
    assert not any(alike[pair] for pair in combinations(kept, 2))
    for j in set(range(len(sequences))) - set(kept):
        assert any(alike[i, j] for i in kept if i < j)
        assert after.signals[j].rejected == "near_duplicates"


def test_the_first_of_equals_stays() -> None:
    after = NearDuplicates().apply(_group([[4, 5], [4, 5], [6], [4, 5]]), view=make.view())
    assert after.kept_N.tolist() == [True, False, True, False]


def test_empty_rollouts_are_alike() -> None:
    after = NearDuplicates().apply(_group([[], [], [4]]), view=make.view())
    assert after.kept_N.tolist() == [True, False, True]


def test_what_was_rejected_before_makes_no_other_a_duplicate() -> None:
    group = _group([[4, 5], [4, 5], [4, 5]]).reject_rollouts([0], reason="other")
    after = NearDuplicates().apply(group, view=make.view())
    assert [s.rejected for s in after.signals] == ["other", None, "near_duplicates"]


def test_what_a_tool_said_makes_no_difference() -> None:
    mask = np.array([True, True, False])
    pair = [_rollout(i, [4, 5, last], mask_T=mask) for i, last in enumerate((6, 7))]
    after = NearDuplicates().apply(make.group_of(pair), view=make.view())
    assert after.kept_N.tolist() == [True, False]


@over("most", [0.0, 0.5, 1.0])
def test_in_a_run_those_trained_have_the_advantages_of_the_whole_group(most: float) -> None:
    filters = {"duplicates": {"name": "near_duplicates", "most": most, "ngram": 1}}
    plain = make.pipeline(strategies.load("grpo")).next_batch()
    batch = make.pipeline(strategies.load("grpo", filters=filters)).next_batch()
    advantages = {s.rollout.id: s.advantage_T.tolist() for s in plain.samples}
    out = batch.metrics.get("rejected/near_duplicates", 0.0)
    assert len(batch.samples) == 64 - out and (out > 0) == (most < 1)
    assert all(advantages[s.rollout.id] == s.advantage_T.tolist() for s in batch.samples)
