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


def estimates_difficulty(done: Done) -> None:
    part = done.run.strategy.controls["cdas"].state_dict()
    visited = done.metric("controls.cdas/visited")
    assert visited[0] == 4 < visited[1] == len(part["difficulty"])
    assert sum(visits for _, visits in part["difficulty"].values()) == 8
    assert all(abs(d) <= 0.25 for d, visits in part["difficulty"].values() if visits == 1)
    assert len({d for d, _ in part["difficulty"].values()}) > 1
    mean = sum(d for d, _ in part["difficulty"].values()) / 16
    assert abs(part["competence"] + mean) < 1e-6


def sorts_prompts(done: Done) -> None:
    means = done.run.strategy.controls["difficulty_pools"].state_dict()["means"]
    last = {g.prompt.id: float(g.raw_rewards_N.mean()) for g in done.groups}
    assert means == last and 4 <= len(means) <= 8
    easy = sum(mean >= 0.8 for mean in last.values())
    hard = sum(mean <= 0.2 for mean in last.values())
    sizes = [done.metric(f"controls.difficulty_pools/{k}")[1] for k in ("easy", "hard", "normal")]
    assert sizes == [easy, hard, 16 - easy - hard]


def learns_success_rates(done: Done) -> None:
    assert done.metric("controls.pcl/passed_over") == [12, 12]
    assert done.metric("controls.pcl/expected")[0] == 0.5 != done.metric("controls.pcl/expected")[1]
    rates = [float(g.raw_rewards_N.mean()) for g in done.batches[0].groups]
    error = np.sqrt(np.mean([(0.5 - rate) ** 2 for rate in rates]))
    assert abs(done.metric("controls.pcl/error")[0] - error) < 1e-6


def pays_categories(done: Done) -> None:
    part = done.run.strategy.controls["sec"].state_dict()
    assert len(part["values"]) > 1 and max(part["values"].values()) > 0
    asked = {str(g.prompt.meta["terms"]) for g in done.groups}
    assert all(q == 0 for name, q in part["values"].items() if name not in asked)
    shares = [v for k, v in done.batches[1].metrics.items() if "sec/share_" in k]
    assert abs(sum(shares) - 1) < 1e-6


def refills_from_the_bank(done: Done) -> None:
    refilled = done.metric("controls.vcrl_bank/refilled")
    assert refilled[0] == 0 < refilled[1] and max(done.metric("controls.refill/rounds")) > 1
    trained = {g.prompt.id for g in done.batches[0].accepted}
    assert sum(g.prompt.id in trained for g in done.batches[1].groups) >= refilled[1]
    assert all(r.step == 1 for g in done.batches[1].groups for r in g.rollouts)


CASES = {
    "cdas": Case(check=estimates_difficulty, num_train=16),
    "difficulty_pools": Case(check=sorts_prompts, num_train=16),
    "mopps": Case(check=knows_prompts, knobs={"group_size": 4, "candidates": 2}, num_train=16),
    "pcl": Case(check=learns_success_rates),
    "prompt_replay": Case(
        check=asks_again,
        knobs={"group_size": 4, "low": 0.01, "high": 0.99, "cooldown": 0},
    ),
    "sec": Case(check=pays_categories, knobs={"by": "terms"}),
    "speed": Case(check=screens, knobs={"group_size": 2, "more": 4, "ahead": 4}, on_policy=False),
    "vcrl": Case(check=refills_from_the_bank, knobs={"group_size": 2, "max_rounds": 10}),
}
