"""Strategies that choose prompts, at work."""

import numpy as np

from tests.integration.fires.case import Case, Done


def screens(done: Done) -> None:
    out = [g for g in done.groups if g.rejected == "screened_out"]
    trained = [g for b in done.batches for g in b.accepted]
    assert out and len(trained) == 8
    assert all(np.ptp(g.raw_rewards_N) == 0 and len(g.rollouts) == 2 for g in out)
    assert all(np.ptp(g.raw_rewards_N[:2]) > 0 and len(g.rollouts) == 6 for g in trained)
    screened = done.metric("controls.speed/screened")
    assert done.metric("replays.partial_rollouts/resumed_tokens")[1] > 0
    assert sum(screened) == len(out) + len(trained)
    assert done.run.tokens()["rejected:screened_out"] > 0


def knows_prompts(done: Done) -> None:
    assert done.metric("controls.mopps/passed_over") == [4.0, 4.0]
    assert done.metric("controls.mopps/known")[0] == 0
    assert len(done.run.strategy.controls["mopps"].state_dict()["posterior"]) >= 4


def asks_again(done: Done) -> None:
    first, second = ([g.prompt.id for g in b.groups] for b in done.batches)
    middling = {g.prompt.id for g in done.batches[0].groups if 0 < g.raw_rewards_N.mean() < 1}
    again = done.metric("replays.prompt_replay/again")
    assert again[0] == 0 < again[1] == min(3, len(middling))
    assert len(middling & set(second) & set(first)) >= again[1]
    assert all(r.step == 1 for g in done.batches[1].groups for r in g.rollouts)


CASES = {
    "mopps": Case(check=knows_prompts, knobs={"group_size": 4, "candidates": 2}, num_train=16),
    "prompt_replay": Case(
        check=asks_again,
        knobs={"group_size": 4, "low": 0.01, "high": 0.99, "cooldown": 0},
    ),
    "speed": Case(check=screens, knobs={"group_size": 2, "more": 4, "ahead": 4}, on_policy=False),
}
