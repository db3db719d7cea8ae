"""Online DPO."""

from gfcr.filter.preference_pairs import PreferencePairs
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.types import Loss


def dpo(*, group_size: int = 8, beta: float = 0.1) -> Strategy:
    """Online DPO: of each group the best answer is preferred to the worst.

    Paper: 2305.18290
    Formula: -log sigmoid(beta (log pi/pi_ref of the best - log pi/pi_ref of the worst)), pi_ref the
        starting policy; dead groups are left out.
    Knobs: group_size, beta (what a preference may cost in divergence; paper: 0.1).
    Hurts: of a group two rollouts are learned from; groups without a difference are wasted.
    """
    return Strategy(
        name="dpo",
        generate=Sample(),
        filters={"pair": PreferencePairs()},
        loss=Loss(estimator="dpo", beta=beta),
        group_size=group_size,
    )
