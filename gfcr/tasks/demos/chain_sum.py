"""Chain sums answered in mixed styles: a policy trained on them can solve, but often chooses badly.

Of all demonstrations 30 % answer at once. The others go step by step; a step takes in each further
term with probability 0.25, 5 % of the steps slip (70 % of the slips are noticed: `?`, and the step
is redone) and 5 % of the right steps are checked again for nothing. Supervised training cannot
prefer one style; reinforcement learning moves the mass to short steps, so reward and length grow.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import ClassVar, Final, final

from gfcr.tasks.chain_sum import ALPHABET, MAX_TOTAL, ChainSum, is_heldout, question
from gfcr.tasks.demos.base import Demonstration, Demonstrations, Recipe, draft


@final
@dataclass(frozen=True, kw_only=True)
class Styles:
    """The style of worked sums: shares of their ways of working, and of slips."""

    direct: float = 0.30
    """Share of the answers without steps."""
    merge: float = 0.25
    """Probability that a step takes in one more term, drawn again after each."""
    slip: float = 0.05
    notice: float = 0.70
    """Share of the slips that are redone; the others are carried on, if totals stay in range."""
    recheck: float = 0.05
    lowest: int = 0
    """Least total that a slip may lead to; the greatest is 99."""

    def work(self, terms: tuple[int, ...], *, rng: random.Random) -> str:
        """Writes one answer to a sum, in a style drawn at random."""
        if rng.random() < self.direct:
            return f"#{sum(terms)}"
        steps: list[str] = []
        total, rest = terms[0], list(terms[1:])
        while rest:
            taken = [rest.pop(0)]
            while rest and rng.random() < self.merge:
                taken.append(rest.pop(0))
            step, total = self._step(total, taken, rest=rest, rng=rng)
            steps.append(step)
        return f"{','.join(steps)}#{total}"

    def _step(
        self, total: int, taken: list[int], *, rest: list[int], rng: random.Random
    ) -> tuple[str, int]:
        left = question((total, *taken))
        right = total + sum(taken)
        if rng.random() < self.slip:
            wrong = self._slipped(right, rng=rng)
            if rng.random() >= self.notice and self._in_range(wrong, rest):
                return f"{left}{wrong}", wrong
            return f"{left}{wrong}?{left}{right}", right
        if rng.random() < self.recheck:
            return f"{left}{right}?{left}{right}", right
        return f"{left}{right}", right

    def _in_range(self, total: int, rest: list[int]) -> bool:
        return all(self.lowest <= t <= MAX_TOTAL for t in accumulate(rest, initial=total))

    def _slipped(self, right: int, *, rng: random.Random) -> int:
        near = (right + offset for offset in (-10, -2, -1, 1, 2, 10))
        return rng.choice([n for n in near if self.lowest <= n <= MAX_TOTAL])


@final
@dataclass(frozen=True, kw_only=True)
class ChainSumDemonstrations(Demonstrations):
    """Worked chain sums, held-out problems left out."""

    alphabet: ClassVar[str] = ALPHABET
    task: ChainSum = field(default_factory=ChainSum)
    styles: Styles = field(default_factory=Styles)

    def stream(self, *, seed: int) -> Iterator[Demonstration]:
        rng = random.Random(f"chain_sum/demonstrations/{seed}")
        while True:
            terms = self.task.draw(rng)
            text = question(terms)
            if not is_heldout(text):
                yield Demonstration(prompt=text, completion=self.styles.work(terms, rng=rng))


_TAIL: Final = ChainSumDemonstrations(task=ChainSum(max_terms=20, mean_terms=8.0))
RECIPES: Final = (
    Recipe(
        name="demo",
        about="1.05M parameters, chain sums of 3 to 14 terms",
        demonstrations=ChainSumDemonstrations(),
        steps=640,
        seconds=55,
    ),
    Recipe(
        name="demo-tail",
        about="1.05M parameters, chain sums of 3 to 20 terms: a longer tail",
        demonstrations=_TAIL,
        steps=700,
        seconds=65,
    ),
    Recipe(
        name="demo-30m",
        about="33.6M parameters, chain sums of 3 to 20 terms: decoding waits for memory",
        demonstrations=_TAIL,
        hidden=512,
        layers=8,
        heads=8,
        mlp=2048,
        steps=260,
        lr=2e-3,
        seconds=600,
    ),
    draft(
        "demo-draft",
        about="0.13M parameters, drafts for the model 'demo'",
        demonstrations=ChainSumDemonstrations(),
    ),
)
