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


CASES = {
    "temperature_ladder": Case(check=warms, knobs={"group_size": 4}),
    "few_shot": Case(
        check=shows_examples, knobs={"group_size": 2}, prompts=8, on_policy=False, trains=True
    ),
    "self_repair": Case(check=repairs, knobs={"group_size": 2}, prompts=16, trains=True),
    "prefix_restart": Case(
        check=restarts, knobs={"group_size": 2}, prompts=32, num_train=32, trains=True
    ),
    "scaf_grpo": Case(
        check=scaffolds,
        knobs={"group_size": 2, "most": 1.0, "tiers": 2},
        prompts=16,
        on_policy=False,
        trains=True,
    ),
}
