"""SPEED-RL."""

from gfcr.control.speed import Speed
from gfcr.correction.truncated import Truncated
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.replay.partial_rollouts import PartialRollouts
from gfcr.strategy import Strategy


def speed(*, group_size: int = 4, more: int = 20, ahead: int = 8) -> Strategy:
    """Screens prompts with a few rollouts; only those with right and wrong ones get the rest.

    Paper: 2506.09016
    Formula: n = group_size rollouts; if their rewards differ, `more` on top, else the next prompt;
        expected cost of a trained prompt: more + n / (1 - p^n - (1 - p)^n); A_i = r_i - mean of the
        others over all n + more, weighted by min(pi / pi_sampled, cap) token by token. The loss is
        PPO's, a mean over tokens: the sequence's ratio of RLOO has no place for such weights.
    Knobs: group_size (N_init; authors' script: 4), more (N_cont; authors' script: 20), ahead
        (prompts begun beyond the batch, whose rollouts are kept for the next one; authors' script:
        64 screened for 16 trained; 0 trains on-policy).
    Hurts: where most prompts have signal, screening only makes groups wait; what was begun ahead
        is of an older policy in part, hence the correction, which is ours.
    """
    return Strategy(
        name="speed",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="rloo")},
        controls={"speed": Speed(more=more, ahead=ahead)},
        replays={"partial_rollouts": PartialRollouts()},
        group_size=group_size,
        correction=Truncated(),
    )
