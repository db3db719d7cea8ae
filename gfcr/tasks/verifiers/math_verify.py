"""Equality of mathematical expressions, by the math-verify library."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, final

from annotated_types import Interval

from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers.base import Verifier


@final
@dataclass(frozen=True, kw_only=True)
class MathVerify(Verifier):
    r"""1 if the completion's expression equals the answer's (`\frac12` is 0.5).

    Needs the extra `gfcr[tasks]`. The library's own time-outs use SIGALRM, which works in main
    threads only and scores 0 when it fires: they are off, and the process pool keeps the time.
    """

    origin: ClassVar[str] = "ours"

    slow = True

    precision: Annotated[int, Interval(ge=0, le=15)] = 6
    """Decimals that floats are rounded to before they are compared."""
    strict: bool = True
    """False also equates sets with intervals and the like."""

    def verify(self, text: str, *, answer: str) -> Verdict:
        """Compares; an answer that cannot be parsed cannot be judged against."""
        import math_verify  # pyright: ignore[reportMissingTypeStubs]

        library: Any = math_verify  # untyped
        # Plain answers such as `1/2` are LaTeX only within dollars.
        gold = library.parse(_as_math(answer), parsing_timeout=None, raise_on_error=True)
        if not gold:
            return Verdict(reward=None, error=f"math-verify finds nothing in the answer {answer!r}")
        # A completion with nothing to parse is wrong; only a failing comparison is unscorable.
        given = library.parse(text, parsing_timeout=None)
        equal = library.verify(
            gold,
            given,
            float_rounding=self.precision,
            strict=self.strict,
            timeout_seconds=None,
            raise_on_error=True,
        )
        return Verdict(reward=float(equal))


def _as_math(answer: str) -> str:
    return answer if "$" in answer or "\\boxed" in answer else f"${answer}$"
