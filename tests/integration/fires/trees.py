"""Trees, segments and exits at work."""

import numpy as np

from tests.integration.demo_floor import fresh, positions
from tests.integration.fires.case import Case, Done

FEW = {"group_size": 4}


def shares(done: Done) -> None:
    """What rollouts share is generated once, and asked of the engine's prefix cache again."""
    made = {r.id: r for r in fresh(done.batches)}
    branches = [r for r in made.values() if r.parent]
    assert branches
    for branch in branches:
        at, trunk = branch.fork_at, made[str(branch.parent)]
        assert (branch.tokens_T[:at] == trunk.tokens_T[:at]).all()
    trained = len(positions(made.values()))
    tokens = done.run.tokens()
    assert tokens["generated"] - tokens.get("aside:probe", 0) == trained
    assert trained < sum(int(r.mask_T.sum()) for r in made.values())
    assert sum(done.metric("engine/cached_prompt_tokens")) > 0


def by_segment(done: Done) -> None:
    shares(done)
    assert all(r.fork_at % 12 == 0 for r in fresh(done.batches) if r.parent)
    assert max(len(g.rollouts) for g in done.groups) > 4
    varied = [s for b in done.batches for s in b.samples if np.ptp(s.advantage_T) > 0]
    assert varied  # an advantage of its own for each segment


def divides(done: Done) -> None:
    shares(done)
    assert {len(g.rollouts) for g in done.groups} == {8}
    assert max(done.metric("group/subgroups")) > 1
    assert max(done.metric("generate/fallbacks")) > 0


def returns(done: Done) -> None:
    shares(done)
    for group in done.groups:
        base, *branches = group.rollouts
        assert {r.parent for r in branches} == {base.id}
    assert any(g.values["modulation"] != 1 for g in done.groups)


def leaves(done: Done) -> None:
    shares(done)
    for group in done.groups:
        for rollout in (r for r in group.rollouts if r.parent):
            assert done.run.codec.decode(rollout.tokens_T[~rollout.mask_T]) == "#"
        paid = sorted(
            zip(group.rollouts, group.signals, strict=True), key=lambda p: p[0].notes["exit"]
        )
        right = [signal.reward for _, signal in paid if signal.reward]
        assert right == [0.5**k for k in range(len(right))]
    assert any(len({s.reward for s in g.signals}) > 2 for g in done.groups)


def values_segments(done: Done) -> None:
    assert done.run.tokens()["aside:probe"] > 0
    assert min(done.metric("controls.segment_values/segments")) > 1
    for sample in (s for b in done.batches for s in b.samples):
        sure_T = np.exp(sample.rollout.logprobs_T) > 0.9 + 1e-5
        assert not sample.advantage_T[sure_T].any()
    assert any(np.ptp(s.advantage_T) > 0 for b in done.batches for s in b.samples)


def branches_behind_answers(done: Done) -> None:
    shares(done)
    made = {r.id: r for r in fresh(done.batches)}
    assert {len(g.rollouts) for g in done.groups} == {8}
    branches = [r for r in made.values() if r.parent]
    assert done.metric("generate/branches")[-1] == len(branches)
    assert not any(made[str(r.parent)].mask_T[r.fork_at - 1] for r in branches), "behind an answer"
    calls = {
        r.id: np.flatnonzero(np.diff(~r.mask_T, prepend=False) & ~r.mask_T)
        for r in fresh(done.batches)
    }
    own = sum(int((calls[r.id] >= r.fork_at).sum()) for r in made.values())
    assert done.metric("generate/tool_calls")[-1] == own < sum(map(len, calls.values()))


CASES = {
    "arpo": Case(check=branches_behind_answers, knobs={"group_size": 8, "initial": 4}),
    "fr3e": Case(check=returns, knobs={"places": 2, "rollouts": 3}),
    "s_grpo": Case(check=leaves, knobs={"exits": 5, "answer_tokens": 16}),
    "spo_chain": Case(check=values_segments, knobs=FEW | {"samples": 3}, prompts=2),
    "spo_tree": Case(
        check=by_segment, knobs=FEW | {"segment": 12, "width": 3}, prompts=2, trains=True
    ),
    "treepo": Case(
        check=divides, knobs={"group_size": 8, "segment": 8, "divide": 1, "first_high": 4}
    ),
}
