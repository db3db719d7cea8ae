"""Hints at work."""

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


CASES = {
    "scaf_grpo": Case(
        check=scaffolds,
        knobs={"group_size": 2, "most": 1.0, "tiers": 2},
        prompts=16,
        on_policy=False,
        trains=True,
    ),
}
