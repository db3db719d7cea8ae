"""Advantages from a teacher's log-probs, beside those of a map before."""

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.filter.reverse_kl import ReverseKl
from gfcr.testing import factories as make
from gfcr.types import Group


def taught(teacher: list[float], **changes: object) -> Group:
    rollout = make.rollout(logprobs=[-1.0, -2.0, -0.5, -0.25], **changes)
    group = make.group_of([rollout, make.rollout(1, reward=None)])
    return group.with_scores("teacher", [np.float32(teacher), np.zeros(4, np.float32)])


def test_a_token_gets_how_much_likelier_the_teacher_takes_it_to_be() -> None:
    group = taught([-0.5, -4.0, -0.5, -9.0], mask_T=np.array([True, True, True, False]))
    part, view = ReverseKl(coefficient=0.5), make.view()
    first, second = part.apply(group, view=view).signals
    np.testing.assert_allclose(np.asarray(first.advantage), [0.25, -1.0, 0.0, 0.0])
    assert second.advantage is None, "it is unscorable"
    before = group.with_advantages([2.0, None])
    first, _ = ReverseKl(coefficient=0.5, reward=0.25).apply(before, view=view).signals
    np.testing.assert_allclose(np.asarray(first.advantage), [0.75, -0.5, 0.5, 0.0])
    own = before.with_advantages([np.float32([1, 2, 3, 4]), None])
    first, _ = ReverseKl(coefficient=0.0, reward=1.0).apply(own, view=view).signals
    np.testing.assert_allclose(np.asarray(first.advantage), [1.0, 2.0, 3.0, 0.0])


def test_without_a_teacher_it_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="give the strategy the control teacher"):
        ReverseKl().apply(make.group([1.0]), view=make.view())
