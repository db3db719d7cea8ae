"""Hints, examples and second tries at work."""

import numpy as np

from tests.integration.fires.case import Case, Done


def scaffolds(done: Done) -> None:
    """What is right under a hint alone is trained without it, in the place of a wrong rollout."""
    asked, helped = (sum(done.metric(f"controls.scaffold/{n}")) for n in ("asked", "helped"))
    assert asked > 0 < helped
    hinted = [r for g in done.groups for r in g.rollouts if "hint" in r.notes]
    assert all(r.sampled_under and r.sampled_under != r.prompt.tokens for r in hinted)
    trained = [s.rollout for b in done.batches for s in b.samples if "hint" in s.rollout.notes]
    assert len(trained) == helped and all(r.reward == 1 for r in trained)
    assert {int(g.kept_N.sum()) for g in done.groups} == {2}
    assert done.run.tokens()["rejected:replaced"] > 0


def shows_examples(done: Done) -> None:
    """Behind examples of the first update, in the second."""
    told = [r for g in done.batches[1].groups for r in g.rollouts if r.notes.get("examples")]
    assert len(told) == done.metric("generate/seeded")[1] > 0
    for rollout in told:
        text = done.run.codec.decode(rollout.sampled_under)
        assert text.endswith(f",{rollout.prompt.text}")
    assert not any(r.sampled_under for g in done.batches[0].groups for r in g.rollouts)


def restarts(done: Done) -> None:
    """Behind answers of the first update, in the second: these tokens are not trained."""
    again = [r for g in done.batches[1].groups for r in g.rollouts if "hint" in r.notes]
    behind = [r for r in again if not r.mask_T.all()]
    assert len(behind) == done.metric("generate/restarted")[1] > 0
    right = [r.text for g in done.batches[0].groups for r in g.rollouts if r.reward == 1]
    for rollout in behind:
        prefix = done.run.codec.decode(rollout.tokens_T[~rollout.mask_T].tolist())
        assert prefix and any(text.startswith(prefix) for text in right)


def repairs(done: Done) -> None:
    again = [r for g in done.groups for r in g.rollouts if "repair" in r.notes]
    assert len(again) == done.metric("generate/tried")[1] > 0
    assert 0 < done.metric("generate/repaired")[1] <= len(again)
    first = {r.text for g in done.groups for r in g.rollouts if "repair" not in r.notes}
    for rollout in again:
        plain = rollout.prompt.text.rpartition("?")[2]
        attempt = rollout.prompt.text.removeprefix(plain).removesuffix(f"?{plain}")
        assert attempt in first and not rollout.sampled_under


def warms(done: Done) -> None:
    """Each at its own temperature: the scores of the floor are at these."""
    for group in done.groups:
        heats = [r.notes["temperature"] for r in group.rollouts]
        np.testing.assert_allclose(heats, [0.8, 0.95, 1.1, 1.25])


def plans(done: Done) -> None:
    """Two plans a group, up to a comma, and two answers to each that go on from it."""
    made = [r for g in done.groups for r in g.rollouts if "plan" in r.notes]
    forks = [r for r in made if r.parent]
    assert 2 * len(forks) == len(made) and done.metric("generate/plans")[1] == len(forks) > 8
    by_id = {r.id: r for r in made}
    for rollout in forks:
        num, other = int(rollout.notes["planned"]), by_id[str(rollout.parent)]
        shared = rollout.tokens_T[:num].tolist()
        assert done.run.codec.decode(shared).endswith(",") and rollout.fork_at == num
        assert shared == other.tokens_T[:num].tolist() and rollout.spans[0] == other.spans[0]
    assert len({r.text for r in made}) > len(forks)


def sharpens(done: Done) -> None:
    """A chain leaves one trajectory for each proposal, and goes where it is likelier."""
    own = done.run.strategy.generate.metrics()
    cut = [r for b in done.batches for r in b.aborted]
    assert len(cut) == own["proposed"] >= 2 * 16 * 3 and 0 < own["taken"] < 1
    assert {r.detail for r in cut} == {"not taken", "left for another"}
    assert {len(g.rollouts) for g in done.groups} == {4}
    kept = [float(r.logprobs_T.sum()) for g in done.groups for r in g.rollouts]
    first = [float(r.logprobs_T.sum()) for r in cut if r.parent is None]
    assert np.mean(kept) > np.mean(first) and done.run.tokens()["aborted"] > 0


CASES = {
    "power_sampling": Case(check=sharpens, knobs={"group_size": 4, "steps": 3, "block": 160}),
    "plan_then_act": Case(check=plans, knobs={"group_size": 4, "answers": 2}, trains=True),
    "temperature_ladder": Case(check=warms, knobs={"group_size": 4}),
    # Of a prompt's answers the first is right, then the fifth: in the second update none of two is.
    "few_shot": Case(
        check=shows_examples,
        knobs={"group_size": 2},
        prompts=8,
        num_train=8,
        rate=lambda prompt: 0.25,
        trains=True,
    ),
    "self_repair": Case(check=repairs, knobs={"group_size": 2}, prompts=16, trains=True),
    "prefix_restart": Case(
        check=restarts, knobs={"group_size": 2}, prompts=32, num_train=32, trains=True
    ),
    "scaf_grpo": Case(
        check=scaffolds,
        knobs={"group_size": 2, "most": 1.0, "tiers": 2},
        prompts=48,
        trains=True,
    ),
}
