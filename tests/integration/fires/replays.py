"""What earlier updates made, at work again."""

import numpy as np

from gfcr.types import Rollout
from tests.integration.fires.case import Case, Done

FEW = {"group_size": 4}


def replayed(done: Done) -> list[Rollout]:
    """The trained rollouts of earlier updates: as they were sampled, and counted as replayed."""
    again = [s.rollout for s in done.batches[1].samples if s.rollout.origin == "replay"]
    assert again and not done.metric("rollouts/replayed")[0]
    made = {r.spans: r for g in done.batches[0].groups for r in g.rollouts}
    for rollout in again:
        old = made[rollout.spans]
        assert (rollout.tokens_T == old.tokens_T).all() and (rollout.versions_T == 0).all()
        np.testing.assert_array_equal(rollout.logprobs_T, old.logprobs_T)
    assert done.run.tokens()["replayed"] == sum(map(len, again))
    return again


def joins(done: Done) -> None:
    assert all(r.reward == 1 for r in replayed(done))
    assert max(len(g.rollouts) for g in done.batches[1].groups) > 4


def rescues(done: Done) -> None:
    replayed(done)
    for group in done.batches[1].groups:
        own = [r.reward for r in group.rollouts if r.origin == "fresh"]
        assert not (len(own) < len(group.rollouts) and max(own) >= 0.5)


def asks_again(done: Done) -> None:
    again = replayed(done)
    assert len(again) == done.metric("replays.exgrpo/again")[1] > 0
    assert {len(g.rollouts) for g in done.groups} == {4}


def fills_in(done: Done) -> None:
    replayed(done)
    count = done.metric("replays.group_replay/replayed")[1]
    whole = [g for g in done.batches[1].groups if g.rollouts[0].origin == "replay"]
    assert len(whole) == count > 0
    assert done.run.tokens()["rejected:zero_variance"] > 0


def draws_half(done: Done) -> None:
    replayed(done)
    again = [[g.rollouts[0].origin == "replay" for g in b.groups] for b in done.batches]
    assert [(sum(each), len(each)) for each in again] == [(0, 4), (2, 4)]


def rises(done: Done) -> None:
    """Sums of two terms first, whose answers are all right."""
    terms = [{g.prompt.meta["terms"] for g in b.groups} for b in done.batches]
    assert terms == [{2}, {2, 3}]
    assert done.metric("replays.rising_levels/top")[0] == 1
    assert done.metric("replays.rising_levels/made")[1] == len(done.groups)


CASES = {
    "rlve": Case(
        check=rises,
        knobs={"group_size": 4, "promote": 0.5, "least": 8},
        prompts=8,
        rate=lambda prompt: 1.0 if prompt.meta["terms"] == 2 else 0.5,
        trains=True,
    ),
    "ar3po": Case(
        check=rescues,
        knobs={"group_size": 1, "max_rounds": 1},
        rate=lambda prompt: 0.25,
        num_train=8,
        prompts=8,
        on_policy=False,
    ),
    "exgrpo": Case(
        check=asks_again, knobs=FEW | {"begin": 0.0}, num_train=6, trains=True, on_policy=False
    ),
    "experience_replay": Case(check=draws_half, knobs=FEW, on_policy=False),
    "group_replay": Case(
        check=fills_in, knobs={"group_size": 2}, prompts=8, trains=True, on_policy=False
    ),
    "rlep": Case(check=joins, knobs=FEW, num_train=4, on_policy=False),
}
