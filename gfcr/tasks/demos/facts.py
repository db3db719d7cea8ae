"""Text in the demo vocabulary on another subject, which a generic draft model has read."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, final

from gfcr.tasks.chain_sum import ALPHABET, MAX_TOTAL
from gfcr.tasks.demos.base import Demonstration, Demonstrations, draft


@final
@dataclass(frozen=True, kw_only=True)
class Facts(Demonstrations):
    """Lists of unrelated sums of two numbers: the symbols of the task, none of its chains."""

    alphabet: ClassVar[str] = ALPHABET
    max_facts: int = 8

    def stream(self, *, seed: int) -> Iterator[Demonstration]:
        """Yields lists of one to `max_facts` facts, the first of them asked by the prompt."""
        rng = random.Random(f"facts/{seed}")
        while True:
            facts = [self._fact(rng) for _ in range(rng.randint(1, self.max_facts))]
            prompt, _, rest = ",".join(facts).partition("=")
            yield Demonstration(prompt=f"{prompt}=", completion=f"{rest}#{rng.randint(0, 99)}")

    def _fact(self, rng: random.Random) -> str:
        total, first = rng.randint(0, MAX_TOTAL), rng.randint(0, MAX_TOTAL)
        return f"{first}{total - first:+d}={total}"


RECIPES: Final = (
    draft(
        "demo-draft-generic",
        about="0.13M parameters, the vocabulary of 'demo' without its task",
        demonstrations=Facts(),
    ),
)
