"""Equality of mathematical expressions, by the math-verify library."""

from dataclasses import dataclass
from importlib import import_module
from itertools import product
from typing import Annotated, Any, ClassVar, final

from annotated_types import Interval

from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers import _expressions as expressions
from gfcr.tasks.verifiers.base import Verifier
from gfcr.values.fenced import said


@final
@dataclass(frozen=True, kw_only=True)
class MathVerify(Verifier):
    r"""1 if the completion's expression equals the answer's (`\frac12` is 0.5).

    Needs the extra `gfcr[tasks]`. Beside what the library equates: quantities below a thousandth
    are compared in their digits, not in their decimals; an answer of one letter, A to Z, is a
    choice, `(B)` and `The answer is B.`; one such as 12:00 is a time of the day. Units and words
    behind a number are not compared, `5 km` is `5 m`; `3t` and `3c` are no numbers.

    The library's own time-outs use SIGALRM, which works in main threads only and scores 0 when it
    fires: they are off, and the process pool keeps the time.
    """

    origin: ClassVar[str] = "ours"

    slow = True

    precision: Annotated[int, Interval(ge=0, le=15)] = 6
    """Decimals that floats are rounded to before they are compared; digits of small ones."""
    strict: bool = True
    r"""False also equates sets with intervals, `(-\infty, 3)` with `x < 3`, and the like."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Imports the library where the verifier arrives in a process: no answer's time goes by."""
        vars(self).update(state)
        import_module("math_verify")

    def verify(self, text: str, *, answer: str) -> Verdict:
        """Compares; an answer that cannot be parsed cannot be judged against."""
        text = said(text)
        if letter := expressions.CHOICE.fullmatch(answer.strip()):
            return Verdict(reward=float(expressions.choice(text) == letter[1]))
        gold = _parsed(expressions.as_math(answer), strictly=True)
        if not expressions.is_number_at_all(gold) and (time := expressions.clock(answer)):
            return Verdict(reward=float(expressions.clock(text) == time))
        if why := _unusable(gold):
            return Verdict(reward=None, error=f"{why} in the answer {answer!r}")
        if expressions.is_written(answer, text):
            return Verdict(reward=1.0)
        # A completion with nothing to parse is wrong; only a failing comparison is unscorable.
        names = {str(name) for found in gold for name in getattr(found, "free_symbols", ())}
        given = _parsed(expressions.prepared(text, names=names), strictly=False)
        pairs = [*product(gold, given)]
        if expressions.MEMBER.search(answer):  # whose set the library takes second alone
            pairs += product(given, gold)
        bare = filter(None, (expressions.without_percent(*pair) for pair in pairs))
        same = any(self._equal(*pair) for pair in [*pairs, *bare])
        return Verdict(reward=float(same and not expressions.of_two_kinds(gold, given)))

    def check(self, answer: str) -> str | None:
        """Returns why an answer cannot be parsed; plain numbers and choices are not tried."""
        if not answer.strip():
            return "it is empty"
        if expressions.is_simple(answer) or expressions.CHOICE.fullmatch(answer.strip()):
            return None
        try:
            gold = _parsed(expressions.as_math(answer), strictly=True)
        except ModuleNotFoundError:
            raise
        except Exception as error:  # of whatever the library's grammar does
            return f"math-verify cannot parse it ({type(error).__name__})"
        timed = not expressions.is_number_at_all(gold) and expressions.clock(answer)
        return None if timed else _unusable(gold)

    def _equal(self, gold: Any, given: Any) -> bool:
        library: Any = import_module("math_verify")  # untyped
        options = {"timeout_seconds": None, "raise_on_error": True, "strict": self.strict}
        options |= {"float_rounding": self.precision, "allow_set_relation_comp": not self.strict}
        try:
            equal = library.verify(gold, given, **options)
        except KeyError as error:
            if "Unequality" not in str(error):
                raise
            return False  # the library knows no inverse of `\\ne`, and has tried all else by then
        return equal and not expressions.apart(gold, given, precision=self.precision)


def _parsed(text: str, *, strictly: bool) -> list[Any]:
    library: Any = import_module("math_verify")  # untyped
    if expressions.is_huge(text):
        return []
    found = library.parse(text, parsing_timeout=None, raise_on_error=strictly)
    return found if expressions.is_whole(found) else []


def _unusable(gold: list[Any]) -> str | None:
    """Returns what is wrong with what the library has found in an answer, or None."""
    if all(isinstance(found, str) for found in gold):
        return "math-verify finds nothing that it can parse"
    return None if expressions.is_number_at_all(gold) else "math-verify finds a division by zero"
