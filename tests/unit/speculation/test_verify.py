"""The verification rule: whatever is proposed, tokens follow the target."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from gfcr.speculation.base import Draft, Law
from gfcr.speculation.verify import Reals, verify
from tests.cases import over

NUM = 8_000
FIRST = np.array([0.5, 0.3, 0.15, 0.05])
NEXT = np.array([[0.1, 0.2, 0.3, 0.4], [0.25] * 4, [0.7, 0.1, 0.1, 0.1], [0.0, 0.0, 0.5, 0.5]])
Q = np.array([0.1, 0.1, 0.6, 0.2])


def target(made: Sequence[int]) -> Reals:
    return NEXT[made[-1]] if len(made) else FIRST


def sampled(rng: np.random.Generator, *, kept: int) -> Draft:
    """Two tokens drawn from Q, whose law lists only its `kept` likeliest tokens."""
    ids = np.argsort(-Q, kind="stable")[:kept].astype(np.int32)
    probs = Q[ids].astype(np.float32)
    tokens = rng.choice(4, size=2, p=Q).tolist()
    return Draft(tokens=tokens, law=Law(ids_TM=np.stack([ids] * 2), probs_TM=np.stack([probs] * 2)))


def pairs(emitted: Sequence[list[int]], rng: np.random.Generator) -> Counter[tuple[int, int]]:
    """First two tokens; what a verification did not reach is drawn from the target."""
    done = [e if len(e) > 1 else [*e, int(rng.choice(4, p=target(e)))] for e in emitted]
    return Counter((e[0], e[1]) for e in done)


def p_value(found: Counter[tuple[int, int]]) -> float:
    cells = [(a, b) for a in range(4) for b in range(4) if FIRST[a] * NEXT[a, b] > 0]
    assert set(found) <= set(cells)
    expected = [NUM * FIRST[a] * NEXT[a, b] for a, b in cells]
    return float(stats.chisquare([found[c] for c in cells], expected).pvalue)


@pytest.mark.slow
@over("kept", [1, 2, 4])
def test_sampled_drafts_leave_the_target_as_it_is_whatever_part_of_their_law_is_known(
    kept: int,
) -> None:
    rng = np.random.default_rng(kept)
    made = [verify(sampled(rng, kept=kept), target=target, rng=rng) for _ in range(NUM)]
    assert p_value(pairs(made, rng)) > 1e-3
    assert max(map(len, made)) == 3, "some drafts are accepted whole"


def test_point_mass_drafts_leave_the_target_as_it_is() -> None:
    rng = np.random.default_rng(0)
    made = [verify(Draft(tokens=(2, 0)), target=target, rng=rng) for _ in range(NUM)]
    assert p_value(pairs(made, rng)) > 1e-3


@pytest.mark.slow
def test_a_wrong_law_is_noticed_by_this_test() -> None:
    rng = np.random.default_rng(0)
    wrong = Law(ids_TM=np.tile(np.arange(4), (2, 1)), probs_TM=np.full((2, 4), 0.25, np.float32))
    drafts = [Draft(tokens=rng.choice(4, size=2, p=Q).tolist(), law=wrong) for _ in range(NUM)]
    assert p_value(pairs([verify(d, target=target, rng=rng) for d in drafts], rng)) < 1e-6


def test_drafts_from_the_target_itself_are_all_accepted() -> None:
    rng = np.random.default_rng(0)
    law = Law(ids_TM=np.tile(np.arange(4), (1, 1)), probs_TM=FIRST[None].astype(np.float64))
    for _ in range(200):
        draft = Draft(tokens=[int(rng.choice(4, p=FIRST))], law=law)
        assert verify(draft, target=target, rng=rng)[0] == draft.tokens[0]


def test_a_token_that_its_law_lacks_is_rejected() -> None:
    rng = np.random.default_rng(0)
    law = Law(ids_TM=np.array([[1]]), probs_TM=np.array([[0.1]], np.float32))
    assert all(
        len(verify(Draft(tokens=[0], law=law), target=target, rng=rng)) == 1 for _ in range(200)
    )
