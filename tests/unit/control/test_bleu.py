"""BLEU against figures worked out by hand, and the clusters made of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.control._bleu import bleu, clusters

TOKENS = st.lists(st.integers(0, 5), min_size=1, max_size=12)


def test_figures() -> None:
    one, other = [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7]
    # 5/6 unigrams, 4/5 bigrams, 3/4 trigrams, 2/3 of length 4.
    assert bleu(one, reference=other) == pytest.approx((5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)
    # Shorter by half: exp(1 - 6/3); no 4-gram at all counts 0.1.
    assert bleu(one[:3], reference=one) == pytest.approx(0.1**0.25 * 2.718281828 ** (1 - 2))
    # A word said thrice is shared as often as the other says it.
    assert bleu([1, 1, 1, 1], reference=[1, 2, 3, 4]) == pytest.approx(
        (1 / 4 * 0.1 / 3 * 0.1 / 2 * 0.1) ** 0.25
    )
    assert bleu([1], reference=[2]) == 0


@given(TOKENS, TOKENS)
def test_it_is_a_share_and_1_for_the_same(one: list[int], other: list[int]) -> None:
    assert 0 <= bleu(one, reference=other) <= 1 + 1e-12
    if len(one) >= 4:
        assert bleu(one, reference=one) == pytest.approx(1)


@given(st.lists(TOKENS, max_size=6))
def test_each_text_is_in_one_cluster_and_copies_are_together(texts: list[list[int]]) -> None:
    long = [[*text, 9, 8, 7, 6] for text in texts]
    found = clusters(long + long, distance=0.2)
    assert len(found) == 2 * len(texts) and found[: len(texts)] == found[len(texts) :]


def test_what_is_far_apart_is_not_joined() -> None:
    near = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7]]
    assert len({*clusters([*near, [9, 9, 8, 8, 7]], distance=0.5)}) == 2
    assert len({*clusters(near, distance=0.05)}) == 2
