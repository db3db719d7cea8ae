"""Extraction by a pattern, then equality."""

import re
from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.errors import ConfigError
from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers.base import Verifier, plain
from gfcr.values.ranges import Text


@final
@dataclass(frozen=True, kw_only=True)
class Regex(Verifier):
    r"""1 if group 1 of the pattern's last match equals the answer: `<answer>(.*?)</answer>`.

    Slow, because a pattern can backtrack for ever: it runs where it can be killed. `.` matches line
    breaks too.
    """

    origin: ClassVar[str] = "ours"

    slow = True

    pattern: Text
    ignore_case: bool = False

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            raise ConfigError(
                f"regex.pattern={self.pattern!r} is no regular expression: {error}."
            ) from error
        if groups < 1:
            raise ConfigError(
                f"regex.pattern={self.pattern!r} has no group: put parentheses around the part "
                "that is the answer, such as `answer: (\\d+)`."
            )

    def verify(self, text: str, *, answer: str) -> Verdict:
        """Compares; a completion the pattern is not found in scores 0."""
        flags = re.DOTALL | (re.IGNORECASE if self._caseless else 0)
        # Behind the last line, `(.*)` and `(\d*)$` match once more, and nothing.
        matches = [m for m in re.finditer(self.pattern, text, flags) if m[0] or m[1]]
        given = plain(matches[-1][1] or "", caseless=self._caseless) if matches else None
        return Verdict(reward=float(given == plain(answer, caseless=self._caseless)))

    @property
    def _caseless(self) -> bool:
        """Whether case is ignored: by the option, or since the pattern begins with `(?i)`."""
        return self.ignore_case or bool(re.compile(self.pattern).flags & re.IGNORECASE)
