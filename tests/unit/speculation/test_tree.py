"""The suffix tree against its definition, by brute force."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from gfcr.speculation.tree import SuffixTree

MATCH, DRAFT = 4, 3
TEXTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=5)
CONTEXT = st.lists(st.integers(0, 2), min_size=1, max_size=6)


class Tied(Exception):
    """Two continuations are equally good: either is right."""


def after(texts: Sequence[Sequence[int]], path: Sequence[int]) -> tuple[int, Counter[int]]:
    """How often a path occurs, and what follows it."""
    starts = [(t, i) for t in texts for i in range(len(t)) if list(t[i : i + len(path)]) == path]
    following = Counter(t[i + len(path)] for t, i in starts if i + len(path) < len(t))
    return len(starts), following


def follow(
    texts: Sequence[Sequence[int]], suffix: list[int], *, most: int, min_prob: float
) -> tuple[list[int], float]:
    """The most frequent continuation and the sum of its tokens' probabilities."""
    made, prob, score = list[int](), 1.0, 0.0
    while len(made) < most and len(suffix) + len(made) < MATCH + DRAFT:
        times, following = after(texts, suffix + made)
        ranked = following.most_common(2)
        if not ranked:
            break
        prob *= ranked[0][1] / times
        if prob < min_prob:
            break
        if len(ranked) == 2 and ranked[0][1] == ranked[1][1]:
            raise Tied
        made.append(ranked[0][0])
        score += prob
    return made, score


def best(
    texts: Sequence[Sequence[int]], context: list[int], *, most: int, factor: float, min_prob: float
) -> tuple[list[int], float]:
    chosen, score = list[int](), 0.0
    for length in range(1, min(MATCH, len(context) - 1) + 1):
        suffix = context[-length:]
        if not after(texts, suffix)[0]:
            break
        allowed = min(most, int(factor * length + 1e-6))
        made, found = follow(texts, suffix, most=allowed, min_prob=min_prob)
        if made != chosen and abs(found - score) < 1e-6:
            raise Tied
        if found >= score - 1e-6:
            chosen, score = made, found
    return chosen, score


@given(TEXTS, CONTEXT, st.integers(1, DRAFT), st.sampled_from([0.5, 1.0, 9.0]), st.floats(0.05, 1))
def test_a_guess_is_the_likeliest_continuation_of_the_end(
    texts: list[list[int]], context: list[int], most: int, factor: float, min_prob: float
) -> None:
    tree = SuffixTree(match=MATCH, draft=DRAFT)
    for text in texts:
        tree.add(np.array(text, np.int32))
    try:
        tokens, score = best(texts, context, most=most, factor=factor, min_prob=min_prob)
    except Tied:
        assume(False)
        return
    got = tree.guess(np.array(context, np.int32), most=most, factor=factor, min_prob=min_prob)
    assert abs(got.score - score) < 1e-5
    assert got.tokens == tokens


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=6), CONTEXT)
def test_a_sequence_may_arrive_in_pieces(pieces: list[list[int]], context: list[int]) -> None:
    whole, parts = SuffixTree(match=MATCH, draft=DRAFT), SuffixTree(match=MATCH, draft=DRAFT)
    whole.add(np.array([t for piece in pieces for t in piece], np.int32))
    for piece in pieces:
        parts.extend(np.array(piece, np.int64))
    ask = np.array(context, np.int32)
    guesses = [t.guess(ask, most=DRAFT, factor=9.0, min_prob=0.1) for t in (whole, parts)]
    assert guesses[0] == guesses[1]
