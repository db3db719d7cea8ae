"""ARPO."""

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.tool_tree import ToolTree
from gfcr.strategy import Strategy


def arpo(
    *,
    group_size: int = 16,
    initial: int = 8,
    beam: int = 2,
    base: float = 0.5,
    weight: float = 0.2,
    threshold: float = 0.5,
    stop: str = "=",
    max_turns: int = 16,
) -> Strategy:
    """GRPO over rollouts that branch where a tool's answer leaves the policy less sure.

    The tool is the calculator, or the one that `generate.tool` names.

    Paper: 2507.19849
    Formula: behind an answer P = base + weight (H - H_0), H the mean -log p of the first tokens
        there, H_0 at the beginning; a branch where P > threshold. A_i as GRPO: a token that d
        rollouts share is trained d times, with the mean of their advantages (the paper's soft
        estimate, the same as its hard one where the policy has not moved yet).
    Knobs: group_size (paper: 16), initial (rollouts to begin with, paper: 8), beam (rollouts from a
        place, paper: 2), base (alpha, paper: 0.5), weight (beta, paper: 0.2), threshold (tau, ours:
        0.5, any rise), stop (the text that calls the tool), max_turns.
    Hurts: branches share their beginnings and explore less than as many rollouts; a turn waits for
        all rollouts of its prompt.
    """
    return Strategy(
        name="arpo",
        generate=ToolTree(
            initial=initial,
            beam=beam,
            base=base,
            weight=weight,
            threshold=threshold,
            stop=stop,
            max_turns=max_turns,
        ),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        group_size=group_size,
    )
