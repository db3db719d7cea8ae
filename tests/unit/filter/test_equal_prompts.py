"""Every prompt counts alike."""

import pytest

from gfcr.filter.equal_prompts import EqualPrompts
from gfcr.testing import factories as make
from tests.cases import over


@over("num", [1, 3, 4, 9])
def test_weights_of_a_prompt_sum_to_the_group_size(num: int) -> None:
    group = make.group([1.0, None] + [0.0] * (num - 1))
    group = EqualPrompts().apply(group, view=make.view(group_size=4))
    kept = [s.weight for s, keep in zip(group.signals, group.kept_N, strict=True) if keep]
    assert len(kept) == num and sum(kept) == pytest.approx(4)
    assert group.signals[1].weight == 1
