"""Problems of the policy's own making: whose they are, what the executor and the rewards say."""

from collections import defaultdict

import numpy as np

from gfcr.handles import PROPOSE, kind_of, role_of
from gfcr.tasks.programs import KINDS, Programs
from gfcr.types import Group, Rollout, RolloutBatch
from tests.integration.fires.case import Case, Done

TASK = Programs(seconds=30.0)


def proposals(batch: RolloutBatch) -> list[tuple[Group, Rollout]]:
    asking = [g for g in batch.groups if role_of(g.prompt) == PROPOSE]
    return [(g, r) for g in asking for r in g.rollouts]


def answers(done: Done, batch: RolloutBatch) -> dict[str, list[Rollout]]:
    """By the rollout that proposed what they answer."""
    found: dict[str, list[Rollout]] = defaultdict(list)
    for aside in batch.asides:
        assert aside.role == "solve"
        found[str(aside.prompt.meta["proposed_by"])].append(aside)
    spent = done.run.tokens()["aside:solve"]
    assert spent == sum(len(a) for b in done.batches for a in b.asides) > 0
    return found


def are_the_executors(done: Done, batch: RolloutBatch, *, samples: int) -> int:
    """Every valid proposal became the problem that the executor makes of it, and was tried."""
    tried, valid = answers(done, batch), 0
    for group, rollout in proposals(batch):
        posed = TASK.pose(group.prompt, text=rollout.text)
        asked = {a.prompt.text: a.prompt for a in tried.get(rollout.id, [])}
        assert asked.keys() == ({posed.text} if not posed.problem else set())
        for prompt in asked.values():
            assert prompt.answer == posed.answer and len(tried[rollout.id]) == samples
            assert prompt.meta["proposed_at"] == batch.version
            valid += 1
    return valid


def plays_both_parts(done: Done) -> None:
    for batch in done.batches:
        cells = defaultdict[tuple[str, str], list[float]](list)
        for group in batch.groups:
            own = [float(s.advantage or 0) for s in group.signals if s.reward is not None]
            cells[role_of(group.prompt), kind_of(group.prompt)] += own
        assert {kind for _, kind in cells} == {*KINDS} and len(cells) == 6
        assert all(abs(np.mean(own)) < 1e-4 for own in cells.values() if own)
        assert are_the_executors(done, batch, samples=4)
        tried = answers(done, batch)
        for _, rollout in proposals(batch):
            right = [TASK.verify(a.prompt, text=a.text).reward for a in tried.get(rollout.id, [])]
            solved = float(np.mean(np.array(right or [0], float)))
            assert rollout.reward is None or rollout.reward == (1 - solved if 0 < solved < 1 else 0)
    assert any(r.reward for b in done.batches for _, r in proposals(b))
    first, second = done.batches
    made = {r.id for _, r in proposals(first)}
    solved = [g.prompt for g in second.groups if role_of(g.prompt) != PROPOSE]
    assert any(p.meta.get("proposed_by") in made for p in solved)


def doubts_and_votes(done: Done) -> None:
    asked, solved = done.batches
    assert all(role_of(g.prompt) == PROPOSE for g in asked.groups)
    assert are_the_executors(done, asked, samples=5)
    rewards = np.array([r.reward for _, r in proposals(asked) if r.reward is not None])
    assert rewards.min() >= -1 and rewards.max() <= 0.5 - 1 / 4 and len({*rewards.tolist()}) > 1
    assert all(kind_of(g.prompt) == "deduction" for g in solved.groups)
    assert any("proposed_by" in g.prompt.meta for g in solved.groups)
    for group in solved.groups:
        texts = [r.text.strip() for r in group.rollouts]
        assert all(texts)
        best = max(texts.count(t) for t in texts)
        assert {t for t, r in zip(texts, group.raw_rewards_N, strict=True) if r} <= {
            t for t in texts if texts.count(t) == best
        }
        assert sum(group.raw_rewards_N) == best
        assert (group.rejected is None) == (0.3 <= best / len(texts) <= 0.8)


SMALL = {"model": "demo-programs", "num_train": 48, "max_tokens": 32}
CASES = {
    "absolute_zero": Case(
        check=plays_both_parts,
        knobs={"group_size": 2, "samples": 4, "begin": 48},
        prompts=12,
        trains=True,
        **SMALL,
    ),
    "r_zero": Case(
        check=doubts_and_votes,
        knobs={
            **{"group_size": 4, "samples": 5, "propose_for": 1, "solve_for": 1},
            **{"only": "deduction", "references": 4},
        },
        prompts=6,
        **SMALL,
    ),
}
