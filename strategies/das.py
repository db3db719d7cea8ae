"""GRPO that drafts from what the same problems were answered before."""

from typing import Literal

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.speculation.das import Das
from gfcr.strategy import Strategy


def das(
    *,
    group_size: int = 8,
    draft_length: int = 8,
    scope: Literal["problem", "global", "both"] = "problem",
    budget: Literal["none", "classes", "optimal"] = "classes",
    history: str = "",
) -> Strategy:
    """GRPO, with drafts from suffix trees of each problem's recent rollouts, long requests first.

    Paper: 2511.13841
    Formula: draft = the most frequent continuation of the context's matching end, in a tree of the
        problem's last rollouts; J = c_base max_i (l_i - A_i(p_i)) + c_tok sum_i p_i is what the
        budget minimises, A(p) = k l (1 - exp(-alpha p / l)). What is sampled stays exact.
    Knobs: group_size; draft_length (most tokens a verification drafts); scope of a tree (problem,
        global, both); budget (none, classes of length, optimal); history (a file that keeps the
        trees from run to run).
    Hurts: large batches on hardware where a drafted token costs like a sampled one, and prompts
        that never come back.
    """
    drafter = Das(draft_length=draft_length, scope=scope, budget=budget, history=history)
    return Strategy(
        name="das",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        drafter=drafter,
        group_size=group_size,
    )
