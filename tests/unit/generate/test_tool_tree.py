"""Tool trees: M rollouts, branched behind answers that leave the policy less sure, at one price."""

import time
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.generate.tool_tree import ToolTree
from gfcr.generate.tools.base import Call, Tool
from gfcr.testing import factories as make
from gfcr.types import Group, Rollout, RolloutBatch
from tests.cases import over

SIZES = {"group_size": 12, "initial": 3, "max_turns": 4}


def ran(*, num: int = 60, **knobs: Any) -> tuple[Any, RolloutBatch]:
    """Of a policy that calls often: one token in eighteen is the stop text."""
    strategy = strategies.load("arpo", **{**SIZES, **knobs})
    pipeline = make.pipeline(strategy, prompts=3, max_tokens=num)
    batch = pipeline.next_batch()
    pipeline.close()
    return pipeline, batch


def answers(rollout: Rollout) -> list[tuple[int, int]]:
    """Where the tool's answers begin and end."""
    outside = np.concatenate([[0], ~rollout.mask_T, [0]]).astype(int)
    return [(int(a), int(b)) for a, b in np.flatnonzero(np.diff(outside)).reshape(-1, 2)]


def entropy(rollout: Rollout, at: int, *, window: int) -> float:
    end = next((start for start, _ in answers(rollout) if start > at), len(rollout))
    return -fmean(map(float, rollout.logprobs_T[at : min(end, at + window)]))


def root(rollout: Rollout) -> int:
    return int(rollout.id.rpartition("/")[2].partition(".")[0])


def forks(group: Group) -> dict[tuple[str, int], int]:
    """How many branches each place has, by rollout and token."""
    found: dict[tuple[str, int], int] = {}
    for place in ((r.parent, r.fork_at) for r in group.rollouts if r.parent):
        found[place] = found.get(place, 0) + 1
    return found


@over("beam", [2, 3])
@over(("base", "weight", "threshold"), [(0.5, 0.2, 0.5), (0.4, 1.0, 0.7)])
def test_with_room_a_place_branches_where_p_exceeds_the_threshold_and_nowhere_else(
    beam: int, base: float, weight: float, threshold: float
) -> None:
    rule = {"beam": beam, "base": base, "weight": weight, "threshold": threshold}
    _, batch = ran(group_size=40, generate={"window": 3}, **rule)
    told: list[bool] = []
    for group in batch.groups:
        first = [r for r in group.rollouts if root(r) < SIZES["initial"]]
        assert len(first) < len(group.rollouts), "there was room to the last"
        found = forks(group)
        for r in first:
            places = [at for _, at in answers(r) if r.fork_at < at < len(r)]
            start = entropy(r, 0, window=3)
            for at in places:
                p = base + weight * (entropy(r, at, window=3) - start)
                told.append(p > threshold)
                assert found.pop((r.id, at), 0) == (beam - 1) * told[-1]
        assert not found, "forks elsewhere"
    assert 0.1 < fmean(told) < 0.9


@over("group_size", [1, 2, 3, 4, 7, 16])
@over("initial", [1, 3, 8])
def test_a_group_has_as_many_rollouts_as_asked_for(group_size: int, initial: int) -> None:
    _, batch = ran(group_size=group_size, initial=initial, beam=3, threshold=-10.0)
    for group in batch.groups:
        assert len(group.rollouts) == group_size
        begun = sum(r.parent is None for r in group.rollouts)
        assert min(initial, group_size) <= begun


def test_what_precedes_a_branch_is_generated_and_asked_once() -> None:
    pipeline, batch = ran(threshold=-10.0)
    rollouts = [r for g in batch.groups for r in g.rollouts]
    made = {r.id: r for r in rollouts}
    branches = [r for r in rollouts if r.parent]
    assert len(branches) == pipeline.strategy.generate.branches > 6
    for branch in branches:
        at, trunk = branch.fork_at, made[str(branch.parent)]
        assert (branch.tokens_T[:at] == trunk.tokens_T[:at]).all()
        assert at in [end for _, end in answers(trunk)], "behind an answer alone"
    own = sum(int(r.mask_T[r.fork_at :].sum()) for r in rollouts)
    assert pipeline.engine.stats().generated_tokens == own == sum(pipeline.ledger.bins().values())
    calls = sum(end > r.fork_at for r in rollouts for _, end in answers(r))
    assert batch.metrics["generate/tool_calls"] == calls
    assert calls < sum(len(answers(r)) for r in rollouts)
    for r in rollouts:
        assert r.notes.get("tool_calls", 0) == len(answers(r)) < 4


def test_nothing_branches_where_all_begin_at_once_or_p_is_never_enough() -> None:
    assert not any(r.parent for g in ran(initial=12)[1].groups for r in g.rollouts)
    assert not any(r.parent for g in ran(threshold=1e9)[1].groups for r in g.rollouts)


class Hurried(Tool):
    """Answers the sooner the longer the text, or the other way round."""

    slow: ClassVar[bool] = True
    sign: ClassVar[int] = 1

    def answer(self, call: Call) -> str:
        time.sleep(0.002 * (len(call.text) if self.sign > 0 else 60 - len(call.text)))
        return "12"


def test_speed_does_not_decide_who_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = {"generate": {"tool": f"{__name__}:Hurried"}}
    found: list[Any] = []
    for sign in (1, -1):
        monkeypatch.setattr(Hurried, "sign", sign)
        groups = ran(**tool)[1].groups
        found.append([[(r.id, r.text, r.fork_at) for r in g.rollouts] for g in groups])
    assert sorted(found[0]) == sorted(found[1])


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"ToolTree\.beam=1 is not allowed"):
        ToolTree(beam=1)
