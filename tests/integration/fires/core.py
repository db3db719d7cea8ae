"""The first fourteen strategies at work."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.tools.calculator import Calculator
from gfcr.types import FinishReason, Sample
from tests.integration.demo_floor import fresh, positions
from tests.integration.fires.case import Case, Done
from tests.tools import said


def refills(done: Done) -> None:
    assert max(done.metric("controls.refill/rounds")) > 1
    assert done.run.tokens()["rejected:zero_variance"] > 0
    assert all(np.ptp(g.raw_rewards_N) > 0 for g in done.groups if g.rejected is None)


def skips(done: Done) -> None:
    skipped = done.metric("controls.greso/skipped")
    assert skipped[0] == 0 < skipped[1]


def samples_in_rounds(done: Done) -> None:
    assert max(done.metric("controls.reinforce_ada/rounds")) > 1
    sizes = {len(g.rollouts) for g in done.groups}
    assert len(sizes) > 1 and all(size % 4 == 0 for size in sizes)
    assert max(int(g.kept_N.sum()) for g in done.groups) == 4


def resumes(done: Done) -> None:
    assert (
        done.batches[0].aborted
        and done.batches[0].metrics["replays.partial_rollouts/held_tokens"] > 0
    )
    assert done.metric("replays.partial_rollouts/resumed_tokens")[1] > 0
    trained = [s.rollout for s in done.batches[1].samples]
    stitched = [r for r in trained if {0, 1} <= set(r.versions_T[r.mask_T].tolist())]
    assert stitched and all((np.diff(r.versions_T) >= 0).all() for r in stitched)
    assert 0 < done.metric("off_policy/share")[1] < 1


def halts(done: Done) -> None:
    halted = [r for r in fresh(done.batches) if r.finish == FinishReason.HALTED]
    assert sum(done.metric("controls.repetition_stop/halted")) == len(halted) > 0
    for rollout in halted:
        period = int(rollout.detail.rpartition(" ")[2])
        tail = rollout.tokens_T[-2 * period :]
        assert (tail[:period] == tail[period:]).all() and tail[-1] != done.run.codec.eos_id


def branches(done: Done) -> None:
    assert {len(g.rollouts) for g in done.groups} == {30}
    made = {r.id: r for r in fresh(done.batches)}
    for leaf in (r for r in made.values() if r.parent):
        at, trunk = leaf.fork_at, made[leaf.parent]
        assert (leaf.tokens_T[:at] == trunk.tokens_T[:at]).all()
    once = len(positions(made.values()))
    assert done.run.tokens()["generated"] == once < sum(map(len, made.values()))
    varied = [s for b in done.batches for s in b.samples if np.ptp(s.advantage_T) > 0]
    assert varied  # an advantage of its own for each segment


def downsamples(done: Done) -> None:
    assert done.metric("rejected/pods") == [4 * 6.0] * 2
    assert {int(g.kept_N.sum()) for g in done.groups} == {2}
    assert done.run.tokens()["rejected:pods"] > done.run.tokens()["trained"]


def replays(done: Done) -> None:
    assert done.metric("rollouts/replayed") == [0, 16]
    replayed = [s.rollout for s in done.batches[1].samples if s.rollout.origin == "replay"]
    assert all((r.versions_T == 0).all() for r in replayed)
    assert done.run.tokens()["replayed"] == sum(map(len, replayed))


def calls_a_tool(done: Done) -> None:
    answered = 0
    for trained in (s for b in done.batches for s in b.samples):
        rollout, decode = trained.rollout, done.run.codec.decode
        outside = ~rollout.mask_T
        assert not trained.advantage_T[outside].any() and not rollout.logprobs_T[outside].any()
        edges = np.flatnonzero(np.diff(outside.astype(int), prepend=0, append=0))
        for start, stop in edges.reshape(-1, 2):
            asked, tokens = decode(rollout.tokens_T[:start]), rollout.tokens_T[start:stop]
            assert asked.endswith("=") and decode(tokens) in ("?", calculated(asked))
            answered += decode(tokens) != "?"
    assert answered


def steps(done: Done) -> None:
    """Each turn is a sample under the history before it, of its episode's reward."""
    turns: dict[tuple[str, float], list[Sample]] = {}
    for sample in (s for b in done.batches for s in b.samples):
        rollout = sample.rollout
        turns.setdefault((rollout.group_id, rollout.notes["episode"]), []).append(sample)
    assert max(map(len, turns.values())) > 1
    for episode in turns.values():
        assert all(s.rollout.mask_T.all() for s in episode[:-1])  # the last may reach its cap
        assert len({(s.rollout.reward, float(s.advantage_T[0])) for s in episode}) == 1
        for before, after in pairwise(r.rollout for r in episode):
            history = (*before.prompt.tokens, *before.tokens_T.tolist())
            assert after.prompt.tokens[: len(history)] == history
            assert len(after.prompt.tokens) > len(history)


