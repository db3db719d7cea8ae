"""Equality of numbers within a tolerance."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers.base import Verifier
from gfcr.values.ranges import NonNegative, Word

_NUMBER: Final = re.compile(
    r"(?:(?<![\w)])[-+])?"  # a sign, unless it is an operator
    r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?|\.\d+)"
    r"(?:e[-+]?\d+)?(?:/\d+)?",
    re.IGNORECASE,
)


@final
@dataclass(frozen=True, kw_only=True)
class Numeric(Verifier):
    """1 if the last number of the completion is the answer's last number, within a tolerance.

    Reads `1,234.5`, `-2e3` and `3/4`. With `marker`, only what follows its last occurrence counts
    (GSM8K answers end in `#### 42`: both sides then agree on the number meant).
    """

    origin: ClassVar[str] = "ours"

    tolerance: NonNegative = 0.0
    """Largest difference allowed, absolute, or relative to the answer if that is larger."""
    marker: Word = ""

    def verify(self, text: str, *, answer: str) -> Verdict:
        """Compares; an answer without a number cannot be judged against."""
        right = last_number(answer)
        if right is None:
            return Verdict(reward=None, error=f"the answer {answer!r} holds no number")
        if self.marker and self.marker not in text:
            return Verdict(reward=0.0)
        given = last_number(text.rpartition(self.marker)[2] if self.marker else text)
        if given is None:
            return Verdict(reward=0.0)
        slack = Fraction(self.tolerance) * max(1, abs(right))
        return Verdict(reward=float(abs(given - right) <= slack))

    def check(self, answer: str) -> str | None:
        """Returns what is wrong with an answer without a number."""
        return None if last_number(answer) is not None else "it holds no number"


def last_number(text: str) -> Fraction | None:
    """Returns the last number written in a text, exactly."""
    for written in reversed(_NUMBER.findall(text)):
        number = _parse(written.replace(",", ""))
        if number is not None:
            return number
    return None


def _parse(written: str) -> Fraction | None:
    exponent = written.lower().partition("e")[2]
    # 1e999999999 is a valid number that fills the memory.
    if len(exponent) > 4:
        return None
    try:
        return Fraction(written)
    except (ValueError, ZeroDivisionError):
        return None
