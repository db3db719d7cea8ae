"""Equality of text."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers.base import Verifier, plain
from gfcr.values.ranges import Word


@final
@dataclass(frozen=True, kw_only=True)
class Exact(Verifier):
    """1 if what follows the last `marker` equals the answer, white space around both ignored."""

    origin: ClassVar[str] = "ours"

    marker: Word = ""
    """Empty compares the whole completion; a completion without the marker scores 0."""
    ignore_case: bool = False

    def verify(self, text: str, *, answer: str) -> Verdict:
        """Compares; there is nothing that cannot be judged."""
        if self.marker and self.marker not in text:
            return Verdict(reward=0.0)
        given = text.rpartition(self.marker)[2] if self.marker else text
        same = plain(given, caseless=self.ignore_case) == plain(answer, caseless=self.ignore_case)
        return Verdict(reward=float(same))
