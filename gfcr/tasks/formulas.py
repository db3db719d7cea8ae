"""Formulas of x such as `(x+3)*2`: the programs that a run begins with."""

import json
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from gfcr.tasks import chain_sum

_OPERATORS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": operator.mod,
}
_LARGEST: Final = 9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A chain of arithmetic steps on x."""

    steps: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """The formula as a Python expression."""
        said, sum_before = "x", False
        for sign, number in self.steps:
            # In Python * and % bind more tightly than the + or - of the step before.
            said = f"({said})" if sum_before and sign in "*%" else said
            said, sum_before = f"{said}{sign}{number}", sign in "+-"
        return said

    def table(self, inputs: Sequence[int]) -> tuple[int, ...]:
        """Returns its value for each x."""
        return tuple(map(self._at, inputs))

    def _at(self, x: int) -> int:
        for sign, number in self.steps:
            x = _OPERATORS[sign](x, number)
        return x


def draw(rng: random.Random) -> Formula:
    """Draws a formula of one or two steps, with numbers from 1 to 9."""
    signs = rng.choices([*_OPERATORS], k=rng.randint(1, 2))
    return Formula(steps=tuple((sign, rng.randint(1, _LARGEST)) for sign in signs))


def is_heldout(table: Sequence[int | None]) -> bool:
    """Returns whether a program belongs to the held-out eighth.

    Decided by its values: rewriting a held-out program, such as `x+3` as `3+x`, makes it none to
    train on.
    """
    return chain_sum.is_heldout(json.dumps([*table]))
