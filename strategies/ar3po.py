"""AR3PO."""

from gfcr.control.reinforce_ada import ReinforceAda
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.rescue import Rescue
from gfcr.strategy import Strategy


def ar3po(
    *, group_size: int = 4, max_rounds: int = 2, num: int = 1, threshold: float = 0.5
) -> Strategy:
    """More rollouts for prompts without a right one, and earlier right ones where that fails.

    Paper: 2509.25808
    Formula: rounds of group_size rollouts until one is right, `max_rounds` at most; a group all
        wrong is joined by `num` earlier right rollouts of its prompt; A = (r - mean) / std.
    Knobs: group_size (ours: half of GRPO's 8), max_rounds (ours: 2), num (ours: 1),
        threshold (reward from which a rollout is right; ours: 0.5).
    Hurts: easy prompts are trained on few rollouts; what is reused is taught as the policy's own.
    """
    # What is right ends the rounds and calls off the rescue: with two thresholds a group between
    # them would be paid for as unsolved, and not be rescued.
    more = ReinforceAda(mode="positive", max_rounds=max_rounds, threshold=threshold)
    return Strategy(
        name="ar3po",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"more": more},
        replays={"rescue": Rescue(num=num, threshold=threshold)},
        group_size=group_size,
    )