def anchors(done: Done) -> None:
    """The first turns of a group begin in one state, and are compared by what they led to."""
    live = [g for g in done.groups if np.ptp(g.raw_rewards_N) > 0]
    assert live and max(len(g.rollouts) for g in live) > 4
    for group in live:
        first = [i for i, r in enumerate(group.rollouts) if r.notes["turn"] == 0]
        turns = Counter(r.notes["episode"] for r in group.rollouts)
        rewards_N = group.raw_rewards_N[first]
        later_N = np.array([turns[float(i)] - 1 for i in range(len(first))])
        compared = GroupAdvantage(epsilon=1e-6).compared
        own_N = compared(rewards_N) + compared(0.95**later_N * rewards_N)
        given = [group.signals[i].advantage for i in first]
        np.testing.assert_allclose(given, own_N, atol=1e-4)
        assert group.values["anchored"] >= len(first) == 4


def calculated(asked: str) -> str:
    try:
        return said(Calculator(), asked.removesuffix("="))
    except ValueError:
        return "?"


def compares(formula: Callable[[np.ndarray], np.ndarray]) -> Callable[[Done], None]:
    """Advantages are `formula` of a group's rewards."""

    def check(done: Done) -> None:
        for group in done.groups:
            got = np.array([s.advantage for s in group.signals], np.float64)
            np.testing.assert_allclose(got, formula(group.raw_rewards_N), atol=1e-4)
        assert any(np.ptp(g.raw_rewards_N) > 0 for g in done.groups)

    return check


def standardised(rewards: np.ndarray) -> np.ndarray:
    """GRPO's advantages."""
    return (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)


FEW = {"group_size": 4}
CASES = {
    **dict.fromkeys(("cispo", "gspo", "sapo", "vespo"), Case(check=compares(standardised))),
    "april": Case(check=resumes, trains=True, on_policy=False),
    "dapo": Case(check=refills, knobs={"group_size": 2}),
    "dr_grpo": Case(check=compares(lambda r: r - r.mean())),
    "greso": Case(
        check=skips,
        knobs={"group_size": 2, "p_easy": 0.05, "p_hard": 0.05},
        prompts=6,
        num_train=12,
        rate=lambda prompt: 0.5 if len(prompt.text) % 4 else 1.0,
    ),
    "grpo": Case(check=compares(standardised), trains=True),
    "multi_turn": Case(check=calls_a_tool, trains=True),
    "pods": Case(check=downsamples, knobs={"group_size": 8, "keep": 2}),
    "reinforce_ada": Case(check=samples_in_rounds, knobs=FEW | {"keep": 4}),
    "repetition_stop": Case(
        check=halts, knobs={"max_period": 3, "min_repeats": 2, "min_tokens": 2}
    ),
    "repo": Case(
        check=replays,
        knobs=FEW | {"num": 4, "min_cached": 4},
        num_train=4,
        trains=True,
        on_policy=False,
    ),
    "rloo": Case(check=compares(lambda r: (r - r.mean()) * len(r) / (len(r) - 1)), trains=True),
    "gigpo": Case(check=anchors, knobs=FEW, trains=True),
    "stepwise": Case(check=steps, knobs=FEW, trains=True),
    "treerl": Case(check=branches, prompts=2, trains=True),
}
