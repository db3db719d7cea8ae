"""SPEC-RL."""

from typing import Literal

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.speculation.spec_rl import SpecRl
from gfcr.strategy import Strategy


def spec_rl(
    *,
    group_size: int = 8,
    rule: Literal["exact", "released"] = "exact",
    lenience: float | None = None,
    draft_length: int = 32,
    rematch: bool = True,
    same_slot: bool = False,
) -> Strategy:
    """GRPO whose drafts are the responses of each prompt's last visit, verified by the new policy.

    Paper: 2509.23232
    Formula: keep an old token d while u <= p(d) / q(d), q its law when it was sampled; at the cut
        draw from (p - q)+, normalised. `released`: while u <= lenience p(d) / q(d), then from p.
    Knobs: group_size (paper: 8), rule (paper: released; biased, never certified), lenience (of the
        released rule; null: e^0.5, the paper's), draft_length (paper: the whole response), rematch
        (paper: false), same_slot (paper: true).
    Hurts: prompts must come back; updates between two visits that move the policy far leave
        nothing to reuse; new rollouts resemble the old ones that the policy was trained on. Where
        prompts come back because of their outcomes, the same outcomes come back with them.
    """
    drafter = SpecRl(
        rule=rule,
        lenience=lenience,
        draft_length=draft_length,
        rematch=rematch,
        same_slot=same_slot,
    )
    return Strategy(
        name="spec_rl",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        drafter=drafter,
        group_size=group_size,
    )
