"""S-GRPO."""

from gfcr.filter.exit_reward import ExitReward
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.serial_exits import SerialExits
from gfcr.strategy import Strategy


def s_grpo(
    *, group_size: int = 1, exits: int = 8, answer_tokens: int = 64, decay: float = 0.5
) -> Strategy:
    """One thought, left early at several places; the first right answers are paid most.

    Paper: 2505.07686
    Formula: r = decay^(k - 1) for the k-th right answer in the order of the exits, else 0;
        A = r - mean(r).
    Knobs: group_size (thoughts, paper: 1), exits (notes on the paper: 3 to 8), answer_tokens
        (ours), decay (paper: 1/2). `generate.marker` induces an answer.
    Hurts: where answers need the thought to its end; a group is of one thought, so that nothing is
        learned of another one, and an update has few that are independent: it wants a lower
        learning rate than GRPO. In the regime overthinking it forgets at GRPO's (held-out 0.69 to
        0.63 in 24 updates, five seeds), and at a quarter of it does not (0.69 to 0.70, five seeds,
        answers 7 % shorter).
    """
    return Strategy(
        name="s_grpo",
        generate=SerialExits(exits=exits, answer_tokens=answer_tokens),
        filters={
            "exit_reward": ExitReward(decay=decay),
            "advantage": GroupAdvantage(kind="dr_grpo"),
        },
        group_size=group_size,
    )
