"""Equality of text."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers.base import Verifier, plain
from gfcr.values.ranges import Word


@final
@dataclass(frozen=True, kw_only=True)
class Exact(Verifier):
    """1 if what follows the last `marker` is the answer's, white space around both ignored."""

    origin: ClassVar[str] = "ours"

    marker: Word = ""
    """Empty compares whole texts; a completion that lacks it scores 0, an answer is then whole."""
    ignore_case: bool = False

    def verify(self, text: str, *, answer: str) -> Verdict:
        """Compares; there is nothing that cannot be judged."""
        if self.marker and self.marker not in text:
            return Verdict(reward=0.0)
        parts = ((t.rpartition(self.marker)[2] if self.marker else t) for t in (text, answer))
        given, right = (plain(part, caseless=self.ignore_case) for part in parts)
        return Verdict(reward=float(given == right))
