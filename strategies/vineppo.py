"""VinePPO: credit by Monte-Carlo values of steps."""

from gfcr.control.step_values import StepValues
from gfcr.filter.step_advantage import StepAdvantage
from gfcr.filter.whitened import Whitened
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def vineppo(
    *, group_size: int = 8, samples: int = 9, separator: str = "\n", most_steps: int = 16
) -> Strategy:
    r"""PPO's clipped loss with step advantages from continuations, in the place of a value network.

    Paper: 2410.01679
    Formula: A_k = V(k + 1) - V(k), A_K = r - V(K); V(k) the mean reward of `samples` continuations
        from the beginning of step k; then (A - mean) / std over the batch's tokens.
    Knobs: group_size (rollouts of a prompt; paper: 8), samples (K; paper: 9), separator (text that
        ends a step; paper: a line in GSM8K), most_steps (ours: more are joined).
    Hurts: a rollout costs about samples * steps / 2 more; of one step it is RLOO with a baseline of
        other rollouts.
    """
    return Strategy(
        name="vineppo",
        generate=Sample(),
        filters={"advantage": StepAdvantage(kind="difference"), "whitened": Whitened()},
        controls={
            "step_values": StepValues(samples=samples, separator=separator, most_steps=most_steps)
        },
        group_size=group_size,
    )
