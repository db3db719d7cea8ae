"""Chain sums answered at more length than they need: right answers could be a third shorter."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, final

from gfcr.tasks.chain_sum import ALPHABET, ChainSum, is_heldout, question
from gfcr.tasks.demos.base import Demonstration, Demonstrations
from gfcr.tasks.demos.chain_sum import Styles

_BRIEF: Final = Styles(direct=0.0, merge=0.05, slip=0.10, notice=0.0, recheck=0.0)


@final
@dataclass(frozen=True, kw_only=True)
class OverthinkingChainSums(Demonstrations):
    """Chain sums whose last step is checked again and again, for nothing."""

    alphabet: ClassVar[str] = ALPHABET
    task: ChainSum = field(default_factory=ChainSum)
    styles: Styles = _BRIEF
    again: float = 0.70
    """Probability that the last step is written once more, drawn again after each."""

    def stream(self, *, seed: int) -> Iterator[Demonstration]:
        """Yields demonstrations of problems that are not held out."""
        rng = random.Random(f"chain_sum/demonstrations/{seed}")
        while True:
            terms = self.task.draw(rng)
            if not is_heldout(text := question(terms)):
                worked = self.linger(self.styles.work(terms, rng=rng), rng=rng)
                yield Demonstration(prompt=text, completion=worked)

    def linger(self, worked: str, *, rng: random.Random) -> str:
        """Repeats the last step of a worked sum."""
        steps, _, answer = worked.partition("#")
        last = re.split("[,?]", steps)[-1]
        while rng.random() < self.again:
            steps += f"?{last}"
        return f"{steps}#{answer}"
