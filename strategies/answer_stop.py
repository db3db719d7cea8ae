"""GRPO that ends rollouts which have answered."""

from gfcr.control.answer_stop import AnswerStop
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy


def answer_stop(
    *, group_size: int = 8, pattern: str = r"#(-?\d+)", times: int = 1, every: int = 8
) -> Strategy:
    """GRPO whose rollouts are halted once they have given the same answer `times` times.

    Paper: none, ours
    Formula: halt when the last `times` matches of `pattern` with text behind them are equal;
        A_i as GRPO.
    Knobs: group_size, pattern, times, every (tokens between two looks).
    Hurts: where the policy corrects itself late; ending by itself is not learned from what is
        halted.
    """
    return Strategy(
        name="answer_stop",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(kind="grpo")},
        controls={"answer_stop": AnswerStop(pattern=pattern, times=times, every=every)},
        group_size=group_size,
    )
