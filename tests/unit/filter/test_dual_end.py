"""Both ends by length stay, the middle goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import ConfigError
from gfcr.filter.dual_end import DualEnd
from gfcr.testing import factories as make


@given(
    st.lists(st.tuples(st.integers(1, 20), st.booleans()), min_size=1, max_size=12),
    st.integers(0, 6),
    st.integers(0, 6),
)
def test_no_rollout_between_two_dropped_ones_is_kept(
    rollouts: list[tuple[int, bool]], shortest: int, longest: int
) -> None:
    if not shortest + longest:
        return
    made = [
        make.rollout(i, length=n, reward=1.0 if scored else None)
        for i, (n, scored) in enumerate(rollouts)
    ]
    before = make.group_of(made)
    after = DualEnd(shortest=shortest, longest=longest).apply(before, view=make.view())
    kept = sorted(len(r) for r, keep in zip(made, after.kept_N, strict=True) if keep)
    every = sorted(n for n, scored in rollouts if scored)
    both = shortest + longest >= len(every)
    assert kept == (every if both else every[:shortest] + every[len(every) - longest :])
    dropped = [s for s in after.signals if s.rejected == "dual_end"]
    assert len(dropped) == len(every) - len(kept)


def test_nothing_kept_and_more_than_a_group_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"dual_end\.shortest=0 with"):
        DualEnd(shortest=0, longest=0)
