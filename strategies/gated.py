"""GRPO behind structural gates."""

from gfcr.filter.format_gate import FormatGate
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.truncation_gate import TruncationGate
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def gated(
    *,
    group_size: int = 8,
    pattern: str = FormatGate.pattern,
    malformed: float = -1.0,
) -> Strategy:
    """GRPO that leaves out rollouts cut at the cap, and tells malformed answers from wrong ones.

    Paper: none
    Formula: no loss where the cap cut; r_i = malformed where the pattern is not found; A_i as
        GRPO among the rest.
    Knobs: group_size, pattern (of an answer in form), malformed (reward of one that is not; wrong
        ones have the verifier's).
    Hurts: once all answers are in form the gate does nothing; a pattern that right answers can miss
        teaches the form in place of the task.
    """
    return Strategy(
        name="gated",
        generate=Sample(),
        filters={
            # It comes first, as a rollout that the cap has cut had no chance to end in form.
            "truncation": TruncationGate(),
            "format": FormatGate(pattern=pattern, failing="set", reward=malformed),
            "advantage": GroupAdvantage(kind="grpo"),
        },
        group_size=group_size,
    )
