"""A gate on the form of a completion: a pattern that has to be in it."""

import re
from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.filter._gates import Gate
from gfcr.filter._texts import check_pattern, written
from gfcr.stages import View
from gfcr.types import Rollout
from gfcr.values.ranges import Natural, Text


@final
@dataclass(kw_only=True)
class FormatGate(Gate):
    r"""Fails completions without an answer in the form asked for, told from wrong answers.

    A completion passes with at least one match of `pattern`, and `at_most` matches where that is
    not 0 (a policy paid for an answer learns to give several). `.` matches line breaks too. What
    a tool said is not searched.

    Hurts where right answers have another form (rejected, the model is never taught the form:
    `failing: set` does) and where the pattern backtracks without end: it runs in the loop itself.
    """

    cell: ClassVar[str] = "F5.2"
    origin: ClassVar[str] = "ours"

    pattern: Text = r"#\s*[^\s#]|\\boxed\{"
    """By default the markers of chain sums, GSM8K and MATH; give the one that your prompt asks for,
    such as `<answer>.+?</answer>\\s*$`."""
    at_most: Natural = 0
    """Most matches; 0 is any number."""

    def __post_init__(self) -> None:
        check_pattern(self.pattern, key="format_gate.pattern")

    def passes(self, rollout: Rollout, *, view: View) -> bool:
        text = written(rollout, view=view)
        matches = sum(1 for _ in re.finditer(self.pattern, text, re.DOTALL))
        return 1 <= matches <= (self.at_most or matches)
