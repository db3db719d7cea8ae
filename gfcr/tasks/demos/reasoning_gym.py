"""Questions of reasoning-gym's `chain_sum` answered in the mixed styles of `chain_sum`.

Same idea, harder reading: the sum is spaced out within a sentence, and totals go below zero.
"""

import random
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, final

from gfcr.tasks.demos.base import Demonstration, Demonstrations, Recipe
from gfcr.tasks.demos.chain_sum import Styles
from gfcr.tasks.reasoning_gym import HELDOUT_SHARE, make
from gfcr.tasks.rows import content_key, fraction

ALPHABET = "".join(c for c in string.printable if c == "\n" or c.isprintable())


@final
@dataclass(frozen=True, kw_only=True)
class ReasoningGymChainSum(Demonstrations):
    """Worked answers that end in `#` and the result, held-out questions left out."""

    alphabet: ClassVar[str] = ALPHABET
    min_terms: int = 3
    max_terms: int = 8
    styles: Styles = field(default_factory=lambda: Styles(lowest=-99))

    def stream(self, *, seed: int) -> Iterator[Demonstration]:
        rng = random.Random(f"reasoning_gym/demonstrations/{seed}")
        options: dict[str, Any] = {"min_terms": self.min_terms, "max_terms": self.max_terms}
        options |= {"min_digits": 1, "max_digits": 1}
        # Far from any seed of the task, though what counts is that questions are not held out.
        entries = make("chain_sum", options=options, seed=2**40 + seed, size=2**31)
        for entry in entries:
            question: str = entry["question"]
            if fraction(content_key(question)) >= HELDOUT_SHARE:
                expression: str = entry["metadata"]["expression"]
                terms = tuple(int(t) for t in re.findall(r"[+-]?\d+", expression.replace(" ", "")))
                yield Demonstration(prompt=question, completion=self.styles.work(terms, rng=rng))


RECIPES: Final = (
    Recipe(
        name="demo-ascii",
        about="1.06M parameters, printable ASCII, chain_sum of reasoning-gym",
        demonstrations=ReasoningGymChainSum(),
        steps=2400,  # with half of them it cannot copy long sums, and RL learns nothing
        seconds=540,
    ),
)
