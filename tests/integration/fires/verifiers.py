"""Votes, probabilities and step values in the place of a verifier's word."""

from collections.abc import Sequence

import numpy as np

from gfcr.control.majority_vote import winner
from gfcr.types import Group
from tests.integration.fires.case import Case, Done


def votes(done: Done) -> None:
    for group in done.groups:
        parts = [r.text.partition("#") for r in group.rollouts]
        answers = [behind.strip() or None if mark else None for _, mark, behind in parts]
        label, share = winner(answers)
        assert group.values["vote_share"] == share
        wanted = [float(a == label) for a in answers] if label else [np.nan] * len(answers)
        np.testing.assert_array_equal(group.raw_rewards_N, wanted)
    assert 0 < done.metric("controls.majority_vote/share")[-1] < 1
    assert 0 <= done.metric("controls.majority_vote/agrees")[-1] <= 1


def weighs_references(done: Done) -> None:
    rewards = np.concatenate([g.raw_rewards_N for g in done.groups])
    assert ((rewards >= 0) & (rewards <= 1)).all() and len(np.unique(rewards)) > 8
    assert done.metric("controls.rlpr/scored") == [16, 32]
    assert all(usual > 0 for usual in done.metric("filters.reward_spread/usual"))
    right, others = [], []
    for rollout in (r for g in done.groups for r in g.rollouts if "#" in r.text):
        said = rollout.text.rpartition("#")[2]
        (right if said == rollout.prompt.answer else others).append(rollout.reward)
    assert right and others and np.mean(right) > np.mean(others)


def values_steps(done: Done) -> None:
    probes = done.metric("controls.step_values/probes")
    assert probes == [len(done.batches[0].asides), sum(len(b.asides) for b in done.batches)]
    assert done.metric("controls.step_values/steps")[-1] > 1
    assert done.run.tokens()["aside:probe"] > 0
    inner = sum(follows_the_steps(done, groups=batch.groups) for batch in done.batches)
    assert inner, "values differ within a rollout"


def follows_the_steps(done: Done, *, groups: Sequence[Group]) -> int:
    """Rollouts whose values differ; the whitened advantages are one line of the differences."""
    inner, wanted, found = 0, list[float](), list[float]()
    for group in groups:
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            value_T, step_T = (np.asarray(signal.scores[n]) for n in ("value", "step"))
            starts = np.flatnonzero(np.diff(step_T, prepend=-1))
            ends = [done.run.codec.decode([t]) for t in rollout.tokens_T[starts[1:] - 1].tolist()]
            assert all("," in text for text in ends)
            wanted += np.diff([*value_T[starts], float(rollout.reward or 0)]).tolist()
            found += np.asarray(signal.advantage)[starts].tolist()
            inner += len(starts) > 2 and bool(np.ptp(value_T) > 0)
    slope, shift = np.polyfit(wanted, found, 1)
    assert slope > 0
    np.testing.assert_allclose(found, slope * np.array(wanted) + shift, atol=1e-4)
    return inner


CASES = {
    "rlpr": Case(check=weighs_references, knobs={"group_size": 4}),
    "ttrl": Case(check=votes, knobs={"group_size": 8, "answer": "#(.*)"}),
    "vineppo": Case(
        check=values_steps,
        knobs={"group_size": 2, "samples": 3, "separator": ",", "most_steps": 4},
        trains=True,
    ),
}
